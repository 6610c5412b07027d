package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"sync"
	"time"
)

// Replica is a process of the inbox that is killed now and then. Run the program
// itself, not "go run": that one's child would survive it.
type Replica struct {
	Command []string  // the program and its arguments
	Env     []string  // nil: that of this process
	Log     io.Writer // gets what it prints; nil: nobody

	mu  sync.Mutex
	cmd *exec.Cmd
}

// Start starts the process, which must not be running. It lives until Kill, not until ctx
// ends.
func (r *Replica) Start(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), r.Command[0], r.Command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = r.Env, r.Log, r.Log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a replica: %w", err)
	}
	r.cmd = cmd
	return nil
}

var errEnded = errors.New("a replica had ended by itself")

// Kill ends the process with SIGKILL. It fails if that one had ended by itself.
func (r *Replica) Kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil {
		return nil
	}
	kill := r.cmd.Process.Kill()
	_ = r.cmd.Wait() // its state tells more than the error does
	state := r.cmd.ProcessState
	r.cmd = nil
	if kill != nil || state.Exited() {
		return fmt.Errorf("kill a replica: %w: %s", errEnded, state)
	}
	return nil
}

// Trouble says how often replicas die.
type Trouble struct {
	Every time.Duration // about so long between two deaths
	Times int           // so many in all
	Seed  uint64
}

// Make kills one of the replicas, any of them, and starts it again at once, as often
// as it should, or until ctx ends. It returns how often it did.
func (t Trouble) Make(ctx context.Context, replicas []*Replica) (killed int, err error) {
	rand := rand.New(rand.NewPCG(t.Seed, 8))
	for killed < t.Times {
		if !wait(ctx, t.Every/2+time.Duration(rand.Int64N(int64(t.Every)))) {
			break
		}
		victim := replicas[rand.IntN(len(replicas))]
		if err := victim.Kill(); err != nil {
			return killed, err
		}
		killed++
		if err := victim.Start(ctx); err != nil {
			return killed, err
		}
	}
	return killed, nil
}

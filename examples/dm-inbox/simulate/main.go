// Command simulate sends an inbox what Meta would send: signed conversations from
// Instagram and Messenger, in batches, out of order, some of it twice, with forged and
// broken requests in between.
//
//	go run ./examples/dm-inbox/simulate -events 2000
//
// With -db it then compares the inbox's tables with what they must be. With
// -replica, given once for each, it starts the inbox itself, and with -kill it ends
// one of them with SIGKILL again and again:
//
//	go build -o bin/dm-inbox ./examples/dm-inbox
//	go run ./examples/dm-inbox/simulate -events 20000 -kill 10 -db "$DB" \
//	  -replica "bin/dm-inbox -addr 127.0.0.1:8711 -replica a -db $DB" -url http://127.0.0.1:8711/webhooks/meta \
//	  -replica "bin/dm-inbox -addr 127.0.0.1:8712 -replica b -db $DB" -url http://127.0.0.1:8712/webhooks/meta
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste/examples/dm-inbox/sim"
)

// config is what can be set.
type config struct {
	plan     sim.Options
	target   sim.Target
	replicas []*sim.Replica
	trouble  sim.Trouble
	database string
	still    time.Duration
}

func main() {
	c := config{plan: sim.Options{
		Instagram: []string{"17841400000000001", "17841400000000002"}, Pages: []string{"1000001", "1000002"},
	}}
	flag.Func("url", "where the inbox takes Meta's webhooks; again for each replica (default http://127.0.0.1:8710/webhooks/meta)", func(v string) error {
		c.target.URLs = append(c.target.URLs, v)
		return nil
	})
	flag.StringVar(&c.target.Secret, "secret", "demo-app-secret-of-dm-inbox", "app secret that the inbox verifies with")
	flag.IntVar(&c.target.Workers, "workers", 8, "requests under way at once")
	flag.DurationVar(&c.target.Pause, "pause", 0, "of each worker after a request, so that a person can watch")
	flag.IntVar(&c.plan.Events, "events", 20_000, "different items; duplicates come on top")
	flag.Uint64Var(&c.plan.Seed, "seed", 1, "another one, other conversations")
	flag.IntVar(&c.plan.Customers, "customers", 0, "how many people write (default: one for each 40 events)")
	flag.Func("replica", "command that starts a replica of the inbox; again for each", func(v string) error {
		c.replicas = append(c.replicas, &sim.Replica{Command: strings.Fields(v), Log: os.Stderr})
		return nil
	})
	flag.IntVar(&c.trouble.Times, "kill", 0, "kill a replica so often, and start it again")
	flag.DurationVar(&c.trouble.Every, "kill-every", 2*time.Second, "about so long between two of those")
	flag.StringVar(&c.database, "db", "", "the inbox's database, to compare: postgres://… or inbox.db")
	flag.DurationVar(&c.still, "still", 45*time.Second, "give up comparing when nothing has changed for so long")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, c)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, c config) error {
	if len(c.target.URLs) == 0 {
		c.target.URLs = []string{"http://127.0.0.1:8710/webhooks/meta"}
	}
	plan, err := sim.NewPlan(c.plan)
	if err != nil {
		return err
	}
	fmt.Println("planned:", plan.Tables.Counts())
	defer func() {
		for _, r := range c.replicas {
			_ = r.Kill()
		}
	}()
	for _, r := range c.replicas {
		if err := r.Start(ctx); err != nil {
			return err
		}
	}
	if err := send(ctx, c, plan); err != nil {
		return err
	}
	if c.database == "" {
		return nil
	}
	return compare(ctx, c, plan)
}

// send sends while replicas are killed. The last of them may die when all has been
// taken, while the inbox is still at work on it.
func send(ctx context.Context, c config, plan *sim.Plan) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.trouble.Seed = c.plan.Seed
	var trouble sync.WaitGroup
	if c.trouble.Times > 0 && len(c.replicas) > 0 {
		trouble.Go(func() {
			killed, err := c.trouble.Make(ctx, c.replicas)
			fmt.Println("killed and started again:", killed)
			if err != nil {
				stop(err)
			}
		})
	}
	began := time.Now()
	report, err := plan.Send(ctx, c.target)
	fmt.Printf("sent in %v: %v\n", time.Since(began).Round(time.Millisecond), report)
	trouble.Wait()
	return errors.Join(err, context.Cause(ctx))
}

var errDiffer = errors.New("the tables differ from the plan")

func compare(ctx context.Context, c config, plan *sim.Plan) error {
	inbox, err := sim.OpenInbox(c.database)
	if err != nil {
		return err
	}
	defer func() { _ = inbox.Close() }()
	began := time.Now()
	got, differences, err := inbox.WaitFor(ctx, plan, c.still)
	if err != nil {
		return err
	}
	fmt.Printf("stored, after %v more: %v\n", time.Since(began).Round(time.Millisecond), got.Counts())
	for i, d := range differences {
		if i == 50 {
			fmt.Println("…")
			break
		}
		fmt.Println(d)
	}
	if len(differences) > 0 {
		return fmt.Errorf("%w: %d differences", errDiffer, len(differences))
	}
	fmt.Println("the tables are as planned")
	return nil
}

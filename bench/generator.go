//go:build linux

package main

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// generator sends the events of one flow.
type generator struct {
	templates []template // take turns, request by request; all hand over as many events
	rec       *recorder
	deadline  int64 // of the recorder's stopwatch: nothing is sent, or sent again, after it
}

// refusedPause is how long a sender waits after a 503. Much shorter than the
// Retry-After that goes with it: the load is to stay on, without a storm.
const refusedPause = 5 * time.Millisecond

// closedLoop sends every event, conns at a time, each as soon as a sender is
// free. It returns when all have been answered.
func (g generator) closedLoop(ctx context.Context, conns int) {
	var senders sync.WaitGroup
	var next atomic.Int64
	for range conns {
		senders.Go(func() {
			w := g.templates[0].newSender()
			defer w.close()
			for ctx.Err() == nil {
				n := g.templates[0].events()
				seq := int(next.Add(int64(n))) - n
				if seq >= len(g.rec.intended) || g.rec.watch.now() > g.deadline {
					return
				}
				for i := seq; i < min(seq+n, len(g.rec.intended)); i++ {
					g.rec.intended[i] = g.rec.watch.now()
				}
				g.deliver(ctx, w, seq)
			}
		})
	}
	senders.Wait()
}

// openLoop sends at a fixed rate whatever the answers, over at most conns
// connections. Each event counts from the moment when it was due, so an engine
// that stalls is charged for all that waited meanwhile.
func (g generator) openLoop(ctx context.Context, perSecond, conns int) {
	// The thread sleeps for itself: the runtime's timers wake up to a millisecond
	// late, which is as long as the wire and a commit take together.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var senders sync.WaitGroup
	slots := make(chan struct{}, conns)
	free := &wireStack{}
	defer free.closeAll()
	start := g.rec.watch.now()
	for seq := range g.rec.intended {
		due := start + int64(seq)*int64(time.Second)/int64(perSecond)
		g.rec.intended[seq] = due
		sleepUntil(g.rec.watch, due)
		if ctx.Err() != nil || g.rec.watch.now() > g.deadline {
			break
		}
		senders.Go(func() {
			slots <- struct{}{}
			w := free.pop()
			g.deliver(ctx, w, seq)
			free.push(w)
			<-slots
		})
	}
	senders.Wait()
}

// sleepUntil blocks the thread until the stopwatch shows at.
func sleepUntil(watch stopwatch, at int64) {
	for {
		left := at - watch.now()
		if left <= 0 {
			return
		}
		ts := syscall.NsecToTimespec(left)
		_ = syscall.Nanosleep(&ts, nil) // a signal wakes it early: the loop goes on
	}
}

// deliver hands the events of one request over, again while the engine answers 503.
func (g generator) deliver(ctx context.Context, w sender, seq int) {
	whole := g.templates[0].events()
	t := g.templates[seq/whole%len(g.templates)]
	n := min(whole, len(g.rec.intended)-seq)
	for {
		err := w.send(t, g.rec, seq)
		if err == nil {
			for i := seq; i < seq+n; i++ {
				g.rec.acked[i].Store(g.rec.watch.now())
			}
			return
		}
		g.rec.noteError(err)
		var refused *statusError
		if !errors.As(err, &refused) || refused.status != http.StatusServiceUnavailable {
			g.rec.failed.Add(int64(n))
			return
		}
		g.rec.refused.Add(1)
		if g.rec.watch.now() > g.deadline || ctx.Err() != nil {
			g.rec.failed.Add(int64(n))
			return
		}
		time.Sleep(refusedPause)
	}
}

// wireStack keeps idle connections. The last one used is the next one taken, so
// a low rate stays on few, warm connections.
type wireStack struct {
	mu    sync.Mutex
	wires []*wire
}

func (s *wireStack) pop() *wire {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wires) == 0 {
		return &wire{}
	}
	w := s.wires[len(s.wires)-1]
	s.wires = s.wires[:len(s.wires)-1]
	return w
}

func (s *wireStack) push(w *wire) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wires = append(s.wires, w)
}

func (s *wireStack) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.wires {
		w.close()
	}
}

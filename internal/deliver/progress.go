package deliver

import (
	"context"
	"net/http/httptrace"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// step is what an attempt is busy with.
type step int

const (
	stepConnect step = iota // where every attempt begins; a reused connection leaves it at once
	stepResolve
	stepTLS
	stepWrite
	stepHeaders
	stepBody
)

// progress follows one attempt through its steps, on the goroutine of Send.
type progress struct {
	began    time.Time
	deadline time.Time
	step     step
	timings  posthaste.Timings
}

// begin starts the clock of an attempt.
func begin(ctx context.Context, timeout time.Duration) progress {
	now := time.Now()
	p := progress{began: now, deadline: now.Add(timeout)}
	if earlier, ok := ctx.Deadline(); ok && earlier.Before(p.deadline) {
		p.deadline = earlier
	}
	return p
}

// total returns the timings of an attempt that ends now.
func (p *progress) total() posthaste.Timings {
	t := p.timings
	t.Total = time.Since(p.began)
	return t
}

// dialling follows a dial. Its hooks run on the goroutines of package net, the
// losers of a race between IPv6 and IPv4 also after the dial has ended, hence
// the lock.
type dialling struct {
	mu      sync.Mutex
	over    bool
	step    step
	started time.Time // when the step in hand began
	timings posthaste.Timings
	racing  int   // connects at once
	failure error // of a connect, that this server is not the cause of
}

func (d *dialling) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { d.enter(stepResolve) },
		DNSDone:      func(info httptrace.DNSDoneInfo) { d.leave(stepResolve, info.Err) },
		ConnectStart: func(string, string) { d.connectStart() },
		ConnectDone:  func(_, _ string, err error) { d.connectDone(err) },
	})
}

func (d *dialling) enter(s step) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.step, d.started = s, time.Now()
	}
}

// leave ends a step. After an error the attempt stays at the step: that is where
// it failed, also if the deadline is what failed it.
func (d *dialling) leave(s step, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over || d.step != s {
		return
	}
	switch took := time.Since(d.started); s {
	case stepResolve:
		d.timings.DNS = took
	case stepTLS:
		d.timings.TLS = took
	}
	if err == nil {
		d.step = stepConnect
	}
}

func (d *dialling) connectStart() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	if d.racing++; d.timings.Connect == 0 && d.racing == 1 {
		d.step, d.started = stepConnect, time.Now()
	}
}

// connectDone counts from the first connect to the first one that succeeds; of
// several that fail, to the last.
func (d *dialling) connectDone(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && d.failure == nil && shortageOf(err) == "" {
		d.failure = err
	}
	if d.racing--; !d.over && d.step == stepConnect {
		d.timings.Connect = time.Since(d.started)
	}
}

// reason returns why a dial failed. Of several addresses that were tried, one that
// failed for a reason of its own counts: a server without IPv6 cannot connect to the
// IPv6 address of a receiver that refuses connections at its IPv4 address.
func (d *dialling) reason(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failure != nil && shortageOf(err) != "" {
		return d.failure
	}
	return err
}

// end tells the attempt how far the dial came, and stops listening to stragglers.
func (d *dialling) end(p *progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	p.step = d.step
	p.timings.DNS, p.timings.Connect, p.timings.TLS = d.timings.DNS, d.timings.Connect, d.timings.TLS
}

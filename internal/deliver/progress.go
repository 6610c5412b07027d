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

// progress follows one attempt through its steps. The hooks run on net/http's
// goroutines, some of them after the attempt has ended (a dial whose connection
// goes to another attempt), hence the lock, and no reuse through a pool.
type progress struct {
	deadline time.Time
	began    time.Time

	mu       sync.Mutex
	step     step
	hasConn  bool
	started  time.Time // when the step in hand began: DNS, connect, TLS or the wait for the first byte
	timings  posthaste.Timings
	dialling int // connects at once: IPv6 and IPv4 race
}

type progressKey struct{}

func progressOf(ctx context.Context) *progress { return ctx.Value(progressKey{}).(*progress) }

// begin starts the clock of an attempt. The context that it returns ends at the
// deadline and carries the progress to hooks and dialer.
func begin(ctx context.Context, timeout time.Duration) (*progress, context.Context, context.CancelFunc) {
	p := &progress{began: time.Now()}
	p.deadline = p.began.Add(timeout)
	ctx, cancel := context.WithDeadline(ctx, p.deadline)
	if earlier, ok := ctx.Deadline(); ok {
		p.deadline = earlier
	}
	ctx = context.WithValue(ctx, progressKey{}, p)
	return p, httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              p.gotConn,
		WroteRequest:         p.wroteRequest,
		GotFirstResponseByte: p.gotFirstByte,
	}), cancel
}

// dialTrace is apart from the hooks that every attempt has: most attempts reuse
// a connection and never dial.
func (p *progress) dialTrace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		DNSStart:     func(httptrace.DNSStartInfo) { p.dialStep(stepResolve) },
		DNSDone:      func(info httptrace.DNSDoneInfo) { p.dialStepDone(stepResolve, info.Err) },
		ConnectStart: func(string, string) { p.connectStart() },
		ConnectDone:  func(_, _ string, err error) { p.connectDone(err) },
	}
}

// enter moves on to a step from the attempt's own goroutine.
func (p *progress) enter(s step) {
	p.mu.Lock()
	p.step = s
	p.mu.Unlock()
}

func (p *progress) gotConn(httptrace.GotConnInfo) {
	p.mu.Lock()
	p.hasConn, p.step, p.started = true, stepWrite, time.Now()
	p.mu.Unlock()
}

func (p *progress) wroteRequest(info httptrace.WroteRequestInfo) {
	p.mu.Lock()
	if info.Err == nil && p.step == stepWrite {
		p.step = stepHeaders
	}
	p.mu.Unlock()
}

func (p *progress) gotFirstByte() {
	p.mu.Lock()
	p.timings.FirstByte = time.Since(p.started)
	p.mu.Unlock()
}

// dialStep begins a step of a dial, unless the attempt has got a connection from
// elsewhere and no longer waits for this one.
func (p *progress) dialStep(s step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hasConn {
		p.step, p.started = s, time.Now()
	}
}

// dialStepDone ends it. After an error the attempt stays at the step: that is
// where it failed, also if the deadline is what failed it.
func (p *progress) dialStepDone(s step, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasConn || p.step != s {
		return
	}
	switch took := time.Since(p.started); s {
	case stepResolve:
		p.timings.DNS = took
	case stepTLS:
		p.timings.TLS = took
	}
	if err == nil {
		p.step = stepConnect
	}
}

func (p *progress) connectStart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hasConn {
		return
	}
	if p.dialling++; p.timings.Connect == 0 && p.dialling == 1 {
		p.step, p.started = stepConnect, time.Now()
	}
}

// connectDone counts from the first connect to the first one that succeeds; of
// several that fail, to the last.
func (p *progress) connectDone(error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dialling--; !p.hasConn && p.step == stepConnect {
		p.timings.Connect = time.Since(p.started)
	}
}

// snapshot returns where the attempt stands, and its timings up to now.
func (p *progress) snapshot() (step, posthaste.Timings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.timings
	t.Total = time.Since(p.began)
	return p.step, t
}

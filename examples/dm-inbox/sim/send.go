package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// Target is where to send to.
type Target struct {
	// URLs are the URL of the source at each replica; each request goes to the next.
	URLs []string
	// Secret is the app secret of the source.
	Secret string
	// Workers is how many requests are under way at once. Default: 8.
	Workers int
	// Pause is how long a worker waits after a request. Default: none.
	Pause time.Duration
}

// Report is what sending came to, in requests unless it says otherwise.
type Report struct {
	Taken     int64 // answered with 200
	Items     int64 // in those, duplicates included
	Again     int64 // items that were sent once more though they had been taken
	Retried   int64 // not answered with 200, or not at all
	Forged    int64 // with a wrong signature, answered with 401
	Malformed int64 // signed, but nothing that can be read
}

func (r *Report) String() string {
	return fmt.Sprintf("%d requests taken with %d items (%d of them again), %d tried again, %d forged ones refused, %d malformed ones",
		atomic.LoadInt64(&r.Taken), atomic.LoadInt64(&r.Items), atomic.LoadInt64(&r.Again),
		atomic.LoadInt64(&r.Retried), atomic.LoadInt64(&r.Forged), atomic.LoadInt64(&r.Malformed))
}

// Meta waits that long for an answer.
const patience = 5 * time.Second

// sender sends one plan.
type sender struct {
	target Target
	client *http.Client
	line   *line
	next   atomic.Int64
	report Report
}

// Send sends all of the plan and returns when each of its items has been taken.
// It fails if ctx ends before, or if a forged request was taken.
func (p *Plan) Send(ctx context.Context, t Target) (*Report, error) {
	if t.Workers <= 0 {
		t.Workers = 8
	}
	s := &sender{target: t, line: newLine(p), client: &http.Client{
		Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: t.Workers},
	}}
	defer s.client.CloseIdleConnections()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var workers sync.WaitGroup
	for range t.Workers {
		workers.Go(func() {
			if err := s.work(ctx); err != nil {
				stop(err)
			}
		})
	}
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return &s.report, fmt.Errorf("send the traffic: %w", err)
	}
	return &s.report, nil
}

// work sends until nothing is left.
func (s *sender) work(ctx context.Context) error {
	for ctx.Err() == nil {
		batch, finished := s.line.take()
		switch {
		case finished:
			return nil
		case len(batch) == 0:
			wait(ctx, 10*time.Millisecond)
			continue
		}
		if err := s.disturb(ctx, batch); err != nil {
			return err
		}
		s.deliver(ctx, batch)
		wait(ctx, s.target.Pause)
	}
	return nil
}

// deliver sends a request. Whatever is not 200 is a failure to Meta.
func (s *sender) deliver(ctx context.Context, batch []item) {
	text := body(batch)
	status, err := s.post(ctx, text, metatest.Sign(s.target.Secret, text))
	if err != nil || status != http.StatusOK {
		s.line.failed(batch)
		atomic.AddInt64(&s.report.Retried, 1)
		wait(ctx, 200*time.Millisecond) // Meta's first retry is as quick
		return
	}
	atomic.AddInt64(&s.report.Taken, 1)
	atomic.AddInt64(&s.report.Items, int64(len(batch)))
	atomic.AddInt64(&s.report.Again, int64(s.line.taken(batch)))
}

var errTaken = errors.New("a forged request was taken")

// disturb sends, now and then, what must leave no trace in the tables.
func (s *sender) disturb(ctx context.Context, batch []item) error {
	if s.line.chance(40) {
		// Each forged message would be seen in the tables.
		chat := metatest.Chat{Account: batch[0].account, Customer: "666"}
		text := metatest.Encode(batch[0].object, metatest.Messaging(chat.Account, batch[0].at,
			chat.Text(batch[0].at, fmt.Sprintf("m_forged_%d", s.next.Load()), "forged")))
		signature := metatest.Sign("the secret of somebody else", text)
		switch s.next.Load() % 4 {
		case 0:
			signature = ""
		case 1:
			signature = metatest.Sign(s.target.Secret, append(text[:len(text):len(text)], ' '))
		case 2:
			signature = "sha256=zz"
		}
		switch status, err := s.post(ctx, text, signature); {
		case err != nil: // nobody there: not sent again, since nobody waits for it
		case status == http.StatusUnauthorized:
			atomic.AddInt64(&s.report.Forged, 1)
		case status == http.StatusOK:
			return fmt.Errorf("%w: signature %q of %s", errTaken, signature, text)
		}
	}
	if s.line.chance(40) {
		text := body(batch)
		text = [][]byte{text[:len(text)/2], []byte("null"), {}, []byte(`{"object":[],"entry":7}`), []byte("\xff\xfe{")}[s.next.Load()%5]
		if _, err := s.post(ctx, text, metatest.Sign(s.target.Secret, text)); err == nil {
			atomic.AddInt64(&s.report.Malformed, 1)
		}
	}
	return nil
}

func (s *sender) post(ctx context.Context, text []byte, signature string) (int, error) {
	url := s.target.URLs[int(s.next.Add(1))%len(s.target.URLs)]
	request, err := metatest.NewRequest(ctx, url, s.target.Secret, text)
	if err != nil {
		return 0, fmt.Errorf("make the request: %w", err)
	}
	request.Header.Set(metatest.SignatureHeader, signature)
	answer, err := s.client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("send the request: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.Copy(io.Discard, answer.Body) // so that the connection can be used again
	return answer.StatusCode, nil
}

// wait reports whether the time has passed, rather than that ctx ended before.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

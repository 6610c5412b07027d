package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// refusals knows which work the database refuses whatever the data, such as on a full
// disk. That work waits, senders are answered 503, and readiness and a metric tell. The
// kinds of work are "accept" and "settle".
type refusals struct {
	mu sync.Mutex
	of map[string]refusalOf
}

// refusalOf is why one kind of work is refused.
type refusalOf struct {
	err  error
	last time.Duration // uptime of the last refusal
	row  int           // refusals in a row that looked like one row's fault
}

const (
	// refusalMemory is how long a refusal counts that nothing repeats: without traffic
	// nobody finds out that it has passed.
	refusalMemory = 15 * time.Second
	// rowRefusals is how many refusals in a row, of rows that stood alone, show that
	// the rows are not at fault.
	rowRefusals = 3
)

// refused notes an error of the database. It reports whether the database refuses the
// work, and not only what stood alone: such work waits.
func (p *Pipeline) refused(ctx context.Context, work string, err error, alone bool) bool {
	r := &p.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.of[work]
	now := refusalOf{err: was.err, last: uptime(), row: was.row}
	isRow := alone && !errors.Is(err, store.ErrUnavailable)
	if isRow {
		now.row++
	}
	isSystemic := errors.Is(err, store.ErrSystemic) || now.row >= rowRefusals
	if isSystemic {
		if now.err = err; was.err == nil {
			p.log.ErrorContext(ctx, "the database refuses to work: what is to be stored waits", "work", work, "err", err)
		}
		p.metrics.StoreRefused.WithLabelValues(work).Inc()
	}
	if r.of == nil {
		r.of = map[string]refusalOf{}
	}
	if isSystemic || isRow {
		r.of[work] = now
	}
	return isSystemic
}

// taken notes that the database took work of a kind.
func (p *Pipeline) taken(ctx context.Context, work string) {
	r := &p.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	was, ok := r.of[work]
	if !ok {
		return
	}
	delete(r.of, work)
	if was.err != nil {
		p.log.InfoContext(ctx, "the database works again", "work", work)
	}
}

// refuses returns why the database refuses to store what it is given, or nil. It is part
// of [Pipeline.Ready]; events are taken in all the same, since only they find out
// when the database works again.
func (p *Pipeline) refuses() error {
	r := &p.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, work := range []string{"accept", "settle"} {
		if of := r.of[work]; of.err != nil && uptime()-of.last < refusalMemory {
			return &posthaste.Error{
				Code: posthaste.CodeUnavailable, Message: "the database refuses to store " + map[string]string{"accept": "events", "settle": "outcomes of attempts"}[work],
				Hint: "see the log for the reason: a right, a full disk, an index, a constraint or trigger that is not Posthaste's", Err: of.err,
			}
		}
	}
	return nil
}

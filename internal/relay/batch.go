package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// stepTimeout bounds one batch, from its claim to its end.
const stepTimeout = 20 * time.Second

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// batch is a claim on its way to the engine.
type batch struct {
	claim     claim
	rows      []row // what is submitted
	in        []pipeline.Submission
	parked    []verdict
	done      []int64
	finishErr error
	finished  bool
	spilled   int // deliveries that found no room
}

// moved is what a step did.
type moved struct {
	claimed int // rows that were found
	gone    int // rows that left the outbox
}

// drained returns a context for one batch: it outlasts the end of ctx by the grace, so that a
// batch which was begun is brought to its end.
func (r *Relay) drained(ctx context.Context) (context.Context, context.CancelFunc) {
	return outlast(ctx, stepTimeout, r.cfg.Grace)
}

// outlast returns a context that ends after the longest time, or, if that is sooner, a
// grace after the end of ctx.
func outlast(ctx context.Context, longest, grace time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	stop := context.AfterFunc(ctx, func() {
		pause(lasting, grace)
		cancel()
	})
	return lasting, func() {
		stop()
		cancel()
	}
}

// step claims a batch, has it accepted, and ends the claim.
func (r *Relay) step(ctx context.Context) (moved, error) {
	ctx, cancel := r.drained(ctx)
	defer cancel()
	params := claimParams{rows: r.pace.rows(), bytes: batchBytes}
	for _, s := range r.suspects {
		params.skip = append(params.skip, s.id)
	}
	claim, err := r.box.claim(ctx, params)
	if err != nil {
		return moved{}, fmt.Errorf("claim rows of the outbox: %w", err)
	}
	defer claim.release()
	rows := claim.rows()
	if len(rows) == 0 {
		return moved{}, nil
	}
	b := &batch{claim: claim}
	if err := r.sort(ctx, b, rows); err != nil {
		return moved{claimed: len(rows)}, err
	}
	if err := r.accept(ctx, b); err != nil {
		return moved{claimed: len(rows)}, err
	}
	if !b.finished {
		b.finishErr = claim.finish(ctx, b.done, b.parked)
	}
	if b.finishErr != nil {
		return moved{claimed: len(rows)}, fmt.Errorf("end the claim on rows of the outbox: %w", b.finishErr)
	}
	r.note(ctx, b)
	return moved{claimed: len(rows), gone: len(b.done) + len(b.parked)}, nil
}

// sort decides which rows of a claim are submitted and which are parked. A row behind
// one of its order key that is parked, or may yet turn out to have to be, stays.
func (r *Relay) sort(ctx context.Context, b *batch, rows []row) error {
	held := map[string]bool{}
	for _, s := range r.suspects {
		held[s.orderKey] = true
	}
	for _, row := range rows {
		if r.narrow > 0 && len(b.in) == r.narrow {
			break
		}
		if row.orderKey != "" && held[row.orderKey] {
			continue
		}
		in, problem, err := r.submission(ctx, &row)
		if err != nil {
			return fmt.Errorf("look up the tenant of a row: %w", err)
		}
		if problem != nil {
			b.parked = append(b.parked, verdict{row.id, *problem})
			held[row.orderKey] = true
			continue
		}
		b.rows, b.in = append(b.rows, row), append(b.in, in)
		if row.idempotencyKey != "" { // may have been used for another event
			held[row.orderKey] = true
		}
	}
	return nil
}

// accept submits a batch. Nil: its outcome is in done and parked.
func (r *Relay) accept(ctx context.Context, b *batch) error {
	if len(b.in) == 0 {
		return nil
	}
	results := r.cfg.Pipeline.AcceptWith(ctx, b.in, func(ctx context.Context, p store.AcceptParams, places []int) (store.Accepted, error) {
		got, err := b.claim.accept(ctx, p)
		if err != nil || len(got.Stale) > 0 {
			return got, err
		}
		b.judge(p, places, got)
		if b.claim.isJoint() {
			if err := b.claim.finish(ctx, b.done, b.parked); err != nil {
				b.done = nil // perhaps: the connection may be gone with the answer
				return store.Accepted{}, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
			}
			b.finished = true
		}
		return got, nil
	})
	for _, result := range results {
		b.spilled += result.Receipt.Spilled
	}
	if b.finished || len(b.done) > 0 {
		return nil
	}
	for i, result := range results {
		switch code := posthaste.CodeOf(result.Err); {
		case errors.Is(result.Err, pipeline.ErrLater), code == posthaste.CodeNotFound, code == posthaste.CodeIdempotencyMismatch:
			// It stays, and is found to be of a deleted tenant next time; or is parked.
		case code == posthaste.CodeInternal:
			return &refusal{row: b.rows[i], rows: len(b.rows), err: result.Err}
		case result.Err != nil:
			return result.Err
		}
	}
	return nil
}

// refusal is an engine's error that may be one row's fault.
type refusal struct {
	row  row
	rows int
	err  error
}

func (e *refusal) Error() string {
	return fmt.Sprintf("the engine refuses %d rows of the outbox: %v", e.rows, e.err)
}

func (e *refusal) Unwrap() error { return e.err }

// judge sorts rows by what the engine answered.
func (b *batch) judge(p store.AcceptParams, places []int, got store.Accepted) {
	b.done = b.done[:0]
	for i, a := range got.Events {
		row, e := &b.rows[places[i]], &p.Events[i]
		if a.Stored || a.ID == e.ID || a.Sum == e.Sum {
			b.done = append(b.done, row.id)
			continue
		}
		b.parked = append(b.parked, verdict{row.id, reason{
			posthaste.CodeIdempotencyMismatch,
			fmt.Sprintf("the idempotency key was used for %s, which has another type or other bytes", a.ID.Print(posthaste.KindEvent)),
		}})
	}
}

// note counts a batch, and parks suspects: others were accepted, so it is not the engine.
func (r *Relay) note(ctx context.Context, b *batch) {
	r.cfg.Metrics.Relayed.WithLabelValues(r.name).Add(float64(len(b.done)))
	for _, v := range b.parked {
		r.notePark(ctx, v)
	}
	r.pace.note(len(b.done), b.spilled)
	if r.narrow *= 2; r.narrow >= r.cfg.Batch {
		r.narrow = 0
	}
	if len(b.done) > 0 {
		r.parkSuspects(ctx)
	}
}

// suspect is a row that the engine refused when it stood alone. It is left out of claims, and
// parked once others are accepted: until then it may be the engine that is at fault.
type suspect struct {
	id       int64
	orderKey string
	why      string
}

// maxSuspects bounds them: where so many rows in turn are refused, it is the engine.
const maxSuspects = 100

func (r *Relay) parkSuspects(ctx context.Context) {
	for _, s := range r.suspects {
		v := verdict{s.id, reason{posthaste.CodeInternal, s.why}}
		if err := r.box.park(ctx, v); err != nil {
			r.log.WarnContext(ctx, "a row that the engine refuses could not be parked", "outbox", r.name, "row", s.id, "err", err)
			continue
		}
		r.notePark(ctx, v)
	}
	r.suspects = nil
}

func (r *Relay) notePark(ctx context.Context, v verdict) {
	r.cfg.Metrics.Parked.WithLabelValues(r.name).Inc()
	r.log.WarnContext(ctx, "outbox row parked", "outbox", r.name, "row", v.id, "code", v.code, "reason", v.text)
}

// refused narrows a refusal down: to half of the rows, and in the end to one.
func (r *Relay) refused(e *refusal) {
	switch {
	case e.rows > 1:
		r.narrow = e.rows / 2
	case len(r.suspects) == maxSuspects:
		r.suspects = nil
	default:
		r.suspects = append(r.suspects, suspect{id: e.row.id, orderKey: e.row.orderKey, why: e.err.Error()})
	}
}

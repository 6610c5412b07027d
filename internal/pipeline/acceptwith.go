package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Commit stores a batch as [store.Acceptance] says, all of it or nothing, and what else
// the caller wants to be committed with it. Event i of the batch is submission places[i].
type Commit func(ctx context.Context, p store.AcceptParams, places []int) (store.Accepted, error)

// ErrLater answers a submission that was not tried, since what came before it filled a
// commit. Nothing of it is stored.
var ErrLater = errors.New("left for a later commit")

// maxFanOutTogether bounds the deliveries of one such commit, where there is more than
// one event.
const maxFanOutTogether = 4 * bigFanOut

// commitRounds bounds how often a batch is matched anew because routing moved on, or the
// replica had to beat first.
const commitRounds = 5

// AcceptWith stores submissions in one commit of the caller's making, in their order: each
// is stored before those that follow it, or none of them is. Submissions are for a source
// whose own state changes with that commit, so it is never run a second time here: after
// [posthaste.CodeUnavailable] the caller has to find out what was committed, by submitting
// the same keys again. Other errors are those of [Pipeline.Accept]; [ErrLater] for a tail
// that did not fit.
//
// It asks for no role: whoever relays may do it on a replica that takes no requests.
func (p *Pipeline) AcceptWith(ctx context.Context, in []Submission, commit Commit) []Result {
	group := make([]*submission, len(in))
	out := make([]Result, len(in))
	for i := range in {
		group[i] = newSubmission(in[i])
	}
	if err := p.running(); err != nil {
		p.refuse(group, "unavailable", err)
	} else if size := weightOf(group); !p.load.admit(len(group), size) {
		p.refuse(group, "overloaded", errOverloaded)
	} else {
		p.commitWith(ctx, group, commit)
		p.load.committed(len(group), size)
	}
	for i, s := range group {
		out[i] = s.result
	}
	return out
}

func (p *Pipeline) commitWith(ctx context.Context, group []*submission, commit Commit) {
	err := p.awake(ctx)
	if err == nil {
		err = p.ensureRouting(ctx, group)
	}
	if err != nil {
		p.refuse(group, "unavailable", unavailable(err))
		return
	}
	places := make(map[*submission]int, len(group))
	for i, s := range group {
		places[s] = i
	}
	batch := slices.Clone(group)
	for round := 0; len(batch) > 0; round++ {
		for _, s := range batch {
			p.matchAgain(s, unstored)
		}
		batch = p.fitTogether(p.prepare(batch), places)
		if len(batch) == 0 {
			break
		}
		params := p.acceptParams(batch)
		order := make([]int, len(batch))
		for i, s := range batch {
			order[i] = places[s]
		}
		done, err := p.tryCommit(ctx, batch, params, func(ctx context.Context) (store.Accepted, error) { return commit(ctx, params, order) })
		if done {
			break
		}
		if err != nil || round == commitRounds {
			p.giveUp(batch, unstored, cmp.Or(err, unavailable(errRoutingMoves)))
			break
		}
	}
	for _, s := range group {
		s.result = <-s.answer
		if s.result.Err == nil {
			p.logAccept(ctx, s, s.result.Receipt)
		}
	}
}

var errRoutingMoves = errors.New("the routing moves on faster than events are matched")

// tryCommit runs the commit once. Done: the batch is answered. An error: nothing was
// stored, and nothing will be. Neither: try again.
func (p *Pipeline) tryCommit(
	ctx context.Context, batch []*submission, params store.AcceptParams, commit func(context.Context) (store.Accepted, error),
) (done bool, err error) {
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, acceptTimeout)
	got, err := commit(call)
	timedOut := call.Err() != nil && ctx.Err() == nil
	cancel()
	if timedOut {
		p.acceptSize.timedOut(rowsOf(batch), uptime())
	}
	switch {
	case err == nil && len(got.Stale) == 0:
		p.acceptSize.succeeded(uptime())
		p.taken(ctx, "accept")
		p.metrics.AcceptBatch.Observe(float64(len(batch)))
		p.metrics.AcceptSeconds.Observe(time.Since(began).Seconds())
		p.accepted(batch, params, got)
		return true, nil
	case err == nil:
		call, cancel := context.WithTimeout(ctx, acceptTimeout)
		err = p.routing.refresh(call, got.Stale)
		cancel()
	case errors.Is(err, store.ErrFenced):
		err = p.renew(ctx)
	case errors.Is(err, store.ErrUnavailable):
		p.refused(ctx, "accept", err, false)
		p.giveUp(batch, unknown, unavailable(err))
		return true, nil
	default:
		return false, &posthaste.Error{Code: posthaste.CodeInternal, Message: "the event could not be stored", Err: err}
	}
	if err != nil {
		return false, unavailable(err)
	}
	return false, nil
}

// fitTogether answers those that come after too many deliveries with ErrLater, and returns
// the others, sorted as they were.
func (p *Pipeline) fitTogether(batch []*submission, places map[*submission]int) []*submission {
	total := 0
	for _, s := range batch {
		total += len(s.targets)
	}
	limit := min(maxFanOutTogether, p.acceptSize.limit())
	if total <= limit {
		return batch
	}
	inOrder := slices.SortedFunc(slices.Values(batch), func(a, b *submission) int { return cmp.Compare(places[a], places[b]) })
	fits, total := 0, len(inOrder[0].targets)
	for fits++; fits < len(inOrder) && total+len(inOrder[fits].targets) <= limit; fits++ {
		total += len(inOrder[fits].targets)
	}
	first := places[inOrder[fits-1]]
	return slices.DeleteFunc(batch, func(s *submission) bool {
		if places[s] <= first {
			return false
		}
		p.unreserve(s)
		p.ledger.release(s.entry)
		s.answer <- Result{Err: ErrLater}
		return true
	})
}

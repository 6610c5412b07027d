package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// together is a group of submissions that is stored as a whole or not at all.
type together struct {
	parent  *submission // the event that the others come from, where it is one of them
	refusal error       // why one of them, and so the whole, cannot be stored
}

// maxTogether bounds one group, so that it never asks for more than is admitted
// at once. No provider packs more than 1,000 items into a request; whoever can sign could.
const maxTogether = 2000

// AcceptTogether stores an event and those that are made of it in one commit, all
// of them or none: a request that many events come in is answered once. The
// children carry the parent's id and belong to its chain. Each is deduplicated
// by its own key, and a key that is known is never an error: a yes to the whole
// is the only answer that ends a provider's repetitions, so the first one is kept
// whatever the bytes. Children beyond 2,000, or beyond the rows of one commit, follow in
// commits of their own.
//
// The receipts are in order, the parent's first. The error is one of
// [Pipeline.Accept]; after it the same call again stores what is missing.
func (p *Pipeline) AcceptTogether(ctx context.Context, parent Submission, children []Submission) ([]Receipt, error) {
	parent.KeepFirst = true
	if len(children) == 0 {
		r, err := p.Accept(ctx, parent)
		return []Receipt{r}, err
	}
	for try := 1; ; try++ {
		receipts, err := p.acceptTogether(ctx, parent, children)
		if try == togetherTries || !errors.Is(err, store.ErrParentKept) {
			return receipts, err
		}
	}
}

// togetherTries is how often a group is stored anew whose parent has just been stored
// by others. Once is enough, unless retention purges that one at this very moment.
const togetherTries = 3

func (p *Pipeline) acceptTogether(ctx context.Context, parent Submission, children []Submission) ([]Receipt, error) {
	first := newSubmission(parent)
	kept, err := p.keptParent(ctx, first)
	if err != nil {
		return nil, err
	}
	if err := p.ensureRouting(ctx, []*submission{first}); err != nil { // to know how many fit together
		return nil, unavailable(err)
	}
	var receipts []Receipt
	if kept != nil {
		receipts = append(receipts, p.keptReceipt(ctx, first, *kept))
	}
	for len(children) > 0 {
		n := p.childrenTogether(first, children)
		chunk := children[:n]
		children = children[n:]
		t, group := &together{}, []*submission{}
		if len(receipts) == 0 {
			t.parent, group = first, append(group, first)
		}
		for _, child := range chunk {
			child.KeepFirst = true
			s := newSubmission(child)
			if t.parent == nil { // the parent is stored: its new children belong to what is stored
				s.Event.Parent, s.Event.CorrelationID = receipts[0].ID, first.event.CorrelationID
			}
			group = append(group, s)
		}
		for _, s := range group {
			s.together, s.givenUp = t, group[0].givenUp
		}
		p.submit(ctx, group)
		for _, s := range group {
			if s.result.Err != nil {
				return nil, s.result.Err
			}
			receipts = append(receipts, s.result.Receipt)
		}
	}
	return receipts, nil
}

// childrenTogether returns how many of an event's children go into one commit, at
// least one: as many as make no more rows than a commit has, parent included.
func (p *Pipeline) childrenTogether(parent *submission, children []Submission) int {
	limit := p.acceptSize.limit()
	rows := p.rowsByRouting(parent.Submission)
	for n, child := range children {
		rows += p.rowsByRouting(child)
		if n == maxTogether || n > 0 && rows > limit {
			return n
		}
	}
	return len(children)
}

// rowsByRouting returns how many rows an event makes by the routing in memory: its own and
// those of its deliveries.
func (p *Pipeline) rowsByRouting(in Submission) int {
	targets, err := p.targetsOf(&submission{Submission: in})
	if err != nil {
		return 1 // the commit will tell why
	}
	return 1 + len(targets)
}

// keptParent returns the event that stands for a parent's key already, or nil. It
// has to be known before the children are stored with its id. Where two first
// deliveries are on their way at once both find none; then one of them stores the
// parent, and the other one looks again if it has children of its own
// ([store.ErrParentKept]).
func (p *Pipeline) keptParent(ctx context.Context, s *submission) (*store.KeptEvent, error) {
	if s.Event.IdempotencyKey == "" {
		return nil, nil //nolint:nilnil // no key, no event of it
	}
	call, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	kept, err := p.store.EventOfKey(call, store.KeyParams{Tenant: s.Tenant.No, Namespace: s.Namespace, Key: s.key})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil //nolint:nilnil // as above
	case err != nil:
		return nil, unavailable(err)
	}
	return &kept, nil
}

// keptReceipt answers a parent that was stored before.
func (p *Pipeline) keptReceipt(ctx context.Context, s *submission, kept store.KeptEvent) Receipt {
	s.event = s.Event
	s.event.ID, s.event.CorrelationID = kept.ID, kept.CorrelationID
	r := Receipt{ID: kept.ID, Type: s.Event.Type, Deliveries: kept.FanOut, Duplicate: true, Differs: kept.Sum != s.sum}
	p.metrics.Accepted.WithLabelValues("duplicate").Inc()
	p.logAccept(ctx, s, r)
	return r
}

// inherit gives an event that has its id its place in a chain. The parent has its
// id by then: it comes first in its group, which is not sorted before.
func (s *submission) inherit() {
	if t := s.together; t != nil && t.parent != nil && t.parent != s {
		s.event.Parent, s.event.CorrelationID = t.parent.event.ID, t.parent.event.CorrelationID
	}
	if s.event.CorrelationID.IsZero() {
		s.event.CorrelationID = s.event.ID
	}
}

// refuse notes why a submission cannot be stored, nor those that are stored with it.
func (s *submission) refuse(err error) {
	s.refusal = err
	if s.together != nil {
		s.together.refusal = err
	}
}

func (s *submission) refused() error {
	if s.together != nil {
		return s.together.refusal
	}
	return s.refusal
}

// cut takes from a batch what goes into one statement: at most limit rows, events and
// deliveries together, and acceptBatchBytes of payloads, without parting what is stored
// together. It has the submissions matched until that is known. An event with a very
// large fan-out stands alone, or with those that it is stored with. At least one unit
// is taken. rest is in memory of its own.
func cut(batch []*submission, limit int, match func(*submission)) (first, rest []*submission) {
	rows, size := 0, 0
	units := unitsOf(batch)
	for i, unit := range units {
		isBig, n := false, payloadBytes(unit)
		for _, s := range unit {
			match(s)
			isBig = isBig || len(s.targets) > bigFanOut
		}
		if i > 0 && (isBig || rows+rowsOf(unit) > limit || size+n > acceptBatchBytes) {
			return first, slices.Concat(units[i:]...)
		}
		first, rows, size = append(first, unit...), rows+rowsOf(unit), size+n
		if isBig {
			return first, slices.Concat(units[i+1:]...)
		}
	}
	return first, nil
}

// rowsOf returns how many events and deliveries a batch makes.
func rowsOf(batch []*submission) (n int) {
	for _, s := range batch {
		n += 1 + len(s.targets)
	}
	return n
}

// halve splits a batch in two without parting what is stored together. The first
// half is empty where that leaves nothing to split.
func halve(batch []*submission) (first, rest []*submission) {
	units := unitsOf(batch)
	half := len(units) / 2
	return slices.Concat(units[:half]...), slices.Concat(units[half:]...)
}

// unitsOf returns the submissions of a batch, those that are stored together in one unit.
func unitsOf(batch []*submission) (units [][]*submission) {
	if !slices.ContainsFunc(batch, func(s *submission) bool { return s.together != nil }) {
		return slices.Collect(slices.Chunk(batch, 1))
	}
	places := map[*together]int{}
	for _, s := range batch {
		at, known := places[s.together]
		if s.together == nil || !known {
			at = len(units)
			units = append(units, nil)
			places[s.together] = at
		}
		units[at] = append(units[at], s)
	}
	return units
}

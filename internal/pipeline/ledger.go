package pipeline

import (
	"slices"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// ledger knows which ids of this process are not resolved yet: being committed,
// or born leased and not settled. Minting and noting are one step, so that the
// low-water mark can never pass an id that is about to be used.
type ledger struct {
	mu     sync.Mutex
	minter posthaste.Minter
	open   []*entry // in the order of their ids; resolved ones leave when they are the first
	head   int
	old    []*entry // of before the minter began anew, with higher ids
}

// entry is one minted event id. It is resolved when nothing holds it.
type entry struct {
	id    posthaste.ID
	holds int // 1 while uncommitted, and 1 for each delivery born leased and not settled

	// abandonedAt is set when the outcome of its commit never became known and
	// its sender was told so: sinceBoot of that moment, else 0.
	abandonedAt time.Duration
}

// mint makes an id and holds it once.
func (l *ledger) mint(now time.Time) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entry{id: l.minter.Mint(now), holds: 1}
	l.open = append(l.open, e)
	return e
}

// hold adds n holds to an entry that is held.
func (l *ledger) hold(e *entry, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.holds += n
}

// release takes one hold off an entry; nil is allowed.
func (l *ledger) release(e *entry) {
	if e == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.holds--
}

// abandon keeps an entry open whose commit may or may not have happened.
func (l *ledger) abandon(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.abandonedAt = sinceBoot()
}

// resolve ends the abandonment of an entry whose fate is known: from now on only
// what was adopted of it holds it.
func (l *ledger) resolve(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.abandonedAt = 0
	e.holds--
}

// abandonAfter is how long after it was given up a commit may still take
// effect: longer than any statement may run (the drivers end one after 15 s).
const abandonAfter = 20 * time.Second

// ahead returns how far the minter is ahead of the clock.
func (l *ledger) ahead(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.minter.Mint(now).Time().Sub(now)
}

// setBack lets the minter begin anew from the clock, which was set back. What is not
// resolved yet stays so. A commit that was given up needs no answer any more: the new
// epoch that has to follow fences it.
func (l *ledger) setBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.open[l.head:] {
		if e.holds > 0 && e.abandonedAt == 0 {
			l.old = append(l.old, e)
		}
	}
	l.minter, l.open, l.head = posthaste.Minter{}, nil, 0
}

// lowWater returns the lowest id that is not resolved, or, if all are, one that
// is above every id minted so far, and the abandoned entries below it whose
// fate the database can now tell.
func (l *ledger) lowWater(now time.Time) (posthaste.ID, []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.old = slices.DeleteFunc(l.old, func(e *entry) bool { return e.holds <= 0 })
	low, abandoned := l.lowest(now)
	for _, e := range l.old {
		if e.id.Compare(low) < 0 {
			low = e.id
		}
	}
	return low, abandoned
}

func (l *ledger) lowest(now time.Time) (posthaste.ID, []*entry) {
	var abandoned []*entry
	ripe := sinceBoot() - abandonAfter
	for i, e := range l.open[l.head:] {
		switch {
		case e.holds <= 0:
			if i == 0 && len(abandoned) == 0 {
				l.head++
			}
		case e.abandonedAt != 0 && e.abandonedAt <= ripe:
			abandoned = append(abandoned, e)
		default:
			l.compact()
			return e.id, abandoned
		}
	}
	l.compact()
	return l.minter.Mint(now), abandoned
}

// unresolved reports whether an id is not resolved yet, that of a commit given up
// included: until the database can tell whether it happened, a beat has to come and ask.
func (l *ledger) unresolved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.compact()
	l.old = slices.DeleteFunc(l.old, func(e *entry) bool { return e.holds <= 0 })
	return l.head < len(l.open) || len(l.old) > 0
}

// compact gives back the space before head once it is most of the slice.
func (l *ledger) compact() {
	for l.head < len(l.open) && l.open[l.head].holds <= 0 {
		l.head++
	}
	if l.head > 1024 && l.head > len(l.open)/2 {
		l.open = slices.Clone(l.open[l.head:])
		l.head = 0
	}
}

package pipeline

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posthaste-dev/posthaste"
)

var testNow = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

func TestLowWaterNeverPassesWhatIsOpen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l ledger
		open := map[posthaste.ID]*entry{}
		last := posthaste.ID{}
		t.Repeat(map[string]func(*rapid.T){
			"mint": func(*rapid.T) {
				e := l.mint(testNow)
				open[e.id] = e
			},
			"hold and release": func(t *rapid.T) {
				for _, e := range open {
					n := rapid.IntRange(0, 3).Draw(t, "holds")
					l.hold(e, n)
					for range n {
						l.release(e)
					}
					break
				}
			},
			"resolve": func(*rapid.T) {
				for id, e := range open {
					l.release(e)
					delete(open, id)
					break
				}
			},
			"": func(t *rapid.T) {
				low, _ := l.lowWater(testNow)
				for id := range open {
					if id.Compare(low) < 0 {
						t.Fatalf("low water %x passed the open id %x", low, id)
					}
				}
				if len(open) > 0 && open[low] == nil {
					t.Fatalf("low water %x is not the lowest open id", low)
				}
				if low.Compare(last) < 0 {
					t.Fatalf("low water fell from %x to %x", last, low)
				}
				last = low
			},
		})
	})
}

func TestAbandonedEntriesHoldTheMarkUntilTheirFateIsKnown(t *testing.T) {
	var l ledger
	e := l.mint(testNow)
	l.abandon(e)
	low, abandoned := l.lowWater(testNow)
	if low != e.id || len(abandoned) != 0 {
		t.Fatalf("a commit given up just now may still happen: low water %x, abandoned %d", low, len(abandoned))
	}
	e.abandonedAt = sinceBoot() - abandonAfter
	low, abandoned = l.lowWater(testNow)
	if low.Compare(e.id) <= 0 || len(abandoned) != 1 || abandoned[0] != e {
		t.Fatalf("low water %x, abandoned %v", low, abandoned)
	}
	l.release(e)
	if _, abandoned = l.lowWater(testNow); len(abandoned) != 0 {
		t.Error("a released entry is still abandoned")
	}
}

func TestLedgerForgetsResolvedEntries(t *testing.T) {
	var l ledger
	for range 10_000 {
		l.release(l.mint(testNow))
	}
	l.lowWater(testNow)
	if n := len(l.open) - l.head; n != 0 {
		t.Errorf("%d resolved entries are kept", n)
	}
	if cap(l.open) > 2048 {
		t.Errorf("room for %d entries is kept", cap(l.open))
	}
}

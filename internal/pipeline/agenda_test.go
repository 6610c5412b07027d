package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

func dueAt(t *testing.T, a *agenda, now time.Time) []store.EndpointNo {
	t.Helper()
	ready, _ := a.due(now)
	slices.Sort(ready)
	return ready
}

func TestAgendaIsNeverEarlyAndHardlyLate(t *testing.T) {
	for _, tc := range []struct{ wait, late time.Duration }{
		{5 * time.Second, 100 * time.Millisecond},
		{5 * time.Minute, time.Second},
		{24 * time.Hour, time.Minute},
	} {
		a := newAgenda(func() time.Time { return testNow })
		at := testNow.Add(tc.wait + 1234*time.Microsecond)
		a.note(7, at, testNow)
		if got := dueAt(t, a, at.Add(-time.Microsecond)); len(got) != 0 {
			t.Errorf("%v: ready before its time: %v", tc.wait, got)
		}
		_, next := a.due(testNow)
		if next.Before(at) || next.After(at.Add(tc.late)) {
			t.Errorf("%v: wakes at %v, want between %v and %v later", tc.wait, next, at, tc.late)
		}
		if got := dueAt(t, a, at.Add(tc.late)); !slices.Equal(got, []store.EndpointNo{7}) {
			t.Errorf("%v: not ready in time: %v", tc.wait, got)
		}
	}
}

func TestAgendaOfManyRetriesIsSmall(t *testing.T) {
	a := newAgenda(func() time.Time { return testNow })
	for i := range 1_000_000 {
		a.note(store.EndpointNo(i%3), testNow.Add(2*time.Hour+time.Duration(i)*time.Millisecond), testNow)
	}
	entries := 0
	for _, b := range a.buckets {
		entries += len(b)
	}
	if entries > 3*20 {
		t.Errorf("a million retries within 17 minutes take %d entries", entries)
	}
}

func TestAgendaKeepsAnEndpointUntilAClaimFromTheStartFindsTooLittle(t *testing.T) {
	a := newAgenda(func() time.Time { return testNow })
	a.note(1, testNow, testNow)
	began := a.from(1)
	if !began.IsZero() {
		t.Fatalf("the first claim begins at %v, want the start", began)
	}
	a.claimed(1, testNow, began, false)
	began = a.from(1)
	if !began.Equal(testNow) {
		t.Fatalf("the next claim begins at %v, want where the last one ended", began)
	}
	a.claimed(1, testNow, began, true)
	if got := dueAt(t, a, testNow); len(got) != 1 {
		t.Fatal("forgotten although rows may have committed behind the floor")
	}
	began = a.from(1)
	if !began.IsZero() {
		t.Fatalf("begins at %v, want the start once more", began)
	}
	a.claimed(1, time.Time{}, began, true)
	if got := dueAt(t, a, testNow); len(got) != 0 {
		t.Error("still ready after a claim from the start found nothing")
	}
}

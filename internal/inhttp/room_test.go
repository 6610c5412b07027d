package inhttp

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// A flood of one source, of some sources from one address, or of one address to all
// sources leaves room for others.
func TestRoomIsShared(t *testing.T) {
	var r room
	flood := func(source posthaste.ID, address string) (shares []*share, bytes int64) {
		for range 10_000 {
			s := r.share(source, address)
			if s.take(64<<10) != nil {
				return shares, bytes
			}
			shares = append(shares, s)
			bytes += s.held
		}
		t.Fatal("there was no end of it")
		return nil, 0
	}
	var all []*share
	newcomer := func(what string, address string, bytes int64) {
		t.Helper()
		s := r.share(posthaste.NewSourceID(), address)
		if s.take(bytes) != nil {
			t.Errorf("after %s: no room for %d KiB of a newcomer, %d MiB are taken", what, bytes>>10, r.taken>>20)
		}
		s.release()
	}
	newcomer("nothing", "192.0.2.1:80", posthaste.MaxSourceBodyBytes)
	attacked := posthaste.NewSourceID()
	shares, bytes := flood(attacked, "192.0.2.1:80")
	all = append(all, shares...)
	if bytes > maxRoomBytes/3 {
		t.Errorf("one source has %d MiB", bytes>>20)
	}
	newcomer("a flood of one source", "192.0.2.1:81", 8<<20)
	for i := range 200 { // more addresses for the same source change nothing
		more, _ := flood(attacked, fmt.Sprintf("198.51.100.%d:80", i))
		all = append(all, more...)
	}
	newcomer("a flood of one source from many addresses", "192.0.2.1:81", 8<<20)
	for range 3 {
		more, _ := flood(posthaste.NewSourceID(), "192.0.2.1:80")
		all = append(all, more...)
	}
	newcomer("a flood of four sources from one address", "192.0.2.1:81", 1<<20)
	for range 100 {
		more, _ := flood(posthaste.NewSourceID(), "[2001:db8::1]:80")
		all = append(all, more...)
	}
	newcomer("a flood from one address", "203.0.113.1:80", 1<<20)
	if r.taken > maxRoomBytes {
		t.Errorf("%d bytes are taken", r.taken)
	}
	for _, s := range all {
		s.release()
		s.release() // no more than once
	}
	if r.taken != 0 || len(r.bySource) != 0 || len(r.byAddress) != 0 {
		t.Errorf("after all were released: %+v", r.taken)
	}
}

// A body that waits for room gets it as soon as another one is done.
func TestRoomIsWaitedFor(t *testing.T) {
	var r room
	source := posthaste.NewSourceID()
	first, second := r.share(source, "192.0.2.1:80"), r.share(source, "192.0.2.1:80")
	if first.take(40<<20) != nil || second.take(40<<20) == nil {
		t.Fatal("the bounds are others than this test thinks")
	}
	done := make(chan bool)
	go func() {
		_, ok := second.grow(t.Context(), 40<<20)
		done <- ok
	}()
	for waits := false; !waits; {
		r.mu.Lock()
		waits = r.released != nil
		r.mu.Unlock()
	}
	first.release()
	if !<-done {
		t.Error("it did not get the room")
	}
}

func TestAddressesOfOneHost(t *testing.T) {
	for _, c := range []struct{ a, b string }{
		{"192.0.2.1:80", "192.0.2.1:81"}, {"192.0.2.1:80", "[::ffff:192.0.2.1]:80"}, {"[2001:db8::1]:80", "[2001:db8::ffff:1%eth0]:81"},
	} {
		if network(c.a) != network(c.b) || !network(c.a).IsValid() {
			t.Errorf("%s and %s are %s and %s", c.a, c.b, network(c.a), network(c.b))
		}
	}
	if network("192.0.2.1:80") == network("192.0.2.2:80") || network("[2001:db8::1]:80") == network("[2001:db8:0:1::1]:80") {
		t.Error("two hosts count as one")
	}
}

func TestDiagnosesAreBounded(t *testing.T) {
	var a allowance
	now, n := time.Now(), 0
	for a.take(64<<10, now) {
		n++
	}
	if n != diagnosedBytesAtOnce/(64<<10) {
		t.Errorf("%d at once", n)
	}
	if !a.take(100, now.Add(time.Second)) {
		t.Error("none a second later")
	}
}

package deliver_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// Under every limit of open files, attempts and idle connections leave a reserve to
// listeners, requests to the API and the database.
func TestDescriptorsLeaveAReserve(t *testing.T) {
	for _, c := range []struct{ limit, want int }{
		{16, 8}, {256, 128}, {1024, 704}, {4096, 3008}, {65536, 64448}, {1 << 20, 1<<20 - 1088}, {math.MaxInt, math.MaxInt},
	} {
		if got := deliver.DescriptorsFor(c.limit); got != c.want {
			t.Errorf("with %d open files, %d for deliveries, want %d", c.limit, got, c.want)
		}
	}
	if n := deliver.MaxAttempts(); n < 4 {
		t.Errorf("%d attempts at once, want at least 4", n)
	}
}

// Each attempt that begins may need the descriptors of idle connections.
func TestIdleConnectionsFollowTheLimitOfOpenFiles(t *testing.T) {
	const descriptors = 20
	idle := deliver.NewIdleWithin(512, descriptors)
	defer idle.Close()
	var conns []*madeUp
	for i := range 2 * descriptors {
		c := new(madeUp)
		conns = append(conns, c)
		idle.Add(fmt.Sprintf("host%d:80", i), c)
		if n := idle.Count(); n > descriptors {
			t.Fatalf("%d connections are idle, want %d at most", n, descriptors)
		}
	}
	open := len(conns) - countClosed(conns)
	if open > descriptors || open < descriptors-2 {
		t.Errorf("%d connections are open, want nearly %d", open, descriptors)
	}
	for i := range 5 { // each takes two at most
		if idle.Take(fmt.Sprintf("host%d:80", len(conns)-1-i)) == nil {
			t.Fatal("no idle connection, want the newest ones kept")
		}
	}
	idle.Add("another:80", new(madeUp))
	if n := idle.Count(); n > descriptors-2*5 {
		t.Errorf("%d connections are idle beside 5 attempts, want %d at most", n, descriptors-2*5)
	}
}

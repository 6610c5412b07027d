package stream

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestIDs(t *testing.T) {
	now := time.Unix(1764428000, 0)
	for _, c := range []store.Cursor{
		{}, {Next: 1}, {Next: 1000, Open: []uint64{7, 8, 990, 999}}, {Next: 1000, Tx: 1000, Kind: 3, Place: 12},
		{Next: 1000, Open: []uint64{7, 990}, Tx: 990, Kind: 1, Place: 1 << 20}, {Next: 1 << 60, Open: []uint64{1, 1 << 59}},
	} {
		id := printID(c, now)
		got, at, err := parseID(id)
		if err != nil || !at.Equal(now) || !cmp.Equal(got, c, cmpopts.EquateEmpty()) {
			t.Errorf("%+v is printed as %s and read as %+v, %v, %v", c, id, got, at, err)
		}
	}
}

// FuzzID: whatever is read keeps the promises of a cursor.
func FuzzID(f *testing.F) {
	f.Add(printID(store.Cursor{Next: 1000, Open: []uint64{7, 990}, Tx: 990, Kind: 1, Place: 3}, time.Unix(1764428000, 0)))
	f.Add("7-1842")
	f.Add("")
	f.Fuzz(func(t *testing.T, id string) {
		c, at, err := parseID(id)
		if err != nil {
			return
		}
		for i, tx := range c.Open {
			if tx >= c.Next || i > 0 && tx <= c.Open[i-1] {
				t.Errorf("%q: open %v below %d", id, c.Open, c.Next)
			}
		}
		if c.Tx != 0 && (c.Sees(c.Tx) || c.Tx > c.Next) {
			t.Errorf("%q: %d in part, %+v", id, c.Tx, c)
		}
		again, _, err := parseID(printID(c, at))
		if err != nil || !cmp.Equal(again, c, cmpopts.EquateEmpty()) {
			t.Errorf("%q: printed again it is %+v, %v", id, again, err)
		}
	})
}

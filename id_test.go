package posthaste_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
)

var someTime = time.Date(2026, 11, 29, 12, 0, 0, 123_000_000, time.UTC)

// The example of the TypeID specification, version 0.3.
func TestPrintFollowsTypeID(t *testing.T) {
	id := posthaste.ID{0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3, 0x02, 0x09, 0x9a, 0x80, 0x57}
	if got, want := id.Print("prefix"), "prefix_01h455vb4pex5vsknk084sn02q"; got != want {
		t.Errorf("Print = %s, want %s", got, want)
	}
}

func TestMintedIDsAreUUIDv7AndRise(t *testing.T) {
	var m posthaste.Minter
	last := posthaste.ID{}
	for i := range 20_000 {
		now := someTime
		if i > 10_000 {
			now = now.Add(-time.Minute) // the clock steps back
		}
		id := m.Mint(now)
		if id.Compare(last) <= 0 {
			t.Fatalf("id %d does not rise: %x after %x", i, id, last)
		}
		if id[6]>>4 != 7 || id[8]>>6 != 2 {
			t.Fatalf("id %x is not a UUID of version 7", id)
		}
		if id.Number() != 0 {
			t.Fatalf("an event's id has number %d", id.Number())
		}
		last = id
	}
	if drift := last.Time().Sub(someTime); drift < 0 || drift > 10*time.Millisecond {
		t.Errorf("20,000 ids of one moment drift by %v, want 4,096 a millisecond", drift)
	}
}

func TestMinterIsSafeForConcurrentUse(t *testing.T) {
	var m posthaste.Minter
	var mu sync.Mutex
	seen := map[posthaste.ID]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				id := m.Mint(someTime)
				mu.Lock()
				if seen[id] {
					t.Errorf("minted twice: %x", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestDeliveriesOfAnEventAreOneRange(t *testing.T) {
	var m posthaste.Minter
	event, next := m.Mint(someTime), m.Mint(someTime)
	ids := []posthaste.ID{event, event.Delivery(1), event.Delivery(2), event.Delivery(posthaste.MaxNumber), next}
	if !slices.IsSortedFunc(ids, posthaste.ID.Compare) {
		t.Errorf("out of order: %x", ids)
	}
	for _, n := range []uint32{1, 2, posthaste.MaxNumber} {
		d := event.Delivery(n)
		if d.Event() != event || d.Number() != n || d.Time() != event.Time() {
			t.Errorf("delivery %d: event %x, number %d", n, d.Event(), d.Number())
		}
	}
}

func TestFloorID(t *testing.T) {
	var m posthaste.Minter
	id := m.Mint(someTime)
	if floor := posthaste.FloorID(someTime); floor.Compare(id) >= 0 || !floor.Time().Equal(someTime) {
		t.Errorf("floor %x is not below %x", floor, id)
	}
	if floor := posthaste.FloorID(someTime.Add(time.Millisecond)); floor.Compare(id) <= 0 {
		t.Errorf("the next millisecond's floor %x is not above %x", floor, id)
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("evt_01h455vb4pex5vsknk084sn02q")
	f.Add("evt_7zzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Add("evt_8zzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Add("evt_01H455VB4PEX5VSKNK084SN02Q")
	f.Add("dlv_01h455vb4pex5vsknk084sn02q")
	f.Add("evt_")
	f.Add("evt_\x00\xff455vb4pex5vsknk084sn02q")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := posthaste.ParseID(posthaste.KindEvent, s)
		if err != nil {
			if !id.IsZero() {
				t.Errorf("ParseID(%q) = %x beside an error", s, id)
			}
			return
		}
		if got := id.Print(posthaste.KindEvent); got != s { // one id, one spelling
			t.Errorf("ParseID(%q) prints as %q", s, got)
		}
	})
}

func TestParseIDErrorsSayWhatIsWanted(t *testing.T) {
	for s, want := range map[string]string{
		"":                               `"evt_"`,
		"ep_01h455vb4pex5vsknk084sn02q":  `"evt_"`,
		"evt_01h455vb4pex5vsknk084sn02":  "26 characters",
		"evt_81h455vb4pex5vsknk084sn02q": "above 7",
		"evt_01h455vb4pex5vsknk084sn0lq": "not base32",
	} {
		if _, err := posthaste.ParseID(posthaste.KindEvent, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseID(%q): %v, want something of %q", s, err, want)
		}
	}
}

func TestAppend(t *testing.T) {
	id := new(posthaste.Minter).Mint(time.Unix(1764428000, 0)).Delivery(7)
	for _, kind := range []posthaste.Kind{posthaste.KindEvent, posthaste.KindEndpoint, ""} {
		if got, want := string(id.Append([]byte("id="), kind)), "id="+id.Print(kind); got != want {
			t.Errorf("appended %q, want %q", got, want)
		}
	}
}

func BenchmarkMint(b *testing.B) {
	var m posthaste.Minter
	b.ReportAllocs()
	for b.Loop() {
		m.Mint(someTime)
	}
}

func BenchmarkPrint(b *testing.B) {
	var m posthaste.Minter
	id := m.Mint(someTime)
	b.ReportAllocs()
	for b.Loop() {
		_ = id.Print(posthaste.KindEvent)
	}
}

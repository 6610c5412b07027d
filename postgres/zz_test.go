package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestZZLists(t *testing.T) {
	db, _ := open(t)
	fill(t, db, 1000000)
	exec(t, db, `insert into tenants (name, created_at) values ('quiet', 1)`)
	if true {
		exec(t, db, "vacuum analyze")
	}
	run := func(name string, f func() (int, bool, error)) {
		for i := range 4 {
			start := time.Now()
			n, more, err := f()
			if err != nil {
				t.Fatal(err)
			}
			if i > 1 {
				fmt.Printf("%-40s %8s n=%d more=%v\n", name, time.Since(start).Round(10*time.Microsecond), n, more)
			}
		}
	}
	ev := func(p store.ListEventsParams) func() (int, bool, error) {
		p.Tenant, p.Limit = 1, 50
		return func() (int, bool, error) {
			page, err := db.ListEvents(t.Context(), p)
			return len(page.Events), !page.Next.IsZero(), err
		}
	}
	dl := func(p store.ListDeliveriesParams) func() (int, bool, error) {
		if p.Tenant == 0 {
			p.Tenant = 1
		}
		p.Limit = 50
		return func() (int, bool, error) {
			page, err := db.ListDeliveries(t.Context(), p)
			return len(page.Deliveries), !page.Next.IsZero(), err
		}
	}
	run("events", ev(store.ListEventsParams{}))
	run("events no such type", ev(store.ListEventsParams{Type: "x"}))
	run("events type", ev(store.ListEventsParams{Type: "invoice.paid"}))
	run("deliveries", dl(store.ListDeliveriesParams{}))
	run("deliveries dead", dl(store.ListDeliveriesParams{Status: "dead"}))
	run("deliveries pending", dl(store.ListDeliveriesParams{Status: "pending"}))
	run("deliveries delivering", dl(store.ListDeliveriesParams{Status: "delivering"}))
	run("deliveries of endpoint", dl(store.ListDeliveriesParams{Endpoint: 7}))
	run("deliveries dead of endpoint", dl(store.ListDeliveriesParams{Endpoint: 2, Status: "dead"}))
	run("deliveries dead of endpoint none", dl(store.ListDeliveriesParams{Endpoint: 7, Status: "dead"}))
	run("deliveries no type", dl(store.ListDeliveriesParams{Type: "x"}))
	run("deliveries no type dead", dl(store.ListDeliveriesParams{Type: "x", Status: "dead"}))
	run("deliveries no type endpoint", dl(store.ListDeliveriesParams{Type: "x", Endpoint: 7}))
	run("deliveries quiet tenant", dl(store.ListDeliveriesParams{Tenant: 3}))
	start := time.Now()
	due, err := db.DueEndpoints(t.Context())
	fmt.Println("due endpoints", len(due), time.Since(start), err)
	for _, limit := range []int{1000, 10000} {
		start = time.Now()
		v, err := db.Verify(t.Context(), store.VerifyParams{Limit: limit})
		fmt.Println("verify", v.Deliveries, v.Events, len(v.Findings), time.Since(start), err)
		start = time.Now()
		s, err := db.FindStranded(t.Context(), store.FindStrandedParams{To: highest, Limit: limit})
		fmt.Println("stranded", len(s.Deliveries), s.Dead, time.Since(start), err)
	}
}

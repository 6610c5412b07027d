package sqlite

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// A kind of reads whose connections are all taken holds up none of the others, nor
// what is written.
func TestBusyReadersHoldUpNoOtherKindOfWork(t *testing.T) {
	db := openTest(t, Config{})
	reg, err := db.Register(t.Context(), store.RegisterParams{Name: "r", Delivers: true})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(context.Context) error{
		"heartbeat": func(ctx context.Context) error {
			_, err := db.Owned(ctx, store.OwnedParams{Epoch: reg.Epoch})
			if err == nil {
				_, err = db.Beat(ctx, store.BeatParams{Epoch: reg.Epoch, Delivers: true})
			}
			return err
		},
		"load": func(ctx context.Context) error {
			_, err := db.Load(ctx, store.LoadParams{Events: []store.EventKey{{Tenant: 1}}, MaxBytes: 1})
			return err
		},
		"routing": func(ctx context.Context) error {
			_, err := db.Routing(ctx, store.RoutingParams{Tenant: 1, Limit: 1})
			return err
		},
		"look": func(ctx context.Context) error {
			_, err := db.DueEndpoints(ctx)
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := db.ListEvents(ctx, store.ListEventsParams{Tenant: 1, Limit: 1})
			return err
		},
	}
	for kind, busy := range map[string]*pool{
		"heartbeat": db.vital, "load": db.loads, "routing": db.lookups, "look": db.chores, "list": db.side,
	} {
		release, err := busy.hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for other, call := range calls {
			if other == kind {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			if err := call(ctx); err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s while all connections for %s are taken: %v", other, kind, err)
			}
			cancel()
		}
		release()
	}
}

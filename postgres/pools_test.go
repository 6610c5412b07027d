package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/posthaste-dev/posthaste/internal/store"
)

func TestEveryPoolHasConnectionsOfItsOwn(t *testing.T) {
	for _, n := range []int{minMaxConns, minMaxConns + 1, defaultMaxConns, 100} {
		sum := 0
		for i, got := range share(n) {
			if got < poolShares[i].least {
				t.Errorf("of %d connections pool %d gets %d, want %d or more", n, i, got, poolShares[i].least)
			}
			if n == defaultMaxConns && got != poolShares[i].usual {
				t.Errorf("of the default of %d connections pool %d gets %d, want %d", n, i, got, poolShares[i].usual)
			}
			sum += got
		}
		if sum != n {
			t.Errorf("%d connections are shared out, want %d", sum, n)
		}
	}
}

// A kind of work whose connections are all taken, by payloads on a slow link, long
// lists or chores, holds up none of the others.
func TestABusyPoolHoldsUpNoOtherKindOfWork(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 1)
	settlements := w.firsts(t, 1)
	call := map[string]func(context.Context) error{
		"heartbeat": func(ctx context.Context) error {
			if _, err := w.db.Owned(ctx, store.OwnedParams{Epoch: w.epoch}); err != nil {
				return err
			}
			_, err := w.db.Beat(ctx, store.BeatParams{Epoch: w.epoch, Delivers: true})
			return err
		},
		"settling": func(ctx context.Context) error {
			_, err := w.db.Settle(ctx, store.SettleParams{Now: time.Now(), Settlements: settlements})
			return err
		},
		"claim": func(ctx context.Context) error {
			_, err := w.db.Claim(ctx, store.ClaimParams{Epoch: w.epoch, Now: time.Now(), Want: []store.ClaimWant{{Endpoint: w.endpoint.No, Cap: 1}}})
			return err
		},
		"gates": func(ctx context.Context) error {
			_, err := w.db.Gates(ctx, []store.EndpointNo{w.endpoint.No})
			return err
		},
		"load": func(ctx context.Context) error {
			_, err := w.db.Load(ctx, store.LoadParams{Events: []store.EventKey{{Tenant: 1}}, MaxBytes: 1})
			return err
		},
		"routing": func(ctx context.Context) error {
			_, err := w.db.Routing(ctx, store.RoutingParams{Tenant: 1, Limit: 1})
			return err
		},
		"look": func(ctx context.Context) error {
			_, err := w.db.DueEndpoints(ctx)
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := w.db.ListEvents(ctx, store.ListEventsParams{Tenant: 1, Limit: 1})
			return err
		},
	}
	busy := map[string]*pool{
		"heartbeat": w.db.vital, "settling": w.db.vital, "claim": w.db.claims, "gates": w.db.gates, "load": w.db.loads,
		"routing": w.db.lookups, "look": w.db.chores, "list": w.db.side,
	}
	for kind, of := range busy {
		var taken []*pgxpool.Conn
		for range of.conns.Config().MaxConns {
			c, err := of.conns.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, c)
		}
		for other, do := range call {
			if busy[other] == of {
				continue
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if err := do(ctx); err != nil {
				t.Errorf("%s while all connections for %s are taken: %v", other, kind, err)
			}
			cancel()
		}
		for _, c := range taken {
			c.Release()
		}
	}
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// TestStress lets replicas, each with its own connections, do everything at once
// to the same few endpoints, one of which is ordered, reclaim each other and come back,
// while a janitor tidies up. No call may fail but with the errors that the contract gives it,
// none may deadlock, and in the end nothing is missing or there twice.
func TestStress(t *testing.T) {
	db, url := open(t)
	var endpoints []store.EndpointNo
	for range 3 {
		endpoints = append(endpoints, newEndpoint(t, db).No)
	}
	exec(t, db, `update endpoints set definition = (definition::jsonb || '{"ordered": "endpoint"}')::json where no = $1`, int32(endpoints[1]))
	s := &stress{endpoints: endpoints, ordered: endpoints[1], epochs: make([]atomic.Int32, 4), dead: make(chan posthaste.ID, 10_000)}
	var wg sync.WaitGroup
	for i := range s.epochs {
		w := &worker{stress: s, t: t, db: connect(t, url), slot: i, random: rand.New(rand.NewPCG(uint64(i), 7))}
		wg.Go(func() {
			for range 600 {
				w.step()
			}
		})
	}
	done := make(chan struct{})
	var janitor sync.WaitGroup
	janitor.Go(func() { s.tidy(t, db, done) })
	wg.Wait()
	close(done)
	janitor.Wait()
	for i := range s.epochs {
		s.reclaim(t, db, i)
	}
	if n := s.unavailable.Load(); n > 0 {
		t.Errorf("%d calls found the database unavailable: %v", n, s.why.Load())
	}
	v, err := db.Verify(t.Context(), store.VerifyParams{Limit: 100_000})
	if err != nil || len(v.Findings) > 0 || v.Events == 0 {
		t.Errorf("verify: %d events, findings %v, %v", v.Events, v.Findings, err)
	}
	var wrong int
	if err := db.side.QueryRow(t.Context(), `
		select (select count(*) from deliveries d where d.state = 0 and
				(select count(*) from due u where u.delivery = d.id and u.due_at = d.due_at and u.owner = 0) <> 1)
			+ (select count(*) from deliveries d where d.state = 2 and not exists (select from dead x where x.delivery = d.id))
			+ (select count(*) from dead x where not exists (select from deliveries d where d.id = x.delivery and d.state = 2))`).Scan(&wrong); err != nil || wrong > 0 {
		t.Errorf("%d deliveries without their one row in due or dead, or rows of dead without them; %v", wrong, err)
	}
	t.Logf("%d events, %d deliveries, %d attempts, %d late", v.Events, v.Deliveries, v.Attempts, s.late.Load())
}

type stress struct {
	endpoints   []store.EndpointNo
	ordered     store.EndpointNo
	epochs      []atomic.Int32 // by worker; 0: it has none
	dead        chan posthaste.ID
	late        atomic.Int64
	unavailable atomic.Int64
	why         atomic.Value
}

// ok reports whether a call worked, and fails the test where its error is not
// one of those allowed.
func (s *stress) ok(t *testing.T, what string, err error, allowed ...error) bool {
	switch {
	case err == nil:
		return true
	case errors.Is(err, store.ErrUnavailable):
		s.unavailable.Add(1)
		s.why.CompareAndSwap(nil, what+": "+err.Error())
		return false
	}
	for _, a := range allowed {
		if errors.Is(err, a) {
			return false
		}
	}
	if code := posthaste.CodeOf(err); code != posthaste.CodeNotDead && code != posthaste.CodeNotPending {
		t.Errorf("%s: %v", what, err)
	}
	return false
}

// reclaim takes everything from the epoch of a worker, which will notice.
func (s *stress) reclaim(t *testing.T, db *DB, slot int) {
	epoch := store.Epoch(s.epochs[slot].Load())
	var beat int64
	err := db.side.QueryRow(t.Context(), "select beat_at from replicas where epoch = $1", int32(epoch)).Scan(&beat)
	if errors.Is(err, pgx.ErrNoRows) {
		return
	}
	if s.ok(t, "read a beat", err) {
		_, err = db.Reclaim(t.Context(), store.ReclaimParams{Dead: epoch, SeenBeatAt: timeAt(beat), Now: time.Now()})
		s.ok(t, "reclaim", err, store.ErrConflict)
	}
}

// tidy is what a leader does, over and over.
func (s *stress) tidy(t *testing.T, db *DB, done <-chan struct{}) {
	ctx := context.WithoutCancel(t.Context())
	for round := 0; ; round++ {
		select {
		case <-done:
			return
		default:
		}
		found, err := db.FindStranded(ctx, store.FindStrandedParams{To: highest, Limit: 100_000})
		if s.ok(t, "find stranded", err) {
			var repair []store.StrandedDelivery
			for _, d := range found.Deliveries {
				if !d.Living {
					repair = append(repair, d)
				}
			}
			if len(repair) > 0 {
				t.Errorf("%d deliveries are stranded, such as %+v", len(repair), repair[0])
			}
			_, err = db.RepairStranded(ctx, store.RepairStrandedParams{Deliveries: repair, Now: time.Now()})
			s.ok(t, "repair stranded", err)
		}
		_, err = db.EndExpired(ctx, store.EndExpiredParams{Endpoint: s.endpoints[0], Now: time.Now(), Limit: 20})
		s.ok(t, "end expired", err)
		_, err = db.EndDeleted(ctx, store.EndDeletedParams{Endpoints: s.endpoints[1:], Now: time.Now(), Limit: 20})
		s.ok(t, "end deleted", err)
		if round%5 == 4 {
			s.reclaim(t, db, round/5%len(s.epochs))
		}
		if round == 10 {
			var id [16]byte
			if err := db.side.QueryRow(ctx, "select id from endpoints where no = $1", int32(s.endpoints[2])).Scan(&id); err != nil {
				t.Error(err)
			}
			s.ok(t, "delete an endpoint", db.DeleteEndpoint(ctx, store.DeleteEndpointParams{Tenant: 1, ID: id, Now: time.Now()}))
		}
	}
}

// worker is a replica.
type worker struct {
	*stress
	t      *testing.T
	db     *DB
	slot   int
	random *rand.Rand
	minter posthaste.Minter
	epoch  store.Epoch
	leases []store.Lease
	lost   []store.Lease // revoked, their results still to come
}

func (w *worker) step() {
	ctx := w.t.Context()
	if w.epoch == 0 {
		reg, err := w.db.Register(ctx, store.RegisterParams{Name: fmt.Sprintf("worker %d", w.slot), LowWater: w.minter.Mint(time.Now())})
		if !w.ok(w.t, "register", err) {
			return
		}
		w.epoch = reg.Epoch
		w.epochs[w.slot].Store(int32(w.epoch))
		w.lost, w.leases = append(w.lost, w.leases...), nil
	}
	switch w.random.IntN(11) {
	case 0, 1:
		w.accept(ctx)
	case 2, 3:
		w.claim(ctx)
	case 4, 5:
		w.settle(ctx)
	case 6:
		w.revoke(ctx)
	case 8, 9:
		w.claimThrough(ctx)
	case 10:
		w.skipOrFail(ctx)
	case 7:
		_, err := w.db.Beat(ctx, store.BeatParams{Epoch: w.epoch})
		w.fenced(err, "beat")
		select {
		case id := <-w.dead:
			err := w.db.Replay(ctx, store.ReplayParams{
				Tenant: 1, Delivery: id, Now: time.Now(), ExpiresAt: time.Now().Add(time.Hour), Ordered: w.random.IntN(2) == 0,
			})
			if posthaste.CodeOf(err) != posthaste.CodeEndpointDeleted {
				w.ok(w.t, "replay", err)
			}
		default:
		}
	}
}

func (w *worker) fenced(err error, what string) bool {
	if errors.Is(err, store.ErrFenced) {
		w.epoch = 0
	}
	return w.ok(w.t, what, err, store.ErrFenced)
}

func (w *worker) accept(ctx context.Context) {
	now := time.Now()
	events := make([]store.NewEvent, 1+w.random.IntN(20))
	for i := range events {
		id := w.minter.Mint(now)
		events[i] = store.NewEvent{Event: posthaste.Event{ID: id, Type: "a", CorrelationID: id}, Tenant: 1, Namespace: 1}
		if w.random.IntN(2) == 0 { // keys that all workers use, in one order
			events[i].IdempotencyKey = "k"
			events[i].Key = store.Hash{byte(i), byte(w.random.IntN(40))}
		}
		for range w.random.IntN(3) {
			expires := now.Add(time.Duration(w.random.IntN(2)) * time.Hour) // some at once
			d := store.NewDelivery{
				Endpoint: w.endpoints[w.random.IntN(len(w.endpoints))], Leased: w.random.IntN(2) == 0, DueAt: now, ExpiresAt: expires,
			}
			if d.Endpoint == w.ordered {
				d.Ordered, d.Leased = true, false
			}
			events[i].Deliveries = append(events[i].Deliveries, d)
		}
	}
	accepted, err := w.db.Accept(ctx, store.AcceptParams{Epoch: w.epoch, Now: now, Events: events})
	if !w.fenced(err, "accept") {
		return
	}
	for i, a := range accepted.Events {
		for n, d := range events[i].Deliveries {
			if a.Stored && d.Leased {
				w.leases = append(w.leases, store.Lease{
					Delivery: a.ID.Delivery(uint32(n + 1)), Tenant: 1, Endpoint: d.Endpoint, Epoch: w.epoch, Number: 1,
				})
			}
		}
	}
}

func (w *worker) claim(ctx context.Context) {
	p := store.ClaimParams{Epoch: w.epoch, Now: time.Now()}
	for _, no := range w.endpoints {
		if no == w.ordered {
			continue
		}
		p.Want = append(p.Want, store.ClaimWant{Endpoint: no, Cap: 1 + w.random.IntN(10)})
	}
	claimed, err := w.db.Claim(ctx, p)
	if w.fenced(err, "claim") {
		w.leases = append(w.leases, claimed.Leases...)
	}
}

// claimThrough claims the work of one endpoint through its gate.
func (w *worker) claimThrough(ctx context.Context) {
	p := throughAll(w.epoch, w.endpoints[w.random.IntN(len(w.endpoints))])
	retries := w.random.IntN(11)
	p.Enter = func(gate.State) gate.Pass { return gate.Pass{Attempts: 10, Retries: retries} }
	p.Ordered = p.Endpoint == w.ordered
	claimed, err := w.db.ClaimThrough(ctx, p)
	if errors.Is(err, store.ErrFenced) {
		w.epoch = 0
	}
	if w.ok(w.t, "claim through a gate", err, store.ErrFenced, store.ErrLocked) {
		w.leases = append(w.leases, claimed.Leases...)
	}
}

// skipOrFail skips a delivery that is leased, or has a gate count a failure.
func (w *worker) skipOrFail(ctx context.Context) {
	if n := len(w.leases); n > 0 && w.random.IntN(2) == 0 {
		_, err := w.db.Skip(ctx, store.SkipParams{Delivery: w.leases[n-1].Delivery, Now: time.Now()})
		if w.ok(w.t, "skip", err) {
			w.lost = append(w.lost, w.leases[n-1])
			w.leases = w.leases[:n-1]
		}
		return
	}
	_, err := w.db.ChangeGate(ctx, w.endpoints[w.random.IntN(len(w.endpoints))], func(s gate.State) gate.State {
		s.Failures++
		return s
	})
	w.ok(w.t, "change a gate", err, store.ErrLocked)
}

// settle ends some of the leases, and some of those that were taken away.
func (w *worker) settle(ctx context.Context) {
	var batch []store.Settlement
	now := time.Now()
	for _, from := range []*[]store.Lease{&w.leases, &w.lost} {
		n := w.random.IntN(len(*from) + 1)
		for _, lease := range (*from)[:n] {
			s := store.Settlement{Lease: lease, DueAt: now, Attempt: &posthaste.Attempt{StartedAt: now, Outcome: posthaste.OutcomeTransient}}
			if lease.Endpoint == w.ordered {
				s.DueAt, s.TryAt = lease.DueAt.Add(time.Microsecond), now
			}
			switch w.random.IntN(5) {
			case 0, 1:
				s.State, s.DueAt, s.Attempt.Outcome = posthaste.StateDelivered, time.Time{}, posthaste.OutcomeDelivered
			case 2:
				s.State, s.Reason, s.Attempt.Outcome = posthaste.StateDead, posthaste.ReasonPermanent, posthaste.OutcomePermanent
			case 3:
				if from == &w.leases {
					s.Attempt = nil // given back
				}
			}
			batch = append(batch, s)
		}
		*from = append([]store.Lease{}, (*from)[n:]...)
	}
	w.random.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
	settled, err := w.db.Settle(ctx, store.SettleParams{Now: now, Settlements: batch})
	if !w.ok(w.t, "settle", err) {
		return
	}
	w.late.Add(int64(settled.Late))
	for i, moved := range settled.Moved {
		if moved && batch[i].State == posthaste.StateDead {
			w.dead <- batch[i].Lease.Delivery
		}
	}
}

// revoke takes some of the leases away, as an audit of one's own memory does.
func (w *worker) revoke(ctx context.Context) {
	n := w.random.IntN(len(w.leases)/4 + 1)
	p := store.RevokeParams{Epoch: w.epoch, Now: time.Now()}
	for _, lease := range w.leases[:n] {
		p.Leases = append(p.Leases, lease.Held())
	}
	if _, err := w.db.Revoke(ctx, p); w.ok(w.t, "revoke", err) {
		w.lost = append(w.lost, w.leases[:n]...)
		w.leases = append([]store.Lease{}, w.leases[n:]...)
	}
}

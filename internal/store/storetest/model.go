package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// The model verifies its own part: a sequence that is cut short, as one that is
// replayed from a file of an older version, leaves a database half way.
var modelCases = []testCase{
	{name: "any sequence of acts leaves what the contract says", run: testModel, damaged: true},
}

// testModel runs random sequences of acts on a handful of deliveries, by epochs
// that live, die and come too late, against a model of the contract: numbers
// without holes, one terminal state, at most one due row, nothing lost.
func testModel(t *testing.T, f *fixture) {
	handles := []store.Store{f.Store}
	if !f.SingleReplica {
		handles = append(handles, f.Another(t))
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(t, rt, f, handles)
		m.accepts(rt)
		for range rapid.IntRange(4, 24).Draw(rt, "acts") {
			m.act(rt)
			m.check(rt)
			m.now = m.now.Add(40 * time.Second) // past every backoff
		}
		m.drain(rt)
	})
}

// model is what the contract says that the database holds.
type model struct {
	*fixture
	t          *testing.T // for the hooks
	ep         store.EndpointRow
	first      posthaste.ID // below every id of this sequence
	now        time.Time
	replicas   []*replica
	deliveries map[posthaste.ID]*modelDelivery
	// held are leases that some process believes to hold, living or not.
	held []store.Lease
	// sent are settlements that were made; one may be run again.
	sent []store.Settlement
}

// modelDelivery is one delivery in the model.
type modelDelivery struct {
	id       posthaste.ID
	state    posthaste.State
	owner    store.Epoch
	dueAt    time.Time // zero: no due row is its own
	row      bool      // the due row is there
	failures int
	attempts []string // outcome of number 1, 2, 3 …
}

func newModel(t *testing.T, rt *rapid.T, f *fixture, handles []store.Store) *model {
	m := &model{fixture: f, t: t, now: f.now, ep: f.endpoint(rt), deliveries: map[posthaste.ID]*modelDelivery{}}
	m.first = m.ep.ID // minted just before
	for _, h := range handles {
		m.replicas = append(m.replicas, f.register(rt, h, posthaste.ID{}))
	}
	return m
}

func (m *model) act(rt *rapid.T) {
	acts := map[string]func(*rapid.T){
		"accept": m.accepts, "claim": m.claims, "settle": m.settles, "settle again": m.settlesAgain,
		"revoke": m.revokes, "crash": m.crashes, "replay": m.replays, "wipe due": m.wipes,
	}
	// Claims and settles twice: most of a delivery's life is made of them.
	names := append(slices.Sorted(maps.Keys(acts)), "claim", "settle")
	acts[rapid.SampledFrom(names).Draw(rt, "act")](rt)
}

func (m *model) replicaOf(rt *rapid.T) *replica {
	return rapid.SampledFrom(m.replicas).Draw(rt, "replica")
}

func (m *model) sorted() []*modelDelivery {
	return slices.SortedFunc(maps.Values(m.deliveries), func(a, b *modelDelivery) int { return a.id.Compare(b.id) })
}

func (m *model) accepts(rt *rapid.T) {
	if len(m.deliveries) >= 6 {
		return
	}
	r := m.replicaOf(rt)
	var ds []store.NewDelivery
	for _, leased := range rapid.SliceOfN(rapid.Bool(), 1, 2).Draw(rt, "leased") {
		d := store.NewDelivery{Endpoint: m.ep.No, Leased: leased, ExpiresAt: m.now.Add(time.Hour)}
		if !leased {
			d.DueAt = m.now
		}
		ds = append(ds, d)
	}
	e := m.event(ds...)
	m.accept(rt, r, e)
	for i, d := range ds {
		md := &modelDelivery{id: e.ID.Delivery(uint32(i + 1)), dueAt: d.DueAt, row: !d.Leased}
		if d.Leased {
			md.owner = r.epoch
			m.held = append(m.held, bornLease(r, e, uint32(i+1)))
		}
		m.deliveries[md.id] = md
	}
}

func (m *model) claims(rt *rapid.T) {
	r, limit := m.replicaOf(rt), rapid.IntRange(1, 4).Draw(rt, "cap")
	var want []*modelDelivery
	for _, d := range m.sorted() {
		if d.row && d.owner == 0 && !d.dueAt.After(m.now) {
			want = append(want, d)
		}
	}
	slices.SortStableFunc(want, func(a, b *modelDelivery) int { return a.dueAt.Compare(b.dueAt) })
	want = want[:min(limit, len(want))]
	r.fresh(rt)
	got, err := r.Claim(rt.Context(), store.ClaimParams{
		Epoch: r.epoch, Now: m.now, Want: []store.ClaimWant{{Endpoint: m.ep.No, Cap: limit}},
	})
	if err != nil || len(got.Leases) != len(want) {
		rt.Fatalf("claim: %d leases, want %d; %v", len(got.Leases), len(want), err)
	}
	for i, d := range want {
		l := got.Leases[i]
		if l.Delivery != d.id || l.Number != len(d.attempts)+1 || l.Failures != d.failures || !l.DueAt.Equal(d.dueAt) || l.Epoch != r.epoch {
			rt.Fatalf("claim: lease %+v, want of %+v", l, *d)
		}
		d.owner = r.epoch
		m.held = append(m.held, l)
	}
}

// settlement draws what became of a lease.
func (m *model) settlement(rt *rapid.T, l store.Lease) store.Settlement {
	later := m.now.Add(time.Duration(rapid.IntRange(1, 50).Draw(rt, "wait")) * time.Second)
	switch rapid.SampledFrom([]string{"delivered", "transient", "permanent", "given back", "expired"}).Draw(rt, "result") {
	case "delivered":
		return m.delivered(l)
	case "transient":
		return m.transient(l, later)
	case "permanent":
		return m.permanent(l)
	case "given back":
		return unstarted(l, later)
	}
	return store.Settlement{Lease: l, State: posthaste.StateDead, Failures: l.Failures, Reason: posthaste.ReasonExpired}
}

func (m *model) settles(rt *rapid.T) {
	var batch []store.Settlement
	for range min(len(m.held), rapid.IntRange(1, 3).Draw(rt, "batch")) {
		i := rapid.IntRange(0, len(m.held)-1).Draw(rt, "lease")
		l := m.held[i]
		if slices.ContainsFunc(batch, func(s store.Settlement) bool { return s.Lease.Delivery == l.Delivery }) {
			continue
		}
		m.held = slices.Delete(m.held, i, i+1)
		batch = append(batch, m.settlement(rt, l))
	}
	m.sent = append(m.sent, batch...)
	m.settleBatch(rt, batch...)
}

func (m *model) settlesAgain(rt *rapid.T) {
	if len(m.sent) == 0 {
		return
	}
	s := rapid.SampledFrom(m.sent).Draw(rt, "sent")
	d := m.deliveries[s.Lease.Delivery]
	if n := s.Lease.Number; n <= len(d.attempts) && d.state == posthaste.StatePending &&
		s.State == posthaste.StateDelivered && d.attempts[n-1] == "delivered late" {
		return // a run that a replay began after its success: the contract leaves it open
	}
	if m.moves(s) {
		return // a give-back whose work the same epoch claimed again; it has a case of its own
	}
	m.settleBatch(rt, s)
}

// moves says whether a settlement moves its delivery.
func (m *model) moves(s store.Settlement) bool {
	d := m.deliveries[s.Lease.Delivery]
	return d.state == posthaste.StatePending && d.owner == s.Lease.Epoch && len(d.attempts) == s.Lease.Number-1
}

func (m *model) settleBatch(rt *rapid.T, batch ...store.Settlement) {
	var want store.Settled
	for _, s := range batch {
		moved := m.moves(s)
		want.Moved = append(want.Moved, moved)
		if moved {
			m.move(s)
		} else if m.late(s) {
			want.Late++
		}
	}
	same(rt, fmt.Sprintf("settled %+v", batch), m.settleAt(rt, m.replicas[0], m.now, batch...), want)
}

func (m *model) move(s store.Settlement) {
	d := m.deliveries[s.Lease.Delivery]
	if s.Attempt != nil {
		d.attempts = append(d.attempts, s.Attempt.Outcome.String())
	}
	d.state, d.failures, d.owner = s.State, s.Failures, 0
	d.dueAt, d.row = s.DueAt, s.State == posthaste.StatePending
}

// late completes the record of a lost attempt, and reports whether it ended the delivery.
func (m *model) late(s store.Settlement) bool {
	d, n := m.deliveries[s.Lease.Delivery], s.Lease.Number
	if s.Attempt == nil {
		return false
	}
	if d.attempts[n-1] == "lost" {
		d.attempts[n-1] = s.Attempt.Outcome.String() + " late"
	}
	if s.State != posthaste.StateDelivered || d.state != posthaste.StatePending {
		return false
	}
	if d.owner != 0 {
		d.attempts = append(d.attempts, "lost")
	}
	d.state, d.owner, d.dueAt, d.row = posthaste.StateDelivered, 0, time.Time{}, false
	return true
}

// revoked is a delivery whose lease was taken away; its new time is read, since
// how many revocations are in a row is for the revoke cases to say.
func (m *model) revoked(rt *rapid.T, d *modelDelivery) {
	d.attempts, d.owner, d.row = append(d.attempts, "lost"), 0, true
	d.dueAt = m.delivery(rt, d.id).NextAttemptAt
	if wait := d.dueAt.Sub(m.now); wait < 0 || wait > store.RevokeBackoff(4) {
		rt.Fatalf("a revoked delivery waits %v", wait)
	}
}

func (m *model) revokes(rt *rapid.T) {
	r := m.replicaOf(rt)
	p := store.RevokeParams{Epoch: r.epoch, Now: m.now}
	want := []*modelDelivery{}
	for _, d := range m.sorted() {
		if !rapid.Bool().Draw(rt, "named") {
			continue
		}
		p.Leases = append(p.Leases, store.HeldLease{Delivery: d.id, DueAt: d.dueAt})
		if d.owner == r.epoch {
			want = append(want, d)
		}
	}
	if got, err := r.Revoke(rt.Context(), p); err != nil || got != len(want) {
		rt.Fatalf("revoke: %d, want %d; %v", got, len(want), err)
	}
	for _, d := range want {
		m.revoked(rt, d)
	}
}

// crashes ends an epoch whose process lives on unaware, and puts a new one in its place.
func (m *model) crashes(rt *rapid.T) {
	i := rapid.IntRange(0, len(m.replicas)-1).Draw(rt, "crash")
	dead := m.replicas[i]
	seen := dead.row(rt).BeatAt
	got, err := m.Store.Reclaim(rt.Context(), store.ReclaimParams{Dead: dead.epoch, SeenBeatAt: seen, Now: m.now})
	if err != nil {
		rt.Fatalf("reclaim: %v", err)
	}
	owned := 0
	for _, d := range m.sorted() {
		if d.owner == dead.epoch {
			m.revoked(rt, d)
			owned++
		}
	}
	if got.Deliveries != owned {
		rt.Fatalf("reclaim: %d deliveries, want %d", got.Deliveries, owned)
	}
	m.replicas[i] = m.register(rt, dead.Store, posthaste.ID{})
}

func (m *model) replays(rt *rapid.T) {
	if len(m.deliveries) == 0 {
		return
	}
	d := rapid.SampledFrom(m.sorted()).Draw(rt, "replay")
	err := m.Store.Replay(rt.Context(), store.ReplayParams{Tenant: m.tenant, Delivery: d.id, Now: m.now, ExpiresAt: m.now.Add(time.Hour)})
	if d.state != posthaste.StateDead {
		wantCode(rt, "replay of what is not dead", err, posthaste.CodeNotDead)
		return
	}
	if err != nil {
		rt.Fatalf("replay: %v", err)
	}
	d.state, d.failures, d.dueAt, d.row = posthaste.StatePending, 0, m.now, true
}

// wipes empties due and lets the reconciler bring back what waited.
func (m *model) wipes(rt *rapid.T) {
	m.Wipe(m.t, "due")
	for _, d := range m.deliveries {
		d.row = false
	}
	got, err := m.Store.FindStranded(rt.Context(), store.FindStrandedParams{From: m.first, To: posthaste.FloorID(m.at(time.Hour)), Limit: 1000})
	if err != nil {
		rt.Fatalf("find stranded: %v", err)
	}
	found := slices.DeleteFunc(got.Deliveries, func(s store.StrandedDelivery) bool { return s.Living })
	want := 0
	for _, d := range m.sorted() {
		if d.state == posthaste.StatePending && d.owner == 0 {
			d.row = true
			want++
		}
	}
	if n := m.repairStranded(rt, m.now, found...); n != want || len(found) != want {
		rt.Fatalf("stranded: found %d, repaired %d, want %d", len(found), n, want)
	}
}

// check compares all of the database with the model.
func (m *model) check(rt *rapid.T) {
	due := m.DueRows(m.t)
	for _, d := range m.sorted() {
		row := m.delivery(rt, d.id)
		if row.State != d.state || row.Leased != (d.owner != 0) || row.Attempts != len(d.attempts) || row.Failures != d.failures {
			rt.Fatalf("delivery %+v, want %+v", row, *d)
		}
		if waits := d.state == posthaste.StatePending && d.owner == 0; waits && !row.NextAttemptAt.Equal(d.dueAt) {
			rt.Fatalf("delivery waits until %v, want %v", row.NextAttemptAt, d.dueAt)
		}
		if n := due[d.id]; n > 1 || (n == 1) != d.row {
			rt.Fatalf("delivery %+v has %d due rows", *d, n)
		}
		m.checkAttempts(rt, d)
	}
}

func (m *model) checkAttempts(rt *rapid.T, d *modelDelivery) {
	got := m.attempts(rt, d.id)
	slices.SortFunc(got, func(a, b posthaste.Attempt) int { return cmp.Compare(a.Number, b.Number) })
	ok := len(got) == len(d.attempts)
	for i := 0; ok && i < len(got); i++ {
		s := got[i].Outcome.String()
		if got[i].Late {
			s += " late"
		}
		ok = got[i].Number == i+1 && s == d.attempts[i]
	}
	if !ok {
		rt.Fatalf("attempts %+v, want %q", got, d.attempts)
	}
}

// drain delivers all that is left: nothing may be lost. Then Verify looks.
func (m *model) drain(rt *rapid.T) {
	for i := range m.replicas {
		dead := m.replicas[i]
		_, err := m.Store.Reclaim(rt.Context(), store.ReclaimParams{Dead: dead.epoch, SeenBeatAt: dead.row(rt).BeatAt, Now: m.now})
		if err != nil {
			rt.Fatalf("reclaim: %v", err)
		}
	}
	r := m.replica(rt)
	for _, l := range m.claim(rt, r, m.now.Add(time.Hour), m.ep) {
		m.settleMoved(rt, r, m.delivered(l))
	}
	if err := r.Retire(rt.Context(), r.epoch); err != nil {
		rt.Fatalf("retire: %v", err)
	}
	for _, d := range m.sorted() {
		if row := m.delivery(rt, d.id); row.State == posthaste.StatePending || d.state != posthaste.StatePending && row.State != d.state {
			rt.Fatalf("in the end %s, was %s", row.State, d.state)
		}
	}
	v, err := m.Store.Verify(rt.Context(), store.VerifyParams{From: m.first, Limit: 1000})
	if err != nil || len(v.Findings) != 0 {
		rt.Fatalf("verify: %v, %v", v.Findings, err)
	}
}

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// journalEntry is one request at a journal.
type journalEntry struct {
	at      time.Time
	event   string // webhook-id
	attempt int
	body    string
}

// journal is a receiver that writes down what came when, and how much at once.
type journal struct {
	*httptest.Server
	answer func(journalEntry) int
	delay  time.Duration

	mu       sync.Mutex
	arrivals []journalEntry
	now      int
	most     int
}

func newJournal(t *testing.T, answer func(journalEntry) int) *journal {
	j := &journal{answer: answer}
	j.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		attempt, _ := strconv.Atoi(r.Header.Get("posthaste-attempt"))
		a := journalEntry{at: time.Now(), event: r.Header.Get("webhook-id"), attempt: attempt, body: string(body)}
		j.mu.Lock()
		j.arrivals = append(j.arrivals, a)
		j.now++
		j.most = max(j.most, j.now)
		j.mu.Unlock()
		wait(r.Context(), j.delay)
		status := http.StatusOK
		if j.answer != nil {
			status = j.answer(a)
		}
		j.mu.Lock()
		j.now--
		j.mu.Unlock()
		w.WriteHeader(status)
	}))
	t.Cleanup(j.Close)
	return j
}

func (j *journal) seen() []journalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.arrivals)
}

// distinct returns how many events have arrived.
func (j *journal) distinct() int {
	events := map[string]bool{}
	for _, a := range j.seen() {
		events[a.event] = true
	}
	return len(events)
}

// makeEndpoint creates an endpoint from JSON and returns its id.
func (r *replica) makeEndpoint(body string) string {
	r.t.Helper()
	status, raw := r.api(http.MethodPost, "/v1/endpoints", body)
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &made); err != nil || status != http.StatusCreated {
		r.t.Fatalf("create endpoint: %d %s", status, raw)
	}
	return made.ID
}

// keepSending posts an event of a type through living replicas until it is accepted.
func keepSending(ctx context.Context, client *http.Client, eventType, body string, urls []string) bool {
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, urls[rand.IntN(len(urls))]+"/v1/events", strings.NewReader(body))
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer "+crashAdminKey)
		req.Header.Set("Posthaste-Event-Type", eventType)
		req.Header.Set("Idempotency-Key", eventType+body)
		if res, err := client.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			if res.StatusCode/100 == 2 {
				return true
			}
		}
		wait(ctx, 10*time.Millisecond)
	}
	return false
}

// sendMany sends events of a type, numbered from 0, a thousand a request.
func (r *replica) sendMany(eventType string, n int) {
	r.t.Helper()
	for sent := 0; sent < n; sent += 1000 {
		var lines strings.Builder
		for i := range 1000 {
			_, _ = fmt.Fprintf(&lines, `{"type":%q,"payload":%d}`+"\n", eventType, sent+i)
		}
		req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/v1/events/batch", strings.NewReader(lines.String()))
		if err != nil {
			r.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+crashAdminKey)
		req.Header.Set("Content-Type", "application/x-ndjson")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			r.t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			r.t.Fatalf("batch: %d", res.StatusCode)
		}
	}
}

// TestGatesHoldOverReplicasAndKills runs a limited, an ordered and a failing endpoint
// on three replicas of which one is killed again and again. The receivers' journals
// say whether the limit held in every window, whether the order was kept, and whether
// the failing one was tried by one probe at a time.
func TestGatesHoldOverReplicasAndKills(t *testing.T) {
	db := testdb.Postgres(t)
	replicas := []*replica{newReplica(t, db, nil), newReplica(t, db, nil), newReplica(t, db, nil)}
	urls := make([]string, len(replicas))
	for i, r := range replicas {
		r.start()
		urls[i] = r.url
	}
	const rps, burst, timeout = 40, 20, time.Second
	fast, inOrder := newJournal(t, nil), newJournal(t, func(a journalEntry) int {
		if n, _ := strconv.Atoi(a.body); n%7 == 0 && a.attempt == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	broken := newJournal(t, func(journalEntry) int { return http.StatusInternalServerError })
	schedule := strings.TrimSuffix(strings.Repeat(`"100ms",`, 50), ",")
	replicas[0].makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["limited"],"rate_limit":{"rps":%d,"burst":%d}}`, fast.URL, rps, burst))
	replicas[0].makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["ordered"],"ordered":"endpoint","retry":{"schedule":[%s],"timeout":"1s"}}`, inOrder.URL, schedule))
	failing := replicas[0].makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["broken"],"breaker":{"threshold":5,"reset":"2s","reset_max":"2s"},"retry":{"schedule":[%s],"timeout":"1s"}}`,
		broken.URL, schedule))

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	client := &http.Client{Timeout: 5 * time.Second}
	const limited, ordered, kills = 1200, 300, 5
	var senders sync.WaitGroup
	for part := range 4 {
		senders.Go(func() {
			for i := range limited / 4 {
				keepSending(ctx, client, "limited", fmt.Sprintf("%d-%d", part, i), urls)
			}
		})
	}
	senders.Go(func() { // one after the other: the order of acceptance is that of the numbers
		for i := range ordered {
			keepSending(ctx, client, "ordered", strconv.Itoa(i), urls)
		}
	})
	senders.Go(func() {
		for i := range 50 {
			keepSending(ctx, client, "broken", strconv.Itoa(i), urls)
		}
	})
	for i := range kills {
		wait(ctx, time.Duration(1500+rand.IntN(1500))*time.Millisecond)
		victim := replicas[i%len(replicas)]
		victim.kill()
		wait(ctx, 500*time.Millisecond)
		victim.start()
	}
	senders.Wait()
	eventually(t, 90*time.Second, "all limited events have arrived", func() bool { return fast.distinct() == limited })
	eventually(t, 90*time.Second, "all ordered events have arrived", func() bool { return inOrder.distinct() == ordered })

	checkLimit(t, fast.seen(), rps, burst)
	checkOrder(t, inOrder.seen(), kills)
	checkProbes(t, broken.seen(), 5, timeout)
	status, raw := replicas[0].api(http.MethodGet, "/v1/endpoints/"+failing, "")
	if status != http.StatusOK || !strings.Contains(string(raw), `"gate":{"state":"open"`) && !strings.Contains(string(raw), `"gate":{"state":"half_open"`) {
		t.Errorf("the failing endpoint: %d %s", status, raw)
	}
}

// checkLimit fails if any window of time has more attempts than allowed. A replica that
// is killed loses slots; nothing gives any twice.
func checkLimit(t *testing.T, arrivals []journalEntry, rps, burst float64) {
	t.Helper()
	most := 0.0
	for i := range arrivals {
		for j := i; j < len(arrivals); j++ {
			over := float64(j-i+1) - rps*arrivals[j].at.Sub(arrivals[i].at).Seconds()
			most = max(most, over)
		}
	}
	took := arrivals[len(arrivals)-1].at.Sub(arrivals[0].at)
	t.Logf("limit: %d attempts in %.1fs (%.1f/s, %.0f allowed); at most %.1f above rps × t in any window, burst %.0f",
		len(arrivals), took.Seconds(), float64(len(arrivals))/took.Seconds(), rps, most, burst)
	if most > burst {
		t.Errorf("%.1f attempts above rps × t in a window, burst is %.0f", most, burst)
	}
}

// checkOrder fails if an event arrived before an earlier one was through. A killed replica leaves
// a run of deliveries that was settled in part or not at all: the rest is sent once more, in
// order and with the next attempt numbers, before anything else.
func checkOrder(t *testing.T, arrivals []journalEntry, kills int) {
	t.Helper()
	last, again, jumps, furthest := -1, 0, 0, 0
	for _, a := range arrivals {
		n, err := strconv.Atoi(a.body)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case n == last:
			again++
		case n < last:
			jumps++
			furthest = max(furthest, last-n)
			if a.attempt == 1 {
				t.Errorf("after %d came %d once more, as attempt 1", last, n)
			}
		case n != last+1:
			t.Errorf("after %d came %d (attempt %d)", last, n, a.attempt)
		}
		last = n
	}
	t.Logf("order: %d attempts of %d events in order, %d failed or lost alone; %d runs were sent again, of %d events at most",
		len(arrivals), last+1, again, jumps, furthest+1)
	if jumps > kills || furthest >= 128 {
		t.Errorf("%d runs were sent again after %d kills, %d events at most", jumps, kills, furthest+1)
	}
}

// checkProbes fails if, once the breaker was open, two attempts were closer than
// the attempt's timeout.
func checkProbes(t *testing.T, arrivals []journalEntry, threshold int, timeout time.Duration) {
	t.Helper()
	closest := time.Hour
	probes := 0
	opened := time.Time{}
	for i := 1; i < len(arrivals); i++ {
		gap := arrivals[i].at.Sub(arrivals[i-1].at)
		if opened.IsZero() {
			if i >= threshold && gap > timeout { // the first pause: the breaker is open
				opened = arrivals[i-1].at
			}
			continue
		}
		probes++
		closest = min(closest, gap)
	}
	t.Logf("breaker: opened after %d attempts or more, then %d probes, %.2fs apart at least", threshold, probes+1, closest.Seconds())
	if opened.IsZero() || probes == 0 || closest < timeout {
		t.Errorf("probes %.2fs apart, the attempt's timeout is %s; opened at %s", closest.Seconds(), timeout, opened)
	}
}

// TestOpenBreakerRewritesNoDelivery counts row updates while the breaker of an endpoint
// with a long backlog is open.
func TestOpenBreakerRewritesNoDelivery(t *testing.T) {
	db := testdb.Postgres(t)
	broken := newJournal(t, func(journalEntry) int { return http.StatusInternalServerError })
	good := newCounter(t)
	r := newReplica(t, db, nil)
	r.start()
	failing := r.makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["broken"],"breaker":{"threshold":3,"reset":"1h","reset_max":"1h"}}`, broken.URL))
	r.makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["good"]}`, good.URL))
	client := &http.Client{Timeout: 5 * time.Second}
	for i := range 5 {
		keepSending(t.Context(), client, "broken", strconv.Itoa(i), []string{r.url})
	}
	eventually(t, 10*time.Second, "the breaker is open", func() bool {
		_, raw := r.api(http.MethodGet, "/v1/endpoints/"+failing, "")
		return strings.Contains(string(raw), `"gate":{"state":"open"`)
	})
	const pending = 100_000
	r.sendMany("broken", pending)
	attempts := len(broken.seen())
	updates := func() (deliveries, due int64) {
		conn, err := pgx.Connect(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(t.Context()) }()
		// Other sessions write their counts down when they have been idle for a second.
		if err := conn.QueryRow(t.Context(), `select coalesce(sum(n_tup_upd) filter (where relname like 'deliveries%'), 0)::int8,
			coalesce(sum(n_tup_upd + n_tup_del) filter (where relname = 'due'), 0)::int8 from pg_stat_user_tables`).Scan(&deliveries, &due); err != nil {
			t.Fatal(err)
		}
		return deliveries, due
	}
	wait(t.Context(), 2*time.Second)
	deliveriesBefore, dueBefore := updates()
	const others = 200
	for i := range others { // a good neighbour is served meanwhile
		keepSending(t.Context(), client, "good", strconv.Itoa(i), []string{r.url})
	}
	eventually(t, 10*time.Second, "the neighbour's have arrived", func() bool { return good.begun.Load() == others })
	wait(t.Context(), 8*time.Second) // past a look at the due table, and some sweeps
	deliveriesAfter, dueAfter := updates()
	changed := deliveriesAfter - deliveriesBefore
	t.Logf("with %d pending behind an open breaker: %d deliveries updated while %d others were delivered, %d due rows changed, %d attempts",
		pending, changed, others, dueAfter-dueBefore, len(broken.seen())-attempts)
	if changed > others || dueAfter != dueBefore {
		t.Errorf("%d deliveries and %d due rows were rewritten; only the %d delivered ones may be", changed, dueAfter-dueBefore, others)
	}
	if n := len(broken.seen()); n != attempts {
		t.Errorf("%d attempts while open", n-attempts)
	}
}

// TestExpiryOfALongBacklog lets a whole backlog behind a closed gate expire at once.
func TestExpiryOfALongBacklog(t *testing.T) {
	const backlog = 50_000
	for name, open := range map[string]func(testing.TB) string{"sqlite": testdb.SQLite, "postgres": testdb.Postgres} {
		t.Run(name, func(t *testing.T) {
			r, good := newReplica(t, open(t), nil), newCounter(t)
			r.start()
			id := r.makeEndpoint(`{"url":"http://127.0.0.1:1/","event_types":["held"],"retry":{"deadline":"20s"}}`)
			r.makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["good"]}`, good.URL))
			if status, raw := r.api(http.MethodPost, "/v1/endpoints/"+id+"/pause", ""); status != http.StatusOK {
				t.Fatalf("pause: %d %s", status, raw)
			}
			client := &http.Client{Timeout: 30 * time.Second}
			r.sendMany("held", backlog)
			slowest, sent := time.Duration(0), 0
			eventually(t, 60*time.Second, "the backlog has expired", func() bool {
				began := time.Now()
				keepSending(t.Context(), client, "good", strconv.Itoa(sent), []string{r.url})
				slowest = max(slowest, time.Since(began))
				sent++
				_, raw := r.api(http.MethodGet, "/v1/deliveries?limit=1&status=pending&endpoint_id="+id, "")
				return strings.HasPrefix(string(raw), `{"data":[]`) && sent > 20
			})
			_, raw := r.api(http.MethodGet, "/metrics", "")
			ended := fmt.Sprintf(`posthaste_deliveries_finished_total{reason="expired",state="dead"} %v`, float64(backlog))
			t.Logf("%d deliveries expired; %d events were accepted meanwhile, the slowest in %s", backlog, sent, slowest)
			if !strings.Contains(string(raw), ended) && !strings.Contains(string(raw), `{reason="expired",state="dead"} 50000`) {
				t.Errorf("not all of %d were counted as expired", backlog)
			}
			if slowest > 2*time.Second {
				t.Errorf("an accept took %s while the backlog expired", slowest)
			}
		})
	}
}

// TestAStrangersLockOnAGate holds the rows of two gates locked: the limited endpoint is
// open then, the ordered one waits, and nobody else notices.
func TestAStrangersLockOnAGate(t *testing.T) {
	db := testdb.Postgres(t)
	r := newReplica(t, db, nil)
	r.start()
	limited, inOrder, plain := newJournal(t, nil), newJournal(t, nil), newJournal(t, nil)
	r.makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["limited"],"rate_limit":{"rps":1000,"burst":10}}`, limited.URL))
	r.makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["ordered"],"ordered":"endpoint"}`, inOrder.URL))
	r.makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["plain"]}`, plain.URL))
	client := &http.Client{Timeout: 5 * time.Second}
	send := func(eventType string, n int) (slowest time.Duration) {
		for i := range n {
			began := time.Now()
			keepSending(t.Context(), client, eventType, fmt.Sprintf("%d-%d", began.UnixNano(), i), []string{r.url})
			slowest = max(slowest, time.Since(began))
		}
		return slowest
	}
	for _, eventType := range []string{"limited", "ordered", "plain"} {
		send(eventType, 1) // so that each gate has its row
	}
	eventually(t, 10*time.Second, "the first ones have arrived", func() bool {
		return limited.distinct() == 1 && inOrder.distinct() == 1 && plain.distinct() == 1
	})
	stranger, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Close(context.WithoutCancel(t.Context())) }()
	tx, err := stranger.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select * from gates for update"); err != nil {
		t.Fatal(err)
	}
	accepts := max(send("limited", 20), send("ordered", 20))
	began := time.Now()
	accepts = max(accepts, send("plain", 50))
	eventually(t, 5*time.Second, "the plain endpoint's have arrived", func() bool { return plain.distinct() == 51 })
	neighbour := time.Since(began)
	eventually(t, 10*time.Second, "the limited endpoint's have arrived: it is open", func() bool { return limited.distinct() == 21 })
	t.Logf("while two gates were locked: the slowest accept took %s, 50 events to the neighbour %s", accepts, neighbour)
	if n := inOrder.distinct(); n != 1 {
		t.Errorf("%d ordered ones arrived while their gate was locked", n-1)
	}
	if accepts > time.Second {
		t.Errorf("an accept took %s", accepts)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, "the ordered ones have arrived", func() bool { return inOrder.distinct() == 21 })
	settledEverywhere(t, r, 10*time.Second)
	verify(t, db)
}

// TestInFlightIsSharedAmongReplicas counts how many attempts three replicas have under
// way together at an endpoint.
func TestInFlightIsSharedAmongReplicas(t *testing.T) {
	db := testdb.Postgres(t)
	replicas := []*replica{newReplica(t, db, nil), newReplica(t, db, nil), newReplica(t, db, nil)}
	urls := make([]string, len(replicas))
	for i, r := range replicas {
		r.start()
		urls[i] = r.url
	}
	const slots = 7
	j := newJournal(t, nil)
	j.delay = 20 * time.Millisecond
	replicas[0].makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["*"],"max_in_flight":%d}`, j.URL, slots))
	l := startLoad(t, 12, 100_000, urls...)
	wait(t.Context(), 4*time.Second) // each knows of the others
	j.mu.Lock()
	j.most = 0
	j.mu.Unlock()
	wait(t.Context(), 3*time.Second)
	l.stop()
	j.mu.Lock()
	most := j.most
	j.mu.Unlock()
	t.Logf("at most %d under way at once, %d allowed, by 3 replicas", most, slots)
	if most > slots || most < slots-2 {
		t.Errorf("%d under way at once, want %d", most, slots)
	}
	for _, r := range replicas {
		r.terminate(15 * time.Second)
	}
}

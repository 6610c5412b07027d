package sim_test

import (
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/examples/dm-inbox/sim"
	"github.com/posthaste-dev/posthaste/inbound/meta"
	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

const secret = "app_secret"

func options(events int) sim.Options {
	return sim.Options{
		Events: events, Seed: 1, Start: time.Unix(1_750_000_000, 0),
		Instagram: []string{"17841400000000001", "17841400000000002"}, Pages: []string{"1000001"},
	}
}

func TestSameSeedSamePlan(t *testing.T) {
	first, err := sim.NewPlan(options(2000))
	if err != nil {
		t.Fatal(err)
	}
	second, err := sim.NewPlan(options(2000))
	if err != nil {
		t.Fatal(err)
	}
	if d := first.Tables.Diff(second.Tables); len(d) > 0 || !maps.Equal(first.Kinds, second.Kinds) {
		t.Errorf("two plans of one seed differ: %v", d)
	}
	other := options(2000)
	other.Seed = 2
	third, err := sim.NewPlan(other)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Tables.Diff(third.Tables)) == 0 {
		t.Error("two seeds give one plan")
	}
	if _, err := sim.NewPlan(sim.Options{}); err == nil {
		t.Error("a plan without accounts")
	}
}

// TestEveryKindIsPlanned also keeps the odd kinds from getting lost.
func TestEveryKindIsPlanned(t *testing.T) {
	plan, err := sim.NewPlan(options(4000))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{
		"message", "echo", "edit", "unsend", "reaction", "unreact", "read of one", "read up to", "delivery", "postback",
		"story mention", "story reply", "referral", "optin", "handover", "comment", "whatsapp", "unknown account", "broken",
	} {
		if plan.Kinds[kind] == 0 {
			t.Errorf("no %s among %v", kind, plan.Kinds)
		}
	}
	counts := reflect.ValueOf(plan.Tables.Counts())
	for i := range counts.NumField() {
		if counts.Field(i).Int() == 0 {
			t.Errorf("no %s among %v", counts.Type().Field(i).Name, plan.Tables.Counts())
		}
	}
}

// receiver takes requests as a source does, now and then badly.
type receiver struct {
	mu     sync.Mutex
	rand   *rand.Rand
	times  map[string]int // by key
	sizes  map[int]bool   // of requests
	forged int
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	text, err := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || q.Header.Get(metatest.SignatureHeader) != metatest.Sign(secret, text) {
		r.forged++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.rand.IntN(5) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	webhook, err := meta.Parse(text)
	if err != nil {
		return
	}
	r.sizes[len(webhook.Items)] = true
	for _, item := range webhook.Items {
		r.times[item.Key]++
	}
}

func TestSendUntilTaken(t *testing.T) {
	plan, err := sim.NewPlan(options(4000))
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{rand: rand.New(rand.NewPCG(1, 1)), times: map[string]int{}, sizes: map[int]bool{}}
	server := httptest.NewServer(r)
	defer server.Close()
	report, err := plan.Send(t.Context(), sim.Target{URLs: []string{server.URL}, Secret: secret, Workers: 32})
	if err != nil {
		t.Fatal(err)
	}
	items, twice := 0, 0
	for _, n := range r.times {
		if items++; n > 1 {
			twice++
		}
	}
	// What was malformed has keys as well, a few.
	if items < 4000 || items > 4000+3 {
		t.Errorf("%d different items came, want 4000 and what was malformed", items)
	}
	if twice < 200 || !r.sizes[1] || len(r.sizes) < 10 {
		t.Errorf("%d items came twice, in requests of %v", twice, r.sizes)
	}
	if r.forged == 0 || report.Forged != int64(r.forged) || report.Malformed == 0 || report.Retried == 0 {
		t.Errorf("%d forged, report %v", r.forged, report)
	}
	t.Log(report)
}

func TestSendStopsWhenAForgedRequestIsTaken(t *testing.T) {
	plan, err := sim.NewPlan(options(4000))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	if report, err := plan.Send(t.Context(), sim.Target{URLs: []string{server.URL}, Secret: secret}); err == nil {
		t.Errorf("all is well: %v", report)
	}
}

func TestDiff(t *testing.T) {
	plan, err := sim.NewPlan(options(500))
	if err != nil {
		t.Fatal(err)
	}
	got := sim.Tables{Leads: maps.Clone(plan.Tables.Leads), Messages: maps.Clone(plan.Tables.Messages), Told: plan.Tables.Told}
	for key, message := range got.Messages {
		if message.Unsent || !message.FromCustomer {
			continue
		}
		changed := *message
		changed.Text, changed.Read = "other", !changed.Read
		got.Messages[key] = &changed
		break
	}
	got.Messages[sim.MessageKey{Account: "1", MID: "m"}] = &sim.Message{}
	for key := range got.Leads {
		delete(got.Leads, key)
		break
	}
	if d := plan.Tables.Diff(got); len(d) != 3 {
		t.Errorf("differences %q, want three", d)
	}
}

package pipeline

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	official "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// movable is a clock that a test can set forward, or stop at a moment.
type movable struct {
	ahead atomic.Int64
	fixed atomic.Pointer[time.Time]
}

func (m *movable) now() time.Time {
	if at := m.fixed.Load(); at != nil {
		return *at
	}
	return time.Now().Add(time.Duration(m.ahead.Load()))
}

const newerSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD6x2zqg/Lm1s="

func anyVersion(*store.EndpointRow) error { return nil }

// TestOldSecretSignsUntilTheOverlapEnds moves the clock over the end of an overlap
// and lets nothing reload: each attempt has to see by itself what its time says.
func TestOldSecretSignsUntilTheOverlapEnds(t *testing.T) {
	var clock movable
	e := startEngine(t, func(c *Config) { c.Now = clock.now })
	type request struct {
		header http.Header
		body   []byte
	}
	requests := make(chan request, 10)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- request{r.Header, body}
	}))
	defer web.Close()
	row := e.endpoint(web.URL, nil)
	row, err := e.RotateSecret(t.Context(), e.tenant, row.ID, Rotation{Secret: newerSecret, Overlap: time.Hour}, anyVersion)
	if err != nil {
		t.Fatal(err)
	}
	known := e.routing.current(row.No)
	signedWith := func() (secrets []string) {
		t.Helper()
		d, _ := e.ended(e.send("a", "x").ID, 1)
		if d.State != posthaste.StateDelivered {
			t.Fatalf("%+v", d)
		}
		got := <-requests
		for _, secret := range []string{newerSecret, testSecret} {
			w, err := official.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			if w.Verify(got.body, got.header) == nil {
				secrets = append(secrets, secret)
			}
		}
		if n := len(strings.Fields(got.header.Get("webhook-signature"))); n != len(secrets) {
			t.Errorf("%d signatures, %d accepted", n, len(secrets))
		}
		return secrets
	}
	if got := signedWith(); len(got) != 2 {
		t.Errorf("during the overlap signed with %q", got)
	}

	end := row.Secrets[0].ExpiresAt
	offset := time.Duration(e.clock.offset.Load())
	at := func(moment time.Time) *time.Time { moment = moment.Add(-offset); return &moment }
	both, err := e.targetOf(known)
	if err != nil || both != known.signing.target {
		t.Fatalf("%v", err)
	}
	e.stop() // no beat measures the offset anew
	for _, c := range []struct {
		moment time.Time
		both   bool
	}{{end.Add(-time.Microsecond), true}, {end, false}, {end.Add(time.Microsecond), false}, {end.Add(24 * time.Hour), false}} {
		offset = time.Duration(e.clock.offset.Load())
		clock.fixed.Store(at(c.moment.Add(time.Nanosecond))) // what is cut off is not rounded up
		if got, err := e.targetOf(known); err != nil || (got == both) != c.both {
			t.Errorf("at %s of the end: with both %t, %v; want %t", c.moment.Sub(end), got == both, err, c.both)
		}
	}
}

func TestAfterTheOverlapTheNewSecretSignsAlone(t *testing.T) {
	var clock movable
	e := startEngine(t, func(c *Config) { c.Now = clock.now })
	signatures := make(chan string, 10)
	web := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signatures <- r.Header.Get("webhook-signature")
	}))
	defer web.Close()
	row := e.endpoint(web.URL, nil)
	if _, err := e.RotateSecret(t.Context(), e.tenant, row.ID, Rotation{Secret: newerSecret, Overlap: time.Minute}, anyVersion); err != nil {
		t.Fatal(err)
	}
	before := e.routing.current(row.No)
	for _, c := range []struct {
		ahead time.Duration
		want  int
	}{{0, 2}, {50 * time.Second, 2}, {61 * time.Second, 1}} {
		clock.ahead.Store(int64(c.ahead))
		e.ended(e.send("a", "x").ID, 1)
		if got := strings.Fields(<-signatures); len(got) != c.want {
			t.Errorf("%s later: signatures %q, want %d", c.ahead, got, c.want)
		}
	}
	if e.routing.current(row.No) != before {
		t.Error("the endpoint was loaded anew: the test shows nothing")
	}
	e.verified()
}

func TestSigningOfManySecrets(t *testing.T) {
	var clock movable
	e := startEngine(t, func(c *Config) { c.Now = clock.now })
	row := e.endpoint("https://receiver.example/", nil)
	now := e.clock.Now()
	var all []store.SealedSecret
	for no, expires := range []time.Duration{-time.Second, time.Hour, 2 * time.Hour, time.Hour, 0} {
		sealed, err := e.keyring.Seal(secretContext(row.ID, no+1), []byte(testSecret))
		if err != nil {
			t.Fatal(err)
		}
		s := store.SealedSecret{No: no + 1, Sealed: sealed}
		if expires != 0 {
			s.ExpiresAt = now.Add(expires)
		}
		all = append(all, s)
	}
	row.Secrets = all
	s, err := e.prepareSigning(row)
	if err != nil {
		t.Fatal(err)
	}
	var spans []time.Duration
	for ; s != nil; s = s.next {
		if s.until.IsZero() {
			spans = append(spans, 0)
		} else {
			spans = append(spans, s.until.Sub(now))
		}
	}
	if len(spans) != 3 || spans[0] != time.Hour || spans[1] != 2*time.Hour || spans[2] != 0 {
		t.Errorf("spans %v", spans)
	}
	row.Secrets = all[1:2]
	if s, err = e.prepareSigning(row); err != nil || s.next != nil {
		t.Errorf("%+v, %v", s, err)
	}
	clock.ahead.Store(int64(2 * time.Hour))
	if _, err := e.targetOf(&endpoint{signing: s}); err == nil {
		t.Error("an endpoint without a secret in force has a target")
	}
}

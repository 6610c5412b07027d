package inhttp_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/inhttp"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/internal/testdb/cluster"
)

func TestDeliveryIsStoredOnceAndGoesOn(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		arrived := make(chan http.Header, 10)
		receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Header.Set("Test-Body", string(body))
			arrived <- r.Header
		}))
		defer receiver.Close()
		d := posthaste.DefaultDefinition()
		d.URL, d.EventTypes = receiver.URL, []string{"github.*"}
		_, err := s.CreateEndpoint(t.Context(), s.tenant, posthaste.Endpoint{Definition: d}, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		must(t, err)

		row, body := s.source("github"), `{ "ref":"refs/heads/main" ,"n":1e2}`
		first := s.push(row, "d-1", body).want(t, 200)
		if again := s.push(row, "d-1", body); again.status != first.status || again.body != first.body {
			t.Errorf("a repetition is answered %v, the first one %v", again, first)
		}
		events := s.events()
		if len(events) != 1 {
			t.Fatalf("%d events", len(events))
		}
		e := events[0]
		source := row.ID.Print(posthaste.KindSource)
		if e.Type != "github.push" || e.Source != source || string(e.Payload) != body || e.ContentType != "application/json" || e.CorrelationID != e.ID || !strings.HasPrefix(e.IdempotencyKey, "sha256:") {
			t.Errorf("event: %+v", e)
		}
		if header(e.SourceHeaders, "User-Agent") != "GitHub-Hookshot/1" || header(e.SourceHeaders, "Authorization") != "***" || header(e.SourceHeaders, "X-Forwarded-For") != "192.0.2.1" {
			t.Errorf("kept headers: %v", e.SourceHeaders)
		}
		got := <-arrived
		for name, want := range map[string]string{
			"X-Github-Event": "push", "X-Github-Delivery": "d-1", "X-Hub-Signature-256": push("", []byte(body)).Get("X-Hub-Signature-256"),
			"Webhook-Id": e.ID.Print(posthaste.KindEvent), "Content-Type": "application/json", "Test-Body": body,
			"Authorization": "", "X-Forwarded-For": "", "Posthaste-Event-Type": "github.push",
		} {
			if got.Get(name) != want {
				t.Errorf("delivered with %s: %q, want %q", name, got.Get(name), want)
			}
		}
		line := s.last(2)
		if line["result"] != "duplicate" || line["source_id"] != source || line["correlation_id"] != e.ID.Print(posthaste.KindEvent) || line["provider"] != "github" || line["level"] != "INFO" {
			t.Errorf("its line: %v", line)
		}
		page, err := s.Store().ListEvents(t.Context(), store.ListEventsParams{Tenant: s.tenant.No, Source: source, Limit: 10})
		if err != nil || len(page.Events) != 1 {
			t.Errorf("events of the source: %v, %v", page, err)
		}
	})
}

func TestTraceOfARequest(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		row := s.source("github")
		const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
		for delivery, given := range map[string][]string{"d-1": {trace}, "d-2": {"nonsense"}, "d-3": {trace, trace}, "d-4": nil} {
			body := `{"delivery":"` + delivery + `"}`
			h := push(delivery, []byte(body))
			h["Traceparent"] = given
			s.do("POST", s.at(row), h, strings.NewReader(body)).want(t, 200)
		}
		events := s.events()
		if len(events) != 4 {
			t.Errorf("%d events", len(events))
		}
		for _, e := range events {
			want := ""
			if string(e.Payload) == `{"delivery":"d-1"}` {
				want = trace
			}
			if e.Traceparent != want {
				t.Errorf("%s: trace %q, want %q", e.Payload, e.Traceparent, want)
			}
		}
	})
}

func TestSameDeliveryWithOtherBytes(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		send := func(row store.SourceRow, body string) answer {
			h := http.Header{"X-Gitlab-Token": {secret}, "Idempotency-Key": {"d-1"}}
			return s.do("POST", s.at(row), h, strings.NewReader(body))
		}
		row := s.source("gitlab")
		first := send(row, `{"n":1}`).want(t, 200)
		if again := send(row, `{"n":2}`); again.status != first.status || again.body != first.body {
			t.Errorf("answered %v, want as the first: %v", again, first)
		}
		if e := s.events(); len(e) != 1 || string(e[0].Payload) != `{"n":1}` {
			t.Errorf("events: %v", e)
		}
		if line := s.last(2); line["level"] != "WARN" || !strings.Contains(fmt.Sprint(line["warnings"]), "other bytes") {
			t.Errorf("its line: %v", line)
		}
		// Another source has deliveries of its own.
		send(s.source("gitlab"), `{"n":1}`).want(t, 200)
		if e := s.events(); len(e) != 2 {
			t.Errorf("%d events", len(e))
		}
	})
}

// A genuine delivery that somebody sends again under other headers is no new event.
func TestSameDeliveryWithOtherHeaders(t *testing.T) {
	s := start(t, openSQLite(t))
	row, body := s.source("github"), `{"action":"opened","issue":{"id":1}}`
	for i, c := range []struct{ name, value string }{
		{"X-Github-Event", "issues"}, {"Content-Type", "application/x-www-form-urlencoded"}, {"X-Github-Delivery", "other"}, {"X-Github-Event", "push"},
		{"Content-Encoding", "gzip"}, {"Idempotency-Key", "other"},
	} {
		h := push("d-1", []byte(body))
		h.Set(c.name, c.value)
		s.do("POST", s.at(row), h, strings.NewReader(body)).want(t, 200)
		if e := s.events(); len(e) != 1 || e[0].Type != "github.issues.opened" {
			t.Fatalf("after %d requests, the last with %s: %s: %d events, the last of type %s", i+1, c.name, c.value, len(e), e[0].Type)
		}
	}
}

func TestConcurrentRepetitions(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		row := s.source("github")
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { s.push(row, "d-1", `{"n":1}`).want(t, 200) })
		}
		wg.Wait()
		if e := s.events(); len(e) != 1 {
			t.Errorf("50 identical deliveries are %d events", len(e))
		}
	})
}

func TestBadSignature(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		row := s.source("github")
		for name, tamper := range map[string]func(h http.Header) string{
			"another body": func(http.Header) string { return `{"n":2}` },
			"not JSON":     func(http.Header) string { return `{"n":` },
			"no signature": func(h http.Header) string { h.Del("X-Hub-Signature-256"); return `{"n":1}` },
		} {
			h := push("d-1", []byte(`{"n":1}`))
			body := tamper(h)
			if a := s.do("POST", s.at(row), h, strings.NewReader(body)).want(t, 401); strings.Contains(a.body, "signature") || strings.Contains(a.body, "secret") {
				t.Errorf("%s: the answer explains itself: %s", name, a.body)
			}
		}
		if len(s.events()) != 0 {
			t.Error("something was stored")
		}
		got := s.rejections(row)
		if len(got) != 3 {
			t.Fatalf("%d rejections", len(got))
		}
		for _, r := range got {
			if r.Reason == "" || r.Detail == "" || r.Method != "POST" || header(r.Headers, "X-Github-Delivery") != "d-1" || header(r.Headers, "Authorization") != "***" || r.BodyBytes != len(r.Body) {
				t.Errorf("rejection: %+v", r)
			}
		}
		h := push("d-1", nil)
		s.do("POST", s.at(row), h, bytes.NewReader(make([]byte, 1<<20))).want(t, 401)
		if r := s.rejections(row)[0]; len(r.Body) != posthaste.MaxShownBodyBytes || r.BodyBytes != 1<<20 {
			t.Errorf("of a large body %d bytes are kept, and %d counted", len(r.Body), r.BodyBytes)
		}
	})
}

func TestBadInput(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		row := s.source("github")
		t.Run("not JSON, signed", func(t *testing.T) {
			s.push(row, "malformed", `{"n":`).want(t, 200)
			if e := s.events(); len(e) != 1 || e[0].Type != "github.malformed" || string(e[0].Payload) != `{"n":` {
				t.Errorf("events: %+v", e)
			}
			if line := s.last(1); line["level"] != "WARN" || line["warnings"] == nil {
				t.Errorf("its line: %v", line)
			}
		})
		t.Run("5 MB", func(t *testing.T) {
			body := `{"x":"` + strings.Repeat("y", 5<<20) + `"}`
			s.push(row, "large", body).want(t, 200)
			if e := s.events(); len(e[0].Payload) != len(body) {
				t.Errorf("%d bytes are stored of %d", len(e[0].Payload), len(body))
			}
		})
		t.Run("more than it takes", func(t *testing.T) {
			body := bytes.Repeat([]byte(" "), 8<<20+1)
			s.do("POST", s.at(row), push("d", body), bytes.NewReader(body)).want(t, 413)
			s.do("POST", s.at(row), push("d", body), struct{ io.Reader }{bytes.NewReader(body)}).want(t, 413) // chunked
		})
		t.Run("cut short", func(t *testing.T) { cutShort(t, s, row) })
		t.Run("compressed", func(t *testing.T) {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			_, _ = w.Write([]byte(`{"n":1}`))
			must(t, w.Close())
			h := push("packed", packed.Bytes())
			h.Set("Content-Encoding", "gzip")
			s.do("POST", s.at(row), h, bytes.NewReader(packed.Bytes())).want(t, 200)
			if e := s.events()[0]; e.Type != "github.push" || e.ContentEncoding != "gzip" || !bytes.Equal(e.Payload, packed.Bytes()) {
				t.Errorf("event: %+v", e)
			}
		})
		t.Run("repeated headers", func(t *testing.T) {
			h := push("twice", []byte(`{"n":1}`))
			h.Add("X-Github-Event", "other")
			s.do("POST", s.at(row), h, strings.NewReader(`{"n":1}`)).want(t, 200)
			h.Add("X-Hub-Signature-256", "sha256=00")
			if a := s.do("POST", s.at(row), h, strings.NewReader(`{"n":1}`)); a.status != 200 && a.status != 401 {
				t.Errorf("two signatures: %v", a)
			}
		})
		t.Run("wrong methods", func(t *testing.T) {
			for _, method := range []string{"PUT", "DELETE", "PATCH", "GET", "TRACE", "FROB"} {
				if a := s.do(method, s.at(row), push("m", nil), nil); a.status != 405 || !strings.Contains(a.header.Get("Allow"), "POST") {
					t.Errorf("%s is answered %v", method, a)
				}
			}
		})
		t.Run("nothing at all", func(t *testing.T) {
			s.push(row, "empty", "").want(t, 200)
			if e := s.events()[0]; e.Type != "github.malformed" || len(e.Payload) != 0 {
				t.Errorf("event: %+v", e)
			}
		})
	})
}

func TestEndpointsOfOneSource(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		mine, other := s.source("github"), s.source("github")
		d := posthaste.DefaultDefinition()
		d.URL, d.Sources = "http://127.0.0.1:9/", []string{mine.ID.Print(posthaste.KindSource)}
		_, err := s.CreateEndpoint(t.Context(), s.tenant, posthaste.Endpoint{Definition: d}, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		must(t, err)
		s.push(mine, "d-1", "{}").want(t, 200)
		s.push(other, "d-1", "{}").want(t, 200)
		_, err = s.Accept(t.Context(), pipeline.Submission{Tenant: s.tenant, Event: posthaste.Event{Type: "github.push", Source: posthaste.SourceAPI}})
		must(t, err)
		for _, e := range s.events() {
			if want := map[bool]int{true: 1}[e.Source == d.Sources[0]]; e.FanOut != want {
				t.Errorf("an event of %s goes to %d endpoints, want %d", e.Source, e.FanOut, want)
			}
		}
	})
}

// cutShort announces more than it sends.
func cutShort(t *testing.T, s *server, row store.SourceRow) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	must(t, err)
	defer conn.Close()
	body := `{"n":1}`
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\nX-Hub-Signature-256: %s\r\n\r\n%s",
		strings.TrimPrefix(s.at(row), s.url), push("", []byte(body)).Get("X-Hub-Signature-256"), body)
	must(t, err)
	must(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
		t.Errorf("answered %q, %v", got, err)
	}
}

func TestUnknownSource(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		row := s.source("github")
		s.push(row, "d-1", "{}").want(t, 200)
		must(t, s.DeleteSource(t.Context(), s.tenant, row.ID, 0))
		var want *answer
		for _, path := range []string{
			row.ID.Print(posthaste.KindSource), posthaste.NewSourceID().Print(posthaste.KindSource), "src_1", "", "x/y",
			row.ID.Print(posthaste.KindSource) + "/", row.ID.Print(posthaste.KindEndpoint),
		} {
			for _, method := range []string{"POST", "GET", "PUT"} {
				got := s.do(method, s.url+inhttp.PathPrefix+path, push("d", []byte("{}")), strings.NewReader("{}")).want(t, 404)
				if want == nil {
					want = &got
				}
				got.header.Del("Posthaste-Request-Id")
				want.header.Del("Posthaste-Request-Id")
				got.header.Del("Date")
				want.header.Del("Date")
				if fmt.Sprint(got) != fmt.Sprint(*want) {
					t.Errorf("%s %q is answered %v, others %v", method, path, got, *want)
				}
			}
		}
	})
}

// Whoever asks for a path that no source has must not be able to hold the connection.
func TestBodyThatNobodyReads(t *testing.T) {
	s := start(t, openSQLite(t), func(_ *pipeline.Config, c *inhttp.Config) { c.BodyTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "POST %ssrc_1 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf", inhttp.PathPrefix)
	must(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
	if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection is still open: %v", err)
	}
}

func TestTenantOfASourceIsDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		var err error
		s.tenant, err = s.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme"})
		must(t, err)
		row := s.source("github")
		s.push(row, "d-1", "{}").want(t, 200)
		must(t, s.DeleteTenant(t.Context(), s.tenant, 0))
		s.push(row, "d-2", "{}").want(t, 404)
	})
}

// A change holds on a replica that knew the source before, within two seconds.
func TestChangesHoldEverywhere(t *testing.T) {
	url := testdb.Postgres(t)
	one, two := start(t, openPostgres(t, url)), start(t, openPostgres(t, url))
	row := one.source("github")
	two.push(row, "d-1", "{}").want(t, 200)
	soon := func(what string, isTrue func() bool) {
		t.Helper()
		began := time.Now()
		two.until(what, isTrue)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("%s after %s", what, took)
		}
	}
	_, err := one.ChangeSource(t.Context(), one.tenant, row.ID, func(edit *pipeline.SourceEdit) error {
		edit.Secret.Secrets = []string{"another secret"}
		return nil
	})
	must(t, err)
	one.push(row, "d-2", "{}").want(t, 401) // where it was changed it holds at once
	soon("the other replica has the new secret", func() bool { return two.push(row, "d-3", "{}").status == 401 })
	must(t, one.DeleteSource(t.Context(), one.tenant, row.ID, 0))
	one.push(row, "d-4", "{}").want(t, 404)
	soon("the other replica does not know it", func() bool { return two.push(row, "d-5", "{}").status == 404 })
}

func TestDatabaseIsAway(t *testing.T) {
	wantAway := func(t *testing.T, s *server, row store.SourceRow) {
		t.Helper()
		for i, h := range []http.Header{push("d-2", []byte("{}")), push("d-3", []byte("{}")), push("d-3", []byte("{}"))} {
			if a := s.do("POST", s.at(row), h, strings.NewReader("{}")); a.status != 503 || a.header.Get("Retry-After") == "" {
				t.Errorf("delivery %d is answered %v, want 503", i, a)
			}
		}
		s.do("POST", s.url+inhttp.PathPrefix+posthaste.NewSourceID().Print(posthaste.KindSource), push("d", nil), nil).want(t, 503) // who knows
		if line := s.last(5); line["result"] != "unavailable" || line["level"] != "WARN" || line["err"] == nil {
			t.Errorf("its line: %v", line)
		}
	}
	t.Run("sqlite", func(t *testing.T) {
		db := openSQLite(t)
		s := start(t, db)
		row := s.source("github")
		s.push(row, "d-1", "{}").want(t, 200)
		must(t, db.Close())
		wantAway(t, s, row)
	})
	t.Run("postgres", func(t *testing.T) {
		c := testdb.NewCluster(t)
		s := start(t, openPostgres(t, c.Postgres()))
		row := s.source("github")
		s.push(row, "d-1", "{}").want(t, 200)
		c.Stop(cluster.Immediate)
		wantAway(t, s, row)
		c.Start()
		s.until("deliveries are taken again", func() bool { return s.push(row, "d-2", "[2]").status == 200 })
		if e := s.events(); len(e) < 2 || !slices.ContainsFunc(e, func(e posthaste.Event) bool { return string(e.Payload) == "[2]" }) {
			t.Errorf("events: %v", e)
		}
	})
}

func TestRejectionsAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		row, began := s.source("github"), time.Now()
		h := push("d-1", []byte("x"))
		for range 60 {
			s.do("POST", s.at(row), h, strings.NewReader("{}")).want(t, 401)
		}
		most := 5 * (2 + int(time.Since(began)/time.Second))
		if n := len(s.rejections(row)); n < 5 || n > most {
			t.Errorf("%d of 60 rejections are kept, want 5 to %d", n, most)
		}
	})
}

func TestASourceThatRejectsAllIsAnnounced(t *testing.T) {
	onBoth(t, func(t *testing.T, s *server) {
		row := s.source("github")
		wrong := push("d-1", []byte("x"))
		operator, err := s.Tenant(t.Context(), posthaste.TenantOperator)
		must(t, err)
		announced := func() int {
			page, err := s.Store().ListEvents(t.Context(), store.ListEventsParams{Tenant: operator.No, Type: "source.rejecting", Limit: 10})
			must(t, err)
			return len(page.Events)
		}
		inARow := func() int {
			now, err := s.Store().Source(t.Context(), s.tenant.No, row.ID)
			must(t, err)
			return now.Rejected
		}
		// Five a second are kept; those between count with the next one that is.
		reject := func(until func() bool) {
			s.until("rejections are counted", func() bool {
				s.do("POST", s.at(row), wrong, strings.NewReader("{}")).want(t, 401)
				return until()
			})
		}
		reject(func() bool { return inARow() >= 4 })
		s.push(row, "d-1", "{}").want(t, 200) // one that is valid begins the count anew
		if n := inARow(); n != 0 {
			t.Errorf("%d rejections in a row after a valid delivery", n)
		}
		reject(func() bool { return announced() > 0 })
		if n := inARow(); n < pipeline.RejectingAfter {
			t.Errorf("it was announced after %d", n)
		}
		n := inARow()
		reject(func() bool { return inARow() > n })
		if announced() != 1 {
			t.Errorf("it was announced %d times", announced())
		}
	})
}

func TestItemsOfADelivery(t *testing.T) {
	expand := func(_ *pipeline.Config, c *inhttp.Config) {
		c.Expanders = map[string]inhttp.Expander{"github": func(body []byte) (items []inhttp.Item, warnings []string) {
			for i, part := range strings.Split(string(body), ",") {
				items = append(items, inhttp.Item{Type: "github.part", Key: "k" + part, Payload: fmt.Append(nil, i)})
			}
			return items, []string{"odd"}
		}}
	}
	s := start(t, openSQLite(t), expand)
	row := s.source("github")
	s.push(row, "d-1", `[1,2,3]`).want(t, 200)
	s.push(row, "d-2", `[1,2,4]`).want(t, 200) // repeats two items
	s.push(row, "d-2", `[1,2,4]`).want(t, 200)
	events := s.events()
	if len(events) != 6 {
		t.Fatalf("%d events, want 2 deliveries and 4 items", len(events))
	}
	parents := map[posthaste.ID]int{}
	for _, e := range events {
		if e.Type == "github.part" {
			if parents[e.Parent]++; e.CorrelationID != e.Parent || e.Source != row.ID.Print(posthaste.KindSource) {
				t.Errorf("an item: %+v", e)
			}
		}
	}
	if len(parents) != 2 {
		t.Errorf("items by parent: %v", parents)
	}
	if line := s.last(3); line["children"] != 3.0 || line["result"] != "duplicate" || line["warnings"] != "odd" {
		t.Errorf("its line: %v", line)
	}
}

func TestReplicaWithoutTheRole(t *testing.T) {
	s := start(t, openSQLite(t), func(c *pipeline.Config, _ *inhttp.Config) { c.Roles = pipeline.Roles{Accept: true, Deliver: true} })
	row := s.source("github")
	if a := s.push(row, "d-1", "{}").want(t, 503); a.header.Get("Retry-After") == "" {
		t.Errorf("answered %v", a)
	}
}

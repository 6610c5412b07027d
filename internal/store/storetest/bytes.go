package storetest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var bytesCases = []testCase{
	{name: "payloads come out byte for byte", run: testPayloadBytes},
	{name: "text of an event comes out byte for byte", run: testEventText},
	{name: "what a receiver sends cannot stop a settle (A3)", run: testReceiverBytes},
	{name: "one odd result does not hold up the batch (A3)", run: testReceiverBytesBatch},
	{name: "a result without its partition does not hold up the batch (A3)", run: testResultOfLostDay},
	{name: "times keep their microseconds", run: testMicroseconds},
}

func testPayloadBytes(t *testing.T, f *fixture) {
	r := f.replica(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	large := make([]byte, 1<<20)
	random := rand.NewChaCha8([32]byte{1})
	random.Read(large) //nolint:errcheck // never fails
	for name, payload := range map[string][]byte{
		"empty": {}, "every byte": every, "1 MiB": large, "NUL": {0}, "not UTF-8": {0xff, 0xfe, 0xc0},
		"odd JSON": []byte("{ \"n\" : 9007199254740993,\t\"u\":\"\\u00e9\\ud83d\\ude00\", \"n\":1e400 }\r\n"),
	} {
		e := f.event()
		e.Payload = payload
		f.accept(t, r, e)
		got, err := f.Store.Event(t.Context(), f.tenant, e.ID)
		if err != nil || !bytes.Equal(got.Payload, payload) {
			t.Errorf("%s: read %d bytes, want %d as they were; %v", name, len(got.Payload), len(payload), err)
		}
		loaded, err := f.Store.Load(t.Context(), store.LoadParams{Events: []store.EventKey{{Tenant: f.tenant, ID: e.ID}}, MaxBytes: 1})
		if err != nil || len(loaded) != 1 || !bytes.Equal(loaded[0].Payload, payload) {
			t.Errorf("%s: loaded %d events, not the payload as it was; %v", name, len(loaded), err)
		}
		page, err := f.Store.ListEvents(t.Context(), store.ListEventsParams{Tenant: f.tenant, Limit: 1})
		if err != nil || len(page.Events) != 1 || page.Events[0].PayloadBytes != len(payload) || len(page.Events[0].Payload) != 0 {
			t.Errorf("%s: listed %+v, want %d payload bytes and no payload; %v", name, page, len(payload), err)
		}
	}
}

func testEventText(t *testing.T, f *fixture) {
	r := f.replica(t)
	for _, s := range []string{"", " ", "'\"\\;--%_", "ü–😀", "a\tb", "{\"json\": null}", "\\x00", "\\N", "NULL"} {
		e := keyed(f.event(), "key of "+s)
		e.ContentType, e.ContentEncoding, e.OrderKey, e.Traceparent, e.Source = s, s, s, s, s
		e.Headers = []posthaste.Header{{Name: "X-One", Value: s}, {Name: "X-Two", Value: s + s}}
		f.accept(t, r, e)
		got, err := f.Store.Event(t.Context(), f.tenant, e.ID)
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("event with %q", s), got, e.Event)
	}
}

// odd are strings that a text column of one database or the other refuses.
var odd = []string{
	"\x00", "a\x00b", "\xff\xfe", "\xc3\x28", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\u0000\ufffd", "\\u0000", "\\000", "",
}

// oddAttempt is an attempt in which all that a receiver controls is odd.
func (f *fixture) oddAttempt(l store.Lease, s string) *posthaste.Attempt {
	a := f.attempt(l, posthaste.OutcomeTransient, 500)
	a.Error = "bad answer " + s
	a.ResponseHeaders = []posthaste.Header{{Name: "X-" + s, Value: s}, {Name: "Plain", Value: "y"}}
	a.ResponseBody = []byte(s)
	return a
}

func testReceiverBytes(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	for _, s := range odd {
		l := f.acceptLeased(t, r, ep)
		settlement := f.transient(l, f.at(time.Second))
		settlement.Attempt = f.oddAttempt(l, s)
		f.settleMoved(t, r, settlement)
		same(t, fmt.Sprintf("attempt with %q", s), f.attempts(t, l.Delivery), []posthaste.Attempt{*settlement.Attempt})
		if d := f.delivery(t, l.Delivery); d.LastError != settlement.Attempt.Error {
			t.Errorf("last error %q, want %q", d.LastError, settlement.Attempt.Error)
		}
	}
	// At the caps of what is kept.
	l := f.acceptLeased(t, r, ep)
	settlement := f.delivered(l)
	settlement.Attempt.ResponseBody = bytes.Repeat([]byte{0xff}, posthaste.MaxResponseBodyBytes)
	settlement.Attempt.SentTwice = true
	for i := range posthaste.MaxResponseHeaders {
		settlement.Attempt.ResponseHeaders = append(settlement.Attempt.ResponseHeaders,
			posthaste.Header{Name: fmt.Sprint("X-", i), Value: string(bytes.Repeat([]byte{byte(i)}, 1000))})
	}
	f.settleMoved(t, r, settlement)
	same(t, "attempt at the caps", f.attempts(t, l.Delivery), []posthaste.Attempt{*settlement.Attempt})
}

func testReceiverBytesBatch(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	var batch []store.Settlement
	for i := range 3 * len(odd) {
		s := f.transient(f.acceptLeased(t, r, ep), f.at(time.Second))
		if i%3 == 0 {
			s.Attempt = f.oddAttempt(s.Lease, odd[i/3])
		}
		batch = append(batch, s)
	}
	f.settleMoved(t, r, batch...)

	// The late record of an odd result takes another way into the table.
	l := f.acceptLeased(t, r, ep)
	f.revoke(t, r, f.now, l)
	late := f.transient(l, f.at(time.Second))
	late.Attempt = f.oddAttempt(l, odd[1])
	f.settle(t, r, late)
	late.Attempt.Late = true
	same(t, "late attempt", f.attempts(t, l.Delivery), []posthaste.Attempt{*late.Attempt})
}

func testResultOfLostDay(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	healthy := f.acceptLeased(t, r, ep)
	gone := healthy
	gone.Delivery = f.eventAt(f.now.AddDate(-3, 0, 0)).ID.Delivery(1)
	got := f.settle(t, r, f.transient(gone, f.at(time.Second)), f.delivered(healthy))
	same(t, "settled", got, store.Settled{Moved: []bool{false, true}})
	f.wantStatus(t, healthy.Delivery, "delivered", 1)
	f.wantDue(t, gone.Delivery, 0)
}

func testMicroseconds(t *testing.T, f *fixture) {
	r, ep := f.replica(t), f.endpoint(t)
	d := f.due(ep, f.at(-time.Second+time.Microsecond))
	d.ExpiresAt = f.at(time.Hour + 7*time.Microsecond)
	f.accept(t, r, f.event(d))
	l := f.claimOne(t, r, f.now, ep)
	if !l.DueAt.Equal(d.DueAt) || !l.ExpiresAt.Equal(d.ExpiresAt) || l.DueAt.Location() != time.UTC {
		t.Errorf("lease with %v and %v, want %v and %v in UTC", l.DueAt, l.ExpiresAt, d.DueAt, d.ExpiresAt)
	}
	s := f.delivered(l)
	s.Attempt.StartedAt = f.at(3 * time.Microsecond)
	s.Attempt.Timings = posthaste.Timings{DNS: time.Microsecond, Total: 1234567 * time.Microsecond}
	f.settleMoved(t, r, s)
	same(t, "attempts", f.attempts(t, l.Delivery), []posthaste.Attempt{*s.Attempt})
	if got := f.attempts(t, l.Delivery)[0]; got.StartedAt.Location() != time.UTC {
		t.Errorf("started at %v, want UTC", got.StartedAt)
	}
}

package httpapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/pipeline"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// TestNotNow: a batch of which nothing was taken for now is answered as a whole,
// one of which something was is not, and bad lines alone are no reason.
func TestNotNow(t *testing.T) {
	taken := pipeline.Result{}
	busy := pipeline.Result{Err: &posthaste.Error{Code: posthaste.CodeOverloaded}}
	away := pipeline.Result{Err: fmt.Errorf("commit: %w", store.ErrUnavailable)}
	mismatch := pipeline.Result{Err: &posthaste.Error{Code: posthaste.CodeIdempotencyMismatch}}
	for _, tt := range []struct {
		results []pipeline.Result
		want    posthaste.Code
	}{
		{nil, ""}, {[]pipeline.Result{taken, busy}, ""}, {[]pipeline.Result{busy, taken}, ""}, {[]pipeline.Result{mismatch}, ""},
		{[]pipeline.Result{busy, busy}, posthaste.CodeOverloaded}, {[]pipeline.Result{mismatch, away}, posthaste.CodeUnavailable}, {[]pipeline.Result{away, mismatch}, posthaste.CodeUnavailable},
	} {
		err := notNow(tt.results)
		if (err != nil) != (tt.want != "") || err != nil && explain(err).Code != tt.want {
			t.Errorf("%v: %v, want %s", tt.results, err, tt.want)
		}
	}
}

// FuzzBatch holds the reader of batches to encoding/json: what it accepts is
// JSON whose members are what encoding/json reads, and a payload is a value
// that the line holds as it is.
func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		`{"type":"a","payload":{"a":[1,"]}",{"b":"\\\""}]}}`, `{"type":"a","payload_base64":"AP8=","headers":{"X-A":"b"},"endpoints":["ep_00000000000000000000000000"]}`,
		"{ \"payload\" :\t1e400 ,\r \"type\":\"\\u0061\",\"idempotency_key\":\"\\ud800\\ufffd\"}\r\n\n[]", `{"type":"a","payload":"x` + "\xff" + `"}`, `{"type":"a","type":"b","payload":null}`,
		`{"type":"a","payload":-0.0,"order_key":"é","traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","content_type":null}`, `{"`, `{}`, `"`, `7`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := batch{maxPayloadBytes: 1 << 20}
		if err := b.readLines(body); err != nil {
			return
		}
		var lines [][]byte
		for line := range bytes.SplitSeq(body, []byte("\n")) {
			if line = bytes.Trim(line, " \t\r"); len(line) > 0 {
				lines = append(lines, line)
			}
		}
		if len(lines) != len(b.refusals) {
			t.Fatalf("%d lines, %d answers", len(lines), len(b.refusals))
		}
		next := 0
		for i, line := range lines {
			if err := b.refusals[i]; err != nil {
				if code := posthaste.CodeOf(err); (code == posthaste.CodeUnreadable) == (json.Valid(line) && utf8.Valid(line)) {
					t.Errorf("%q: %v", line, err)
				}
				continue
			}
			s := b.submissions[next]
			next++
			var want struct {
				Type           string
				Payload        json.RawMessage
				PayloadBase64  *string `json:"payload_base64"`
				IdempotencyKey string  `json:"idempotency_key"`
				OrderKey       string  `json:"order_key"`
				Headers        map[string]string
				Endpoints      []string
			}
			if err := json.Unmarshal(line, &want); err != nil {
				t.Fatalf("%q was accepted: %v", line, err)
			}
			payload := []byte(want.Payload)
			if want.PayloadBase64 != nil {
				var err error
				if payload, err = base64.StdEncoding.DecodeString(*want.PayloadBase64); err != nil {
					t.Fatalf("%q was accepted: %v", line, err)
				}
			}
			e := s.Event
			if e.Type != want.Type || e.IdempotencyKey != want.IdempotencyKey || e.OrderKey != want.OrderKey || !bytes.Equal(e.Payload, payload) ||
				len(e.Headers) != len(want.Headers) || len(s.Endpoints) > len(want.Endpoints) {
				t.Errorf("%q was read as %+v with payload %q, encoding/json reads %+v", line, e, e.Payload, want)
			}
			if len(posthaste.ValidateType("", e.Type)) > 0 || len(e.IdempotencyKey) > posthaste.MaxIdempotencyKeyBytes || !isText(e.IdempotencyKey+e.OrderKey+e.ContentType) {
				t.Errorf("%q was accepted: %+v", line, e)
			}
		}
	})
}

// FuzzStructured holds the reader of structured CloudEvents to encoding/json,
// and its key to the pair that it stands for.
func FuzzStructured(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","source":"/s","specversion":"1.0","type":"a.b","data":{"id":2}}`, ` {"specversion":"1.0" , "type":"a","\u0069d":"b c","source":"x:y?z","data_base64":"YQ=="} `,
		`{"id":"1","id":"2","source":"/s","specversion":"1.0","type":"a"}`, `{"id":null,"source":"a b","specversion":"0.3"}`, `[{"id":"1","source":"/s","specversion":"1.0","type":"a"},7]`, `{`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := batch{maxPayloadBytes: 1 << 20}
		elements := []json.RawMessage{body}
		if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '[' {
			if b.readCloudEvents(body) != nil {
				return
			}
			if err := json.Unmarshal(body, &elements); err != nil {
				t.Fatal(err)
			}
		} else {
			if checkJSON("the body", body) != nil {
				return
			}
			b.take(b.readCloudEvent(trimmed))
		}
		if len(elements) != len(b.refusals) {
			t.Fatalf("%d elements, %d answers", len(elements), len(b.refusals))
		}
		next := 0
		for i, element := range elements {
			if b.refusals[i] != nil {
				continue
			}
			e := b.submissions[next].Event
			next++
			var want struct{ ID, Source, SpecVersion, Type string }
			exact := map[string]json.RawMessage{} // a struct's fields would be found in any case
			if err := json.Unmarshal(element, &exact); err != nil {
				t.Fatalf("%q was accepted: %v", element, err)
			}
			for name, into := range map[string]*string{"id": &want.ID, "source": &want.Source, "specversion": &want.SpecVersion, "type": &want.Type} {
				if err := json.Unmarshal(exact[name], into); err != nil {
					t.Fatalf("%q was accepted: %s: %v", element, name, err)
				}
			}
			if want.ID == "" || want.Source == "" || want.SpecVersion != "1.0" || e.Type != want.Type || !bytes.Equal(e.Payload, bytes.TrimSpace(element)) {
				t.Errorf("%q was read as %+v, want %+v", element, e, want)
			}
			source, id, short := strings.Cut(e.IdempotencyKey, " ")
			if short && (source != want.Source || id != want.ID) || len(e.IdempotencyKey) > posthaste.MaxIdempotencyKeyBytes {
				t.Errorf("%q has the key %q", element, e.IdempotencyKey)
			}
		}
	})
}

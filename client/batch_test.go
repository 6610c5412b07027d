package client_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
)

func TestSendBatchWritesLines(t *testing.T) {
	binary := "\x00\xff"
	payloads := []string{"{ \"n\": 1e400,\t\"u\":\"\\u00e4<>\"}", "", binary, " {}", "{\n}", "not JSON", "null"}
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) error {
		if r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type") != "POST /v1/events/batch application/x-ndjson" {
			t.Errorf("%s %s %v", r.Method, r.URL.Path, r.Header)
		}
		scanner := bufio.NewScanner(r.Body)
		for i := 0; scanner.Scan(); i++ {
			var line struct {
				Payload       json.RawMessage
				PayloadBase64 *string `json:"payload_base64"`
				ContentType   *string `json:"content_type"`
				Type          string
				Headers       map[string]string
			}
			if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
				t.Errorf("line %d: %v: %s", i, err, scanner.Bytes())
				continue
			}
			got := string(line.Payload)
			if line.PayloadBase64 != nil {
				raw, err := base64.StdEncoding.DecodeString(*line.PayloadBase64)
				if err != nil || line.Payload != nil {
					t.Errorf("line %d: %s", i, scanner.Bytes())
				}
				got = string(raw)
			}
			if got != payloads[i] || line.ContentType == nil || *line.ContentType != "" || line.Type != "a" || line.Headers["X-Trace"] != "abc" {
				t.Errorf("line %d: %s, want the payload %q", i, scanner.Bytes(), payloads[i])
			}
		}
		return answerJSON(w, 200, `{"results":[{"status":202,"id":"evt_1","type":"a","deliveries":2,"duplicate":false},{"status":200,"id":"evt_1","duplicate":true},
			{"status":422,"error":{"status":422,"code":"invalid","detail":"d","hint":"h","request_id":"req_1","errors":[{"field":"type","message":"is missing"}]}}`+
			strings.Repeat(`,{"status":202,"id":"evt_2"}`, len(payloads)-3)+`]}`)
	})
	var events []client.NewEvent
	for _, payload := range payloads {
		events = append(events, client.NewEvent{Type: "a", Payload: []byte(payload), Forward: map[string]string{"X-Trace": "abc"}})
	}
	results, err := c.Events.SendBatch(t.Context(), events)
	if err != nil || len(results) != len(payloads) {
		t.Fatalf("%+v, %v", results, err)
	}
	if want := (client.Receipt{ID: "evt_1", Type: "a", Deliveries: 2}); results[0].Receipt != want || results[0].Err != nil || !results[1].Duplicate {
		t.Errorf("%+v", results)
	}
	e, isError := errors.AsType[*client.Error](results[2].Err)
	if !isError || e.Status != 422 || e.Code != posthaste.CodeInvalid || e.RequestID != "req_1" || len(e.Problems) != 1 || e.Hint != "h" {
		t.Errorf("%+v", results[2].Err)
	}
	for _, bad := range []client.NewEvent{{Type: "a", IdempotencyKey: binary}, {Type: "a", Forward: map[string]string{"X": binary}}} {
		if _, err := c.Events.SendBatch(t.Context(), []client.NewEvent{bad}); err == nil {
			t.Errorf("%+v is sent as something else", bad)
		}
	}
	if _, err := c.Events.SendBatch(t.Context(), events[:2]); err == nil {
		t.Error("an answer with another number of results is believed")
	}
}

func TestSendBatchRepeats(t *testing.T) {
	for _, keys := range [][2]string{{"1", "2"}, {"1", ""}} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int32
			c := newClient(t, func(w http.ResponseWriter, _ *http.Request) error {
				if calls.Add(1) < 3 {
					return answerJSON(w, 503, `{"code":"overloaded"}`)
				}
				return answerJSON(w, 200, `{"results":[{"status":202,"id":"evt_1"},{"status":202,"id":"evt_2"}]}`)
			})
			_, err := c.Events.SendBatch(t.Context(), []client.NewEvent{{Type: "a", IdempotencyKey: keys[0]}, {Type: "a", IdempotencyKey: keys[1]}})
			if all := keys[1] != ""; all != (err == nil) || all != (calls.Load() == 3) {
				t.Errorf("keys %q: %d calls, %v", keys, calls.Load(), err)
			}
		})
	}
}

func TestSendAllMakesBatches(t *testing.T) {
	var batches []int
	failing := false
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) error {
		var results []string
		scanner := bufio.NewScanner(r.Body)
		scanner.Buffer(nil, client.MaxBatchBytes)
		size := 0
		for scanner.Scan() {
			var line struct{ Type string }
			if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
				return err
			}
			size += len(scanner.Bytes()) + 1
			results = append(results, `{"status":202,"id":"`+line.Type+`"}`)
		}
		if size > client.MaxBatchBytes || len(results) > client.MaxBatchEvents {
			t.Errorf("a batch of %d events, %d bytes", len(results), size)
		}
		batches = append(batches, len(results))
		if failing {
			return answerJSON(w, 500, `{}`)
		}
		return answerJSON(w, 200, `{"results":[`+strings.Join(results, ",")+`]}`)
	})
	send := func(n, payloadBytes int) (ids []string, failed int) {
		payload := []byte(`"` + strings.Repeat("x", payloadBytes) + `"`)
		events := func(yield func(client.NewEvent) bool) {
			for i := range n {
				if !yield(client.NewEvent{Type: fmt.Sprint(i), Payload: payload}) {
					return
				}
			}
		}
		batches = nil
		for r := range c.Events.SendAll(t.Context(), events) {
			if ids = append(ids, r.ID); r.Err != nil {
				failed++
			}
		}
		return ids, failed
	}
	for _, tt := range []struct {
		events, payloadBytes int
		batches              []int
	}{
		{0, 0, nil}, {1, 0, []int{1}}, {1000, 10, []int{1000}}, {2001, 10, []int{1000, 1000, 1}}, {20, 1 << 20, []int{7, 7, 6}},
	} {
		ids, failed := send(tt.events, tt.payloadBytes)
		if len(ids) != tt.events || failed != 0 || !slices.Equal(batches, tt.batches) {
			t.Errorf("%d events became batches of %v, %d results, %d failed; want %v", tt.events, batches, len(ids), failed, tt.batches)
		}
		for i, id := range ids {
			if id != fmt.Sprint(i) {
				t.Fatalf("result %d is that of %s", i, id)
			}
		}
	}
	failing = true
	if ids, failed := send(2500, 1); len(ids) != 1000 || failed != 1000 || len(batches) != 1 {
		t.Errorf("with a server that fails: %d results, %d failed, batches %v", len(ids), failed, batches)
	}
	failing, batches = false, nil
	for r := range c.Events.SendAll(t.Context(), slices.Values([]client.NewEvent{{Type: "0"}, {Type: "\xff"}, {Type: "2"}})) {
		if (r.ID == "0") != (r.Err == nil) {
			t.Errorf("%+v", r)
		}
		batches = append(batches, -1)
	}
	if !slices.Equal(batches, []int{1, -1, -1}) {
		t.Errorf("an event that cannot be written: %v", batches)
	}
	for range c.Events.SendAll(t.Context(), slices.Values([]client.NewEvent{{Type: "0"}, {Type: "1"}})) {
		break
	}
}

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"unicode/utf8"
)

// Limits of one batch: the server's.
const (
	MaxBatchEvents = 1000
	MaxBatchBytes  = 8 << 20 // of the lines that the events become
)

// BatchResult is what became of one event of a batch.
type BatchResult struct {
	Receipt
	// Err is why the event was not accepted, an *[Error]; nil if it was.
	Err error
}

// SendBatch has events accepted with one request and one commit, which costs a
// fraction of a request each. There is a result for each event, in their order:
// one that is refused harms no other.
//
// The error is that of the request as a whole, and then no event is known to be
// accepted. Where every event has an idempotency key, SendBatch repeats a
// request as [Events.Send] does. More than [MaxBatchEvents] events or
// [MaxBatchBytes] are an *[Error] with status 413; see
// [Events.SendAll] for any number.
func (e *Events) SendBatch(ctx context.Context, events []NewEvent) ([]BatchResult, error) {
	var lines []byte
	for i, event := range events {
		var err error
		if lines, err = appendLine(lines, event); err != nil {
			return nil, fmt.Errorf("write event %d of a batch: %w", i, err)
		}
	}
	return e.sendLines(ctx, events, lines)
}

// SendAll has the events of a sequence accepted in batches as large as can be,
// and yields a result for each, in their order. It takes events from the
// sequence a batch at a time, ahead of the results.
//
// When a request fails as a whole, each event in it gets that error, and the
// sequence ends there, as it does at an event that cannot be written: later
// events are not sent.
func (e *Events) SendAll(ctx context.Context, events iter.Seq[NewEvent]) iter.Seq[BatchResult] {
	return func(yield func(BatchResult) bool) {
		var batch []NewEvent
		var lines []byte
		// flush reports whether to go on.
		flush := func() bool {
			if len(batch) == 0 {
				return true
			}
			results, err := e.sendLines(ctx, batch, lines)
			for i := range batch {
				result := BatchResult{Err: err}
				if err == nil {
					result = results[i]
				}
				if !yield(result) {
					return false
				}
			}
			batch, lines = batch[:0], lines[:0]
			return err == nil
		}
		for event := range events {
			line, err := appendLine(nil, event)
			full := len(batch) == MaxBatchEvents || len(lines)+len(line) > MaxBatchBytes
			if (full || err != nil) && !flush() {
				return
			}
			if err != nil {
				yield(BatchResult{Err: fmt.Errorf("write an event of type %s: %w", event.Type, err)})
				return
			}
			batch, lines = append(batch, event), append(lines, line...)
		}
		flush()
	}
}

func (e *Events) sendLines(ctx context.Context, events []NewEvent, lines []byte) ([]BatchResult, error) {
	q := call{
		method: http.MethodPost, path: at("events", "batch"), body: lines,
		header: http.Header{"Content-Type": {"application/x-ndjson"}},
	}
	do := e.c.doRepeatedly
	for _, event := range events {
		if event.IdempotencyKey == "" {
			do = e.c.do // it might be stored twice
		}
	}
	res, err := do(ctx, q)
	if err != nil {
		return nil, err
	}
	return readResults(res, len(events))
}

// lineResult is the wire form of a BatchResult.
type lineResult struct {
	Receipt
	Status int `json:"status"`
	Error  struct {
		problem
		RequestID string `json:"request_id"`
	} `json:"error"`
}

func readResults(res answer, want int) ([]BatchResult, error) {
	var body struct {
		Results []lineResult `json:"results"`
	}
	if err := json.Unmarshal(res.body, &body); err != nil {
		return nil, fmt.Errorf("read the answer to a batch: %w (is this a Posthaste server?)", err)
	}
	if len(body.Results) != want {
		return nil, fmt.Errorf("read the answer to a batch: it has %d results for %d events", len(body.Results), want)
	}
	results := make([]BatchResult, want)
	for i, r := range body.Results {
		results[i].Receipt = r.Receipt
		if r.Status >= http.StatusBadRequest {
			p := r.Error
			results[i].Err = &Error{
				Status: r.Status, Code: p.Code, Title: p.Title, Detail: p.Detail, Hint: p.Hint, Problems: p.Errors,
				RequestID: p.RequestID,
			}
		}
	}
	return results, nil
}

// line is the wire form of an event in a batch, but for its payload. The content
// type is always there: empty it stands for none, as in Send, and left out for
// the server's guess.
type line struct {
	Type            string            `json:"type"`
	ContentType     string            `json:"content_type"`
	ContentEncoding string            `json:"content_encoding,omitempty"`
	IdempotencyKey  string            `json:"idempotency_key,omitempty"`
	OrderKey        string            `json:"order_key,omitempty"`
	Traceparent     string            `json:"traceparent,omitempty"`
	Headers         map[string]string `json:"headers,omitempty"`
	Endpoints       []string          `json:"endpoints,omitempty"`
	PayloadBase64   []byte            `json:"payload_base64,omitempty"`
}

// appendLine writes an event as a line. A payload that can stand in a line as it
// is does: encoding/json would compact and escape it, and other bytes would be
// delivered. Any other goes in base64.
func appendLine(lines []byte, event NewEvent) ([]byte, error) {
	l := line{
		Type: event.Type, ContentType: event.ContentType, ContentEncoding: event.ContentEncoding, IdempotencyKey: event.IdempotencyKey,
		OrderKey: event.OrderKey, Traceparent: event.Traceparent, Headers: event.Forward, Endpoints: event.EndpointIDs,
	}
	for _, text := range []string{l.Type, l.ContentType, l.ContentEncoding, l.IdempotencyKey, l.OrderKey, l.Traceparent} {
		if !utf8.ValidString(text) { // encoding/json would make one key of two
			return nil, errNotText
		}
	}
	for name, value := range l.Headers {
		if !utf8.ValidString(name + value) {
			return nil, errNotText
		}
	}
	name := `,"payload":`
	payload := event.Payload
	if !standsInLine(payload) {
		name, l.PayloadBase64, payload = "", payload, nil
		if len(l.PayloadBase64) == 0 {
			name, payload = `,"payload_base64":`, []byte(`""`)
		}
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	lines = append(lines, raw[:len(raw)-1]...)
	lines = append(append(lines, name...), payload...)
	return append(lines, "}\n"...), nil
}

var errNotText = errors.New("a field that is not the payload is not UTF-8")

func standsInLine(payload []byte) bool {
	return len(payload) > 0 && len(bytes.TrimSpace(payload)) == len(payload) && bytes.IndexByte(payload, '\n') < 0 &&
		utf8.Valid(payload) && json.Valid(payload)
}

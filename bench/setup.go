//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// registerReceiver runs the description's setup requests, adds what they capture
// to vars, and returns the template of its events.
func registerReceiver(ctx context.Context, d description, vars variables) (template, error) {
	client := &http.Client{Timeout: exchangeTimeout}
	for _, r := range d.Setup {
		r, err := vars.expandRequest(r)
		if err != nil {
			return template{}, err
		}
		body, err := do(ctx, client, r)
		if err != nil {
			return template{}, fmt.Errorf("setup %s %s: %w", r.Method, r.URL, err)
		}
		for name, path := range r.Capture {
			if vars[name], err = lookup(body, path); err != nil {
				return template{}, fmt.Errorf("setup %s %s: %w in %.300s", r.Method, r.URL, err, body)
			}
		}
	}
	if d.Outbox > 0 {
		return template{lines: d.Outbox, outbox: vars["outbox"]}, nil
	}
	return compileSend(d, vars, mainType)
}

// mainType is the type of the events that the receiver is registered for.
const mainType = "bench.event"

// compileSend returns the template of the description's events, of that type.
func compileSend(d description, vars variables, eventType string) (template, error) {
	vars = maps.Clone(vars)
	vars["type"] = eventType
	vars["id"], vars["body"] = "${id}", "${body}" // stay, for each event to fill
	send, err := vars.expandRequest(d.Send)
	if err != nil {
		return template{}, err
	}
	t, err := compile(send)
	t.lines = d.Lines
	return t, err
}

func do(ctx context.Context, client *http.Client, r request) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL, strings.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	if err != nil {
		return nil, err
	}
	if res.StatusCode/100 != 2 {
		return nil, &statusError{res.StatusCode, string(body[:min(len(body), 2*keptAnswerBytes)])}
	}
	return body, nil
}

// lookup returns the string at a dotted path, such as "data.0.id", of a JSON
// document.
func lookup(doc []byte, path string) (string, error) {
	var v any
	if err := json.Unmarshal(doc, &v); err != nil {
		return "", err
	}
	for key := range strings.SplitSeq(path, ".") {
		switch node := v.(type) {
		case map[string]any:
			v = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(node) {
				return "", fmt.Errorf("nothing at %q", path)
			}
			v = node[i]
		default:
			return "", fmt.Errorf("nothing at %q", path)
		}
	}
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("no string at %q", path)
	}
	return s, nil
}

// quietTime is how long a phase goes on after its last arrival, so that
// duplicates and the work left over after a delivery are seen.
const quietTime = time.Second

// awaitArrivals waits until every accepted event has arrived, and then for the
// quiet time. It reports false if the deadline passed, or if nothing arrived for
// the idle limit.
func awaitArrivals(ctx context.Context, rec *recorder, deadline int64, idle time.Duration) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	seen, since := rec.distinct.Load(), rec.watch.now()
	for rec.missing() > 0 {
		if n := rec.distinct.Load(); n != seen {
			seen, since = n, rec.watch.now()
		}
		if now := rec.watch.now(); now > deadline || now-since > int64(idle) {
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(quietTime):
		return true
	}
}

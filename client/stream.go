package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// StreamReset is the name of the change which says that others may be missing:
// LastID was older than 24 h, or is not an id of this server's database.
const StreamReset = "stream.reset"

// StreamOptions choose what to follow. The zero value follows everything from now on.
type StreamOptions struct {
	// Names are what to be told of: event.accepted, delivery.delivered,
	// delivery.dead, endpoint.gate. Default: all.
	Names []string
	// LastID is the id of the last change that was seen, by an earlier Stream: it
	// goes on after that. Default: from now on.
	LastID string
}

// Change is what has become of an event, a delivery or an endpoint. What does not belong to its
// kind is empty.
type Change struct {
	ID            string          `json:"id"`   // opaque; for StreamOptions.LastID
	Name          string          `json:"name"` // event.accepted, delivery.delivered …, or StreamReset
	Tenant        string          `json:"tenant,omitempty"`
	DeliveryID    string          `json:"delivery_id,omitempty"`
	EventID       string          `json:"event_id,omitempty"`
	EndpointID    string          `json:"endpoint_id,omitempty"`
	Type          string          `json:"type,omitempty"` // the event's
	CorrelationID string          `json:"correlation_id,omitempty"`
	Gate          json.RawMessage `json:"gate,omitempty"`
	Reason        string          `json:"reason,omitempty"` // of a StreamReset
	At            time.Time       `json:"at,omitzero"`
}

const (
	// quietLimit is how long a server may say nothing: it pings every 15 s.
	quietLimit = 45 * time.Second
	// maxLineBytes bounds a line of the stream.
	maxLineBytes = 1 << 20
)

// Stream yields changes as they happen, until ctx ends or the caller breaks off. When
// the connection is lost it connects again, for as long as that takes, and goes on after the last
// change: each comes once. It yields an error, and ends, only for what does
// not pass by itself: an *[Error] of the server other than 503 and 429, or ctx's.
func (c *Client) Stream(ctx context.Context, options StreamOptions) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		last := options.LastID
		for failures := 0; ; {
			before := last
			stopped, err := c.follow(ctx, options.Names, &last, func(change Change) bool { return yield(change, nil) })
			switch {
			case stopped:
				return
			case ctx.Err() != nil:
				yield(Change{}, ctx.Err())
				return
			}
			e, answered := errors.AsType[*Error](err)
			if answered && e.Status != http.StatusServiceUnavailable && e.Status != http.StatusTooManyRequests {
				yield(Change{}, err)
				return
			}
			if failures++; last != before {
				failures = 0
			}
			wait := min(firstPause<<min(failures, maxRepeats), maxPause)
			if answered {
				wait = max(wait, min(e.RetryAfter, maxPause))
			}
			if err := sleep(ctx, wait); err != nil {
				yield(Change{}, err)
				return
			}
		}
	}
}

// follow reads one connection to its end. It moves last, and returns true when
// the caller has had enough.
func (c *Client) follow(ctx context.Context, names []string, last *string, yield func(Change) bool) (stopped bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := c.openStream(ctx, names, *last)
	if err != nil {
		return false, err
	}
	defer body.Close()
	quiet := time.AfterFunc(quietLimit, cancel) // a peer that vanished sends no end
	defer quiet.Stop()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLineBytes)
	var id, name, data string
	for lines.Scan() {
		quiet.Reset(quietLimit)
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case field == "id":
			id = value
		case field == "event":
			name = value
		case field == "data":
			data = value
		case lines.Text() == "":
			if data != "" {
				change := Change{}
				if err := json.Unmarshal([]byte(data), &change); err != nil {
					return false, fmt.Errorf("read a change: %w (is this a Posthaste server?)", err)
				}
				change.ID, change.Name = id, name
				if !yield(change) {
					return true, nil
				}
			}
			*last = cmp.Or(id, *last)
			name, data = "", ""
		}
	}
	return false, lines.Err()
}

// openStream makes the request. Its answer has no end, so the client's timeout doesn't hold for it.
func (c *Client) openStream(ctx context.Context, names []string, last string) (io.ReadCloser, error) {
	target := c.base.JoinPath(at("stream"))
	query := url.Values{}
	setText(query, "types", strings.Join(names, ","))
	target.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("prepare the stream: %w", err)
	}
	c.authorize(req)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	endless := *c.http
	endless.Timeout = 0
	res, err := endless.Do(req)
	if err != nil {
		return nil, fmt.Errorf("open the stream: %w", err)
	}
	if !isSuccess(res) {
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
		if err != nil {
			return nil, fmt.Errorf("read the answer to the stream's request: %w", err)
		}
		return nil, readError(res, body)
	}
	return res.Body, nil
}

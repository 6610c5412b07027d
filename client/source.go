package client

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/posthaste-dev/posthaste"
)

// Sources manages where providers' webhooks come in. An id is one that the server
// gave, or "uid:" and the caller's own.
type Sources struct {
	c       *Client
	ifMatch string // header If-Match of all requests; "" for none
}

// NewSource is a source to create. Provider is required, and most providers need a
// secret; what is left out takes the server's default.
type NewSource struct {
	Provider     string            `json:"provider"` // stripe, github, meta …
	Name         string            `json:"name,omitempty"`
	UID          string            `json:"uid,omitempty"`      // the caller's own id, unique among the tenant's sources
	Metadata     map[string]string `json:"metadata,omitempty"` // the caller's own words
	Secrets      []string          `json:"secrets,omitempty"`  // what the provider signs with; any of them may match
	Settings     map[string]string `json:"settings,omitempty"` // what is particular to the provider
	MaxBodyBytes int               `json:"max_body_bytes,omitempty"`
}

// Source is a source as the server knows it. Secrets are never shown; settings that
// are secret are shown as ********, which means the present one where it is sent back.
type Source struct {
	ID  string `json:"id"`
	URL string `json:"url"` // the path, on the server, that the provider sends to
	posthaste.SourceDefinition
	SecretCount int               `json:"secret_count"`
	Rejected    int               `json:"rejected_in_a_row"` // deliveries that could not be verified since the last one that could
	UID         string            `json:"uid"`
	Metadata    map[string]string `json:"metadata"`
	Version     int               `json:"version"` // rises with every change
	CreatedAt   time.Time         `json:"created_at"`
	UpdatedAt   time.Time         `json:"updated_at"`
}

// Rejection is a delivery that could not be verified.
type Rejection struct {
	ReceivedAt   time.Time          `json:"received_at"`
	Reason       string             `json:"reason"` // in a word, such as wrong_secret
	Detail       string             `json:"detail"` // what is wrong
	Hint         string             `json:"hint"`   // the next step
	Method       string             `json:"method"`
	Headers      []posthaste.Header `json:"headers"`       // credentials masked
	Body         string             `json:"body"`          // its first 8 KiB
	BodyEncoding string             `json:"body_encoding"` // "text", or "base64" where the body is not UTF-8
	BodyBytes    int                `json:"body_bytes"`    // how many there were
}

// IfVersion returns the same, with changes that are made only if the source is at
// this version; see [Endpoints.IfVersion].
func (s *Sources) IfVersion(version int) *Sources {
	return &Sources{c: s.c, ifMatch: strconv.Quote(strconv.Itoa(version))}
}

// call prepares a request to a source, or to the list of them.
func (s *Sources) call(method string, path ...string) call {
	q := call{method: method, path: at(append([]string{"sources"}, path...)...), header: http.Header{}}
	if s.ifMatch != "" {
		q.header.Set("If-Match", s.ifMatch)
	}
	return q
}

// Create makes a source.
func (s *Sources) Create(ctx context.Context, source NewSource) (Source, error) {
	return doJSON[Source](ctx, s.c, s.call(http.MethodPost), source)
}

// Put makes the source of a uid, or replaces it, its secrets too: the same call
// again changes nothing.
func (s *Sources) Put(ctx context.Context, uid string, source NewSource) (Source, error) {
	if uid == "" {
		return Source{}, errors.New("put a source: the uid is missing")
	}
	return doJSON[Source](ctx, s.c, s.call(http.MethodPut, posthaste.UIDPrefix+uid), source)
}

// Get returns a source.
func (s *Sources) Get(ctx context.Context, id string) (Source, error) {
	return doJSON[Source](ctx, s.c, s.call(http.MethodGet, id), nil)
}

// List returns a page of sources, newest first.
func (s *Sources) List(ctx context.Context, paging Paging) (Page[Source], error) {
	return list[Source](ctx, s.c, at("sources"), paging.query())
}

// All yields sources, newest first, page by page.
func (s *Sources) All(ctx context.Context, paging Paging) iter.Seq2[Source, error] {
	return all[Source](ctx, s.c, at("sources"), paging.query())
}

// Update changes the fields that patch names: a JSON Merge Patch (RFC 7396). To
// replace a secret without losing a delivery, give both, and later the new one alone.
//
//	c.Sources.Update(ctx, id, map[string]any{"secrets": []string{next, present}})
func (s *Sources) Update(ctx context.Context, id string, patch map[string]any) (Source, error) {
	body, err := json.Marshal(patch)
	if err != nil {
		return Source{}, err
	}
	q := s.call(http.MethodPatch, id)
	q.body = body
	q.header.Set("Content-Type", "application/merge-patch+json")
	return doJSON[Source](ctx, s.c, q, nil)
}

// Delete removes a source; the events that came through it stay.
func (s *Sources) Delete(ctx context.Context, id string) error {
	_, err := s.c.do(ctx, s.call(http.MethodDelete, id))
	return err
}

// Rejections yields what a source could not verify, newest first, page by page.
func (s *Sources) Rejections(ctx context.Context, id string, paging Paging) iter.Seq2[Rejection, error] {
	return all[Rejection](ctx, s.c, at("sources", id, "rejections"), paging.query())
}

func (p Paging) query() url.Values {
	q := url.Values{}
	p.set(q)
	return q
}

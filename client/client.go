// Package client is the Go client of Posthaste's HTTP API.
//
//	c, err := client.New(client.Config{Key: os.Getenv("POSTHASTE_KEY")})
//	…
//	receipt, err := c.Events.Send(ctx, client.NewEvent{
//		Type:           "invoice.paid",
//		Payload:        []byte(`{"invoice":"inv_42"}`),
//		ContentType:    "application/json",
//		IdempotencyKey: "inv_42_paid",
//	})
//
// An error that the server answered with is an [*Error]; its Code comes from a
// closed list. Any other error means that no answer came.
//
// Compatibility: fields are added to the types of this package, never removed
// or given another meaning; fields that a newer server sends are ignored.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// DefaultServer is where a server listens that was started without settings.
const DefaultServer = "http://127.0.0.1:8700"

// maxAnswerBytes caps what is read of an answer: a page of 250 deliveries with
// room to spare, and a payload of the largest size a server can be set to.
const maxAnswerBytes = 64 << 20

// Config says which server to talk to, and as whom. The zero value talks to a
// server on this machine, without a key.
type Config struct {
	// Server is the base URL of the server, http or https, with a path where a
	// proxy puts it under one. Default: [DefaultServer].
	Server string

	// Key is the API key, sent as a bearer token. Default: none, which is enough
	// for Ready only.
	Key string

	// Tenant is whom an admin key acts for; "*" reads all tenants. A tenant's own
	// key needs none. Default: the server's, "default".
	Tenant string

	// HTTPClient makes the requests. Redirects are refused whatever it says: followed,
	// a POST becomes a GET, which stores nothing and is answered as if all were well.
	// Default: a client with a timeout of 30 s for a whole request.
	HTTPClient *http.Client
}

// Client talks to one server. Its methods are safe for concurrent use.
type Client struct {
	Events     *Events
	Endpoints  *Endpoints
	Sources    *Sources
	Deliveries *Deliveries
	Tenants    *Tenants

	base   *url.URL
	key    string
	tenant string
	http   *http.Client
}

// New returns a client, or an error if the server's URL is not one.
func New(config Config) (*Client, error) {
	base, err := url.Parse(cmp.Or(config.Server, DefaultServer))
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.RawQuery != "" || base.User != nil {
		// It is not repeated: a password may be in it, wherever url.Parse took it to be.
		return nil, errors.New("read the server's URL: it is not of the form http://host:port or https://host")
	}
	c := &Client{base: base, key: config.Key, tenant: config.Tenant, http: &http.Client{Timeout: 30 * time.Second}}
	if config.HTTPClient != nil {
		own := *config.HTTPClient
		c.http = &own
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.Events = &Events{c}
	c.Endpoints = &Endpoints{c: c}
	c.Sources = &Sources{c: c}
	c.Deliveries = &Deliveries{c}
	c.Tenants = &Tenants{c: c}
	return c, nil
}

// Ready returns nil if the server can accept events now, else why not.
func (c *Client) Ready(ctx context.Context) error {
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/readyz"})
	return err
}

// call is one request to the API.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	header http.Header
	body   []byte
	isJSON bool
}

// answer is a successful response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do makes one request. Whatever is not a success becomes an *[Error].
func (c *Client) do(ctx context.Context, q call) (answer, error) {
	for part := range strings.SplitSeq(q.path[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return answer{}, fmt.Errorf("prepare %s %s: an id is missing", q.method, q.path)
		}
	}
	target := c.base.JoinPath(q.path)
	target.RawQuery = q.query.Encode()
	req, err := http.NewRequestWithContext(ctx, q.method, target.String(), bytes.NewReader(q.body))
	if err != nil {
		return answer{}, fmt.Errorf("prepare %s %s: %w", q.method, q.path, err)
	}
	if q.header != nil {
		req.Header = q.header.Clone()
	}
	if q.isJSON {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req)
	// Payloads come as they were accepted: no transparent decompression.
	req.Header.Set("Accept-Encoding", "identity")
	res, err := c.http.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // it repeats method and URL
		}
		return answer{}, fmt.Errorf("%s %s: %w", q.method, target, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	if err != nil {
		return answer{}, fmt.Errorf("read the answer to %s %s: %w", q.method, q.path, err)
	}
	if len(body) > maxAnswerBytes {
		return answer{}, fmt.Errorf("read the answer to %s %s: it is larger than %d bytes", q.method, q.path, maxAnswerBytes)
	}
	if !isSuccess(res) {
		return answer{}, readError(res, body)
	}
	return answer{status: res.StatusCode, header: res.Header, body: body}, nil
}

func isSuccess(res *http.Response) bool { return res.StatusCode >= 200 && res.StatusCode < 300 }

// authorize says who asks, and for whom.
func (c *Client) authorize(req *http.Request) {
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if c.tenant != "" {
		req.Header.Set("Posthaste-Tenant", c.tenant)
	}
}

// doJSON makes a request with in as its JSON body, unless in is nil, and reads
// the answer into a T.
func doJSON[T any](ctx context.Context, c *Client, q call, in any) (T, error) {
	var out T
	if in != nil {
		body, err := json.Marshal(in)
		if err != nil {
			return out, fmt.Errorf("write the body of %s %s: %w", q.method, q.path, err)
		}
		q.body, q.isJSON = body, true
	}
	res, err := c.do(ctx, q)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(res.body, &out); err != nil {
		return out, fmt.Errorf("read the answer to %s %s: %w (is this a Posthaste server?)", q.method, q.path, err)
	}
	return out, nil
}

// at joins the parts of a path, each escaped, so that no id can reach another route.
func at(parts ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

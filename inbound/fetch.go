package inbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limits of fetching. A sender chooses what is asked for, within the provider's
// own host, so both the time and the number of requests are bounded.
const (
	fetchTimeout    = 5 * time.Second
	maxFetchedBytes = 64 << 10
	keyLifetime     = time.Hour
	keyGrace        = 24 * time.Hour   // how long an expired key still serves while it can't be fetched anew
	failureLifetime = 10 * time.Second // how long a failed fetch is not tried again
	maxCachedKeys   = 64
	maxFetches      = 30 // of different keys a minute
)

var (
	errRedirect   = errors.New("a redirect, which is not followed")
	errTooManyNew = errors.New("too many different keys were asked for within a minute")
)

// guarded returns a client that follows no redirect, and if none is given one that
// connects to public addresses only.
func guarded(client *http.Client) *http.Client {
	c := http.Client{Timeout: fetchTimeout}
	if client != nil {
		c = *client
	} else {
		dialer := &net.Dialer{Timeout: fetchTimeout, Control: publicOnly}
		c.Transport = &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: fetchTimeout,
			MaxIdleConns: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		}
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return errRedirect }
	return &c
}

// notPublic are the networks that IsGlobalUnicast and IsPrivate let through.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
}

// publicOnly looks at the address after name resolution, right before the connection.
func publicOnly(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", address, err)
	}
	ip := at.Addr().Unmap()
	blocked := !ip.IsGlobalUnicast() || ip.IsPrivate()
	for _, network := range notPublic {
		blocked = blocked || network.Contains(ip)
	}
	if blocked {
		return fmt.Errorf("connect to %s: not a public address", address)
	}
	return nil
}

// keyCache keeps keys by what they were asked for with, and one request per key
// under way.
type keyCache struct {
	mu      sync.Mutex
	entries map[string]*cachedKey
	minute  time.Time // the minute that fetches are counted in
	fetches int
}

type cachedKey struct {
	done    chan struct{} // closed when key and err are there
	key     key
	err     error
	expires time.Time
}

func newKeyCache() *keyCache { return &keyCache{entries: map[string]*cachedKey{}} }

// get returns the cached key of a name, or lets fetch find it.
func (c *keyCache) get(ctx context.Context, name string, fetch func(context.Context) (key, error)) (key, error) {
	now := time.Now()
	c.mu.Lock()
	entry := c.entries[name]
	if entry == nil || entry.isOver(now) {
		if !c.mayFetch(now) {
			c.mu.Unlock()
			if entry != nil && entry.isGood() && now.Sub(entry.expires) < keyGrace { // whoever asks for made-up keys must not make a real one unusable
				return entry.key, nil
			}
			return key{}, errTooManyNew
		}
		entry = &cachedKey{done: make(chan struct{})}
		c.entries[name] = entry
		// Not under the caller's context: others wait for the same key.
		go entry.fill(context.WithoutCancel(ctx), fetch)
	}
	c.mu.Unlock()
	select {
	case <-entry.done:
		return entry.key, entry.err
	case <-ctx.Done():
		return key{}, fmt.Errorf("wait for a key: %w", ctx.Err())
	}
}

func (e *cachedKey) fill(ctx context.Context, fetch func(context.Context) (key, error)) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	defer close(e.done)
	e.key, e.err = fetch(ctx)
	lifetime := keyLifetime
	if e.err != nil {
		lifetime = failureLifetime
	}
	e.expires = time.Now().Add(lifetime)
}

func (e *cachedKey) isOver(now time.Time) bool {
	select {
	case <-e.done:
		return now.After(e.expires)
	default:
		return false
	}
}

// mayFetch counts, and makes room.
func (c *keyCache) mayFetch(now time.Time) bool {
	if now.Sub(c.minute) >= time.Minute {
		c.minute, c.fetches = now, 0
	}
	if c.fetches == maxFetches {
		return false
	}
	c.fetches++
	// What was asked for in vain goes first, since anybody can ask for that; then what has
	// expired; then anything.
	for _, goes := range []func(*cachedKey) bool{
		func(e *cachedKey) bool { return e.isOver(now) && !e.isGood() },
		func(e *cachedKey) bool { return len(c.entries) >= maxCachedKeys && !e.isGood() },
		func(e *cachedKey) bool { return len(c.entries) >= maxCachedKeys && e.isOver(now) },
		func(*cachedKey) bool { return len(c.entries) >= maxCachedKeys },
	} {
		for name, e := range c.entries {
			if goes(e) {
				delete(c.entries, name)
			}
		}
	}
	return true
}

// isGood reports whether the key was found, be it expired.
func (e *cachedKey) isGood() bool {
	select {
	case <-e.done:
		return e.err == nil
	default:
		return false
	}
}

// fetch sends a request to a URL whose host was checked before.
func (v *Verifier) fetch(ctx context.Context, method, address string, body io.Reader) (status int, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", hostOf(address), err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := v.client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("ask %s: %w", hostOf(address), withoutURL(err))
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(io.LimitReader(answer.Body, maxFetchedBytes+1))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("read the answer of %s: %w", hostOf(address), err)
	case len(text) > maxFetchedBytes:
		return 0, nil, fmt.Errorf("read the answer of %s: it is longer than %d bytes", hostOf(address), maxFetchedBytes)
	}
	return answer.StatusCode, text, nil
}

// withoutURL drops the URL of an error of the client: it may hold a token.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "a malformed URL"
	}
	return u.Host
}

// trusted returns what is wrong with a URL that a request names, or "". It has to
// be checked before anything is fetched.
func trusted(address string, hostIsRight func(host string) bool) string {
	u, err := url.Parse(address)
	switch {
	case err != nil || address == "":
		return "is not a URL"
	case u.Scheme != "https":
		return "is not https"
	case u.User != nil || u.Port() != "" && u.Port() != "443" || u.Opaque != "":
		return "has a user name or a port"
	case !hostIsRight(strings.ToLower(u.Hostname())):
		return "is not on a host of the provider"
	}
	return ""
}

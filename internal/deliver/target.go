package deliver

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/signature"
)

// Target is an endpoint made ready for attempts: its URL parsed, its headers
// laid out, its keys prepared. Make one for each version of an endpoint and each
// set of secrets, and use it for all attempts. Safe for concurrent use.
type Target struct {
	to      destination
	timeout time.Duration

	// What never changes in a request: its first line, Host, and the endpoint's
	// own headers, whose canonical names are in own. Of those, a traceparent is
	// apart, as it gives way to that of an event.
	head  []byte
	trace []byte
	own   map[string]bool

	secret  map[string]bool // canonical names of headers that the endpoint marks secret
	secrets [][]byte        // what is masked where a receiver repeats it

	standard *signature.Standard
	hex      *signature.Hex // exactly one of the two is set
	names    posthaste.SignatureHeaders
	named    map[string]bool // canonical names of names
}

// NewTarget prepares an endpoint. secrets are those that are in force, the
// newest first: "whsec_…" for scheme standard, any text for scheme hex. The
// error holds no secret and no value of a header. Whether the address may be
// sent to is decided at each attempt.
func NewTarget(d posthaste.Definition, secrets []string) (*Target, error) {
	u, err := parseURL(d.URL)
	if err != nil {
		return nil, fmt.Errorf("prepare the endpoint: %w", err)
	}
	t := &Target{to: destinationOf(u), timeout: time.Duration(d.Retry.Timeout), own: map[string]bool{}}
	if t.timeout <= 0 {
		return nil, fmt.Errorf("prepare the endpoint: timeout %s is not positive", t.timeout)
	}
	if t.head, err = requestLine(u); err != nil {
		return nil, fmt.Errorf("prepare the endpoint: %w", err)
	}
	if err := t.prepareSignature(d.Signature, secrets); err != nil {
		return nil, fmt.Errorf("prepare the endpoint: %w", err)
	}
	if err := errors.Join(t.prepareHeaders(d.Headers), t.prepareHeaders(d.SecretHeaders)); err != nil {
		return nil, fmt.Errorf("prepare the endpoint: %w", err)
	}
	t.prepareSecrets(d)
	return t, nil
}

// minSecretBytes is the length from which on a secret is masked where a receiver
// repeats it. A shorter one would be found in much that has nothing to do with it.
const minSecretBytes = 6

func (t *Target) prepareSecrets(d posthaste.Definition) {
	t.secret = map[string]bool{}
	secrets := posthaste.SecretParameters(d.URL)
	for _, name := range slices.Sorted(maps.Keys(d.SecretHeaders)) {
		t.secret[http.CanonicalHeaderKey(name)] = true
		value := d.SecretHeaders[name]
		secrets = append(secrets, value)
		if _, after, ok := strings.Cut(value, " "); ok { // Bearer and the token
			secrets = append(secrets, after)
		}
	}
	for _, secret := range secrets {
		if len(secret) >= minSecretBytes {
			t.secrets = append(t.secrets, []byte(secret))
		}
	}
}

// mask masks the endpoint's own credentials where the receiver's answer repeats them.
func (t *Target) mask(r *Result) {
	for _, secret := range t.secrets {
		r.Body = bytes.ReplaceAll(r.Body, secret, []byte(posthaste.Masked))
		r.Error = strings.ReplaceAll(r.Error, string(secret), posthaste.Masked)
		for i := range r.Headers {
			r.Headers[i].Value = strings.ReplaceAll(r.Headers[i].Value, string(secret), posthaste.Masked)
		}
	}
}

func (t *Target) prepareHeaders(headers map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		if err := CheckHeader(name, value); err != nil {
			return err
		}
		canonical := http.CanonicalHeaderKey(name)
		if t.own[canonical] || t.named[canonical] {
			continue
		}
		t.own[canonical] = true
		switch canonical {
		case canonicalTrace:
			t.trace = appendLine(nil, canonical, value)
		case "User-Agent": // an empty one sends none
			t.head = appendOurs(t.head, canonical, value)
		default:
			t.head = appendLine(t.head, canonical, value)
		}
	}
	return nil
}

// destinationOf takes the address that net/http would dial.
func destinationOf(u *url.URL) destination {
	plain := u.Scheme == "http"
	host, port := u.Hostname(), u.Port()
	if port == "" && plain {
		port = "80"
	} else if port == "" {
		port = "443"
	}
	if strings.IndexFunc(host, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		if ascii, err := idna.Lookup.ToASCII(host); err == nil {
			host = ascii
		}
	}
	return destination{plain: plain, address: net.JoinHostPort(host, port)}
}

func (t *Target) prepareSignature(s posthaste.Signature, secrets []string) (err error) {
	switch s.Scheme {
	case posthaste.SchemeStandard:
		t.standard, err = signature.NewStandard(secrets...)
		return err
	case posthaste.SchemeHex:
		if t.named, err = nameSet(s.Headers); err != nil {
			return err
		}
		t.names = s.Headers
		t.hex, err = signature.NewHex(secrets...)
		return err
	}
	return fmt.Errorf("signature scheme %q is not known", s.Scheme)
}

func nameSet(n posthaste.SignatureHeaders) (map[string]bool, error) {
	if n.Timestamp == "" || n.Signature == "" {
		return nil, errors.New("scheme hex needs the names of the headers for timestamp and signature")
	}
	set := map[string]bool{}
	for _, name := range []string{n.ID, n.DeliveryID, n.Timestamp, n.Event, n.Signature} {
		if name == "" {
			continue
		}
		canonical := http.CanonicalHeaderKey(name)
		if err := CheckHeader(name, ""); err != nil {
			return nil, err
		}
		if set[canonical] || canonical == "User-Agent" || canonical == "Idempotency-Key" {
			return nil, fmt.Errorf("header %q cannot carry a part of the signature: it has another use", name)
		}
		set[canonical] = true
	}
	return set, nil
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("the URL cannot be parsed") // err repeats the URL, with what may be secret in it
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the URL is neither https nor http")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, errors.New("the URL has credentials in it")
	case u.Port() == "0":
		return nil, errors.New("the URL has port 0")
	}
	return u, nil
}

package posthaste

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"
)

// DefinitionRules is what an installation allows beyond the strict default. The
// zero value takes https URLs to public addresses only.
type DefinitionRules struct {
	// AllowNetworks are networks without public addresses that endpoints may lie
	// in all the same. Default: none.
	AllowNetworks []netip.Prefix
	// AllowHTTP says where http: is taken. Default: nowhere.
	AllowHTTP HTTPRule
	// Retention is how long history is kept; a run's deadline must be shorter.
	// Default: deadlines are not compared.
	Retention time.Duration
}

// HTTPRule says where URLs without TLS are allowed.
type HTTPRule int8

// The rules.
const (
	HTTPNowhere    HTTPRule = iota
	HTTPInNetworks          // only to addresses in the allowed networks
	HTTPEverywhere
)

// validateURL returns the first thing that is wrong with an endpoint's URL: what
// follows one mistake in a URL is seldom worth reading.
func (rules DefinitionRules) validateURL(field, raw string) []Problem {
	problem := func(message, hint string) []Problem {
		return []Problem{{Field: field, Message: message, Hint: hint}}
	}
	const example = "an absolute URL such as https://example.com/hooks"
	switch {
	case raw == "":
		return problem("is missing", example)
	case strings.HasPrefix(raw, HandlerPrefix):
		return problem("names a handler", "a handler is made by the program that registers it, not by a request; "+example)
	case len(raw) > MaxURLBytes:
		return problem("is too long", strconv.Itoa(MaxURLBytes)+" bytes at most")
	case isMaskedURL(raw):
		return problem("contains a masked value", "send the credentials themselves, or leave the url out to keep it")
	case strings.ContainsFunc(raw, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '\\' }):
		return problem("has a space, a backslash or a control character in it", "write spaces as %20; "+example)
	}
	u, err := url.Parse(raw)
	if err != nil { // url's own error repeats the URL, which may hold a password
		return problem("is not a URL", "check the host, the port and each %; "+example)
	}
	switch {
	case u.Scheme == "":
		return problem("is not absolute", example)
	case u.Scheme != "https" && u.Scheme != "http":
		return problem("has the scheme "+truncate(u.Scheme), "only https is delivered to")
	case u.User != nil:
		return problem("has credentials in it", "send them as a header: headers.Authorization")
	case u.Opaque != "" || u.Hostname() == "":
		return problem("has no host", example)
	case strings.Contains(raw, "#"):
		return problem("has a fragment", "leave out what begins with #: it is never sent")
	case strings.HasSuffix(u.Host, ":"):
		return problem("has a colon without a port", "leave the colon out, or write a port from 1 to 65535")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return problem("has the port "+truncate(port), "1 to 65535")
		}
	}
	h, message, hint := readHost(u.Hostname())
	if message == "" {
		h.plainHTTP = u.Scheme == "http"
		message, hint = rules.judge(h)
	}
	if message != "" {
		return problem(message, hint)
	}
	return nil
}

// host is what a URL points to.
type host struct {
	addrs     []netip.Addr // those known without asking a name server: none for an ordinary name
	plainHTTP bool
}

// readHost reads the host of a URL. It refuses every spelling of an address that
// some resolver understands and this check would take for a name.
func readHost(name string) (h host, message, hint string) {
	if addr, err := netip.ParseAddr(name); err == nil {
		if addr.Zone() != "" {
			return h, "has an address with a zone", "leave out what follows the %"
		}
		return host{addrs: []netip.Addr{addr.Unmap()}}, "", ""
	}
	lower := strings.TrimSuffix(strings.ToLower(name), ".")
	if !isASCII(lower) {
		const plain = "write the host in ASCII (punycode)"
		if ascii, err := idna.Lookup.ToASCII(lower); err == nil {
			return h, "has a host with letters outside ASCII", plain + ": " + ascii
		}
		return h, "has a host with letters outside ASCII", plain
	}
	labels := strings.Split(lower, ".")
	if len(lower) > 253 || slices.ContainsFunc(labels, func(l string) bool { return !isLabel(l) }) {
		return h, "has a host that is not a name or an address", "letters, digits and - between dots, such as hooks.example.com"
	}
	// The WHATWG URL standard reads a host whose last part is a number as an IPv4
	// address ("ends in a number"), and so do C libraries: 127.1, 0x7f000001.
	last := labels[len(labels)-1]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return h, "has an address that is not in the usual form", "four numbers from 0 to 255, without leading zeros"
	}
	if last == "localhost" { // RFC 6761, section 6.3: always the loopback
		return host{addrs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}}, "", ""
	}
	return host{}, "", ""
}

// judge says what the rules have against a host. Where a name has more than one
// known address, one that is allowed is enough: the dialler refuses the others.
func (rules DefinitionRules) judge(h host) (message, hint string) {
	isAllowed := func(a netip.Addr) bool {
		return slices.ContainsFunc(rules.AllowNetworks, func(n netip.Prefix) bool { return n.Contains(a) })
	}
	inNetworks := slices.ContainsFunc(h.addrs, isAllowed)
	if h.plainHTTP && rules.AllowHTTP != HTTPEverywhere {
		// A name may lie in an allowed network; that is seen when it is dialled.
		isPossible := inNetworks || len(h.addrs) == 0 && len(rules.AllowNetworks) > 0
		if rules.AllowHTTP == HTTPNowhere || !isPossible {
			return "is http", "use https; for development, start the server with --allow-http and --allow-networks"
		}
	}
	if len(h.addrs) == 0 || inNetworks {
		return "", ""
	}
	guardian := ssrf.New()
	if !slices.ContainsFunc(h.addrs, func(a netip.Addr) bool { return guardian.SafeAddr(a) == nil }) {
		return "has an address that is not public", "use a public address; for development, start the server with --allow-networks, such as 127.0.0.0/8"
	}
	return "", ""
}

// isLabel takes the underscore, which is in no host name by RFC 952 and in many
// names that resolve.
func isLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	return strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c > 0x7e })
}

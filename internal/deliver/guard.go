package deliver

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"

	"code.dny.dev/ssrf"
)

// PlainHTTP says where plain http: may be used.
type PlainHTTP int

// The choices, as of --allow-http.
const (
	HTTPNowhere    PlainHTTP = iota
	HTTPNetworks             // to addresses in AllowNetworks only
	HTTPEverywhere           // to every address that HTTPS may be used to
)

// guard decides which addresses may be connected to. It is asked in the dialer's
// Control, after name resolution and for the very address that connect(2) gets,
// so neither a name that points inwards nor one that changes its answer between
// check and use gets past it.
type guard struct {
	allow  []netip.Prefix
	http   PlainHTTP
	public *ssrf.Guardian // IANA's special-purpose registries; of IPv6, global unicast only
}

func newGuard(allow []netip.Prefix, http PlainHTTP) guard {
	g := guard{http: http, public: ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork())}
	for _, p := range allow {
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		g.allow = append(g.allow, p.Masked())
	}
	return g
}

// blockedError is why an address was not connected to. It does not name the address:
// owners of endpoints read it, and an address behind a name may be internal.
type blockedError struct{ what, hint string }

func (e *blockedError) Error() string { return e.what + "; " + e.hint }

// checkHTTP refuses plain HTTP where no address could make it right, so that it
// can be said before a name is looked up.
func (g guard) checkHTTP() error {
	if g.http == HTTPNowhere {
		return &blockedError{"plain http is not allowed", "use https, or start the server with --allow-http"}
	}
	return nil
}

func (g guard) controlSecure(_, address string, _ syscall.RawConn) error {
	return g.checkDialled(address, g.check)
}

func (g guard) controlPlain(_, address string, _ syscall.RawConn) error {
	return g.checkDialled(address, g.checkPlain)
}

func (g guard) checkDialled(address string, check func(netip.Addr) error) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil { // never let through what could not be understood
		return &blockedError{"the host's address cannot be checked", "use a TCP address"}
	}
	return check(ap.Addr())
}

// checkPlain is check for plain HTTP.
func (g guard) checkPlain(addr netip.Addr) error {
	if err := g.checkHTTP(); err != nil {
		return err
	}
	if err := g.check(addr); err != nil {
		return err
	}
	if g.http == HTTPNetworks && !g.isAllowed(normal(addr)) {
		return &blockedError{"plain http is not allowed to the host's address", "use https, or start the server with --allow-http=all"}
	}
	return nil
}

// check returns nil if addr is public or in an allowed network.
func (g guard) check(addr netip.Addr) error {
	addr = normal(addr)
	if g.isAllowed(addr) {
		return nil
	}
	if g.public.SafeAddr(addr) != nil {
		return &blockedError{"the host's address is not public", "the server's --allow-networks can allow it"}
	}
	return nil
}

// isAllowed reports whether an allowed network holds addr. To allow a whole
// transition prefix, as a host without IPv4 needs for NAT64, does not open a way
// round: the IPv4 address inside must be public or allowed itself.
func (g guard) isAllowed(addr netip.Addr) bool {
	for _, p := range g.allow {
		if p.Contains(addr) {
			inner, isTransition := embedded(addr)
			return !isTransition || g.check(inner) == nil
		}
	}
	return false
}

// normal gives each address one form: an IPv4-mapped one is the IPv4 address
// that connect(2) reaches, and a zone does not change what an address is.
func normal(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// embedded returns the IPv4 address that traffic to a transition address ends
// up at: NAT64 (RFC 6052), 6to4 (RFC 3056), Teredo (RFC 4380, inverted bits).
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(addr):
		return netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]}), true
	}
	return netip.Addr{}, false
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	teredo    = netip.MustParsePrefix("2001::/32")
)

// CheckURL returns why an endpoint's URL cannot be sent to, as far as can be
// said without looking a name up, or nil: so that an owner hears of it when the
// endpoint is made. The error is for people. Each attempt checks again, at the
// address that is dialled.
func (s *Sender) CheckURL(raw string) error {
	u, err := parseURL(raw)
	if err != nil {
		return err
	}
	check := s.guard.check
	if u.Scheme == "http" {
		check = s.guard.checkPlain
		if err := s.guard.checkHTTP(); err != nil {
			return err
		}
	}
	addr, err := netip.ParseAddr(u.Hostname())
	switch {
	case err == nil:
		return check(addr)
	case endsInNumber(u.Hostname()):
		return errors.New("the URL's host is neither a name nor an address; write IPv4 as four decimal numbers")
	}
	return nil // a name
}

// endsInNumber finds the spellings of an IPv4 address that inet_aton and
// browsers read and Go does not: 2130706433, 0x7f.1, 127.1 (WHATWG URL, "ends
// in a number").
func endsInNumber(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	digits, isHex := strings.CutPrefix(strings.ToLower(last), "0x")
	set := "0123456789"
	if isHex {
		set += "abcdef"
	}
	return last != "" && strings.Trim(digits, set) == ""
}

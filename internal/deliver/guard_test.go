package deliver_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// Addresses that are never dialled by default, in every spelling that we know.
var inward = []string{
	"127.0.0.1", "127.8.9.1", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.2.1",
	"198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
	"[::1]", "[::]", "[fe80::1]", "[fe80::1%25lo]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[2001:db8::1]",
	"[::ffff:127.0.0.1]", "[::ffff:10.0.0.1]", "[::ffff:a9fe:a9fe]", "[::127.0.0.1]",
	"[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a00:1::1]", "[2001:0:1:2:3:4:80ff:fffe]",
}

func TestInwardAddressesAreBlocked(t *testing.T) {
	for _, everywhere := range []deliver.PlainHTTP{deliver.HTTPNowhere, deliver.HTTPEverywhere} {
		s := deliver.New(deliver.Config{AllowHTTP: everywhere})
		defer s.Close()
		for _, host := range inward {
			for _, url := range []string{"https://" + host + "/", "https://" + host + ":8443/", "http://" + host + "/"} {
				r := s.Send(t.Context(), newTarget(t, url, long, nil), newMessage([]byte("x")))
				if r.Cause != posthaste.CauseBlockedAddress || r.StatusCode != 0 {
					t.Errorf("%s: cause %q: %s", url, r.Cause, r.Error)
				}
				if err := s.CheckURL(url); err == nil {
					t.Errorf("CheckURL(%s) says nothing", url)
				}
			}
		}
	}
}

// Names and numbers that end at loopback do not get through either, whichever
// way the resolver of this machine takes them.
func TestNamesOfLoopbackAreBlocked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") }))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	empty := fakeDNS(t, func(string) dnsAnswer { return dnsAnswer{code: dnsNoSuchName} })
	s := newSender(t, func(c *deliver.Config) {
		c.AllowNetworks, c.AllowHTTP, c.Resolver = nil, deliver.HTTPEverywhere, empty
	})
	for host, want := range map[string]posthaste.Cause{
		"localhost": posthaste.CauseBlockedAddress, "2130706433": posthaste.CauseDNS, "0x7f000001": posthaste.CauseDNS,
		"127.1": posthaste.CauseDNS, "0177.0.0.1": posthaste.CauseDNS, "①②⑦.⓪.⓪.①": posthaste.CauseBlockedAddress,
	} {
		r := s.Send(t.Context(), newTarget(t, "http://"+host+":"+port, long, nil), newMessage(nil))
		if r.Cause != want {
			t.Errorf("%s: cause %q: %s", host, r.Cause, r.Error)
		}
	}
	for _, host := range []string{"2130706433", "0x7f000001", "127.1", "127.1.", "a.0x7F"} {
		if s.CheckURL("https://"+host+"/") == nil {
			t.Errorf("CheckURL accepts %s", host)
		}
	}
}

func TestBlockedErrorTellsWhatToDo(t *testing.T) {
	s := newSender(t, func(c *deliver.Config) { c.AllowNetworks = nil })
	for _, url := range []string{"https://10.1.2.3/", "http://10.1.2.3/"} {
		r := s.Send(t.Context(), newTarget(t, url, long, nil), newMessage(nil))
		if r.Cause != posthaste.CauseBlockedAddress || !strings.Contains(r.Error, "--allow-networks") {
			t.Errorf("%s: cause %q: %s", url, r.Cause, r.Error)
		}
	}
}

// Plain HTTP with --allow-http=networks: a public address is not enough.
func TestPlainHTTPOutsideOfAllowedNetworks(t *testing.T) {
	for address, words := range map[string]string{
		"8.8.8.8:80": "plain http is not allowed", "[2606:4700::1111]:80": "plain http is not allowed", "10.0.0.1:80": "not public", "nonsense": "cannot be checked",
	} {
		if err := newSender(t, nil).ControlPlain(address); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", address, err)
		}
	}
	everywhere := newSender(t, func(c *deliver.Config) { c.AllowHTTP = deliver.HTTPEverywhere })
	if err := everywhere.ControlPlain("8.8.8.8:80"); err != nil {
		t.Error(err)
	}
}

func TestCheckURL(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::ffff:10.0.0.0/104"), netip.MustParsePrefix("64:ff9b::/96")}
	const nowhere, inNetworks, everywhere = deliver.HTTPNowhere, deliver.HTTPNetworks, deliver.HTTPEverywhere
	for _, c := range []struct {
		url  string
		http deliver.PlainHTTP
		ok   bool
	}{
		{"https://example.com/hook?x=1", nowhere, true},
		{"https://bücher.example/", nowhere, true},
		{"https://1.1.1.1/", nowhere, true},
		{"https://[2606:4700::1111]/", nowhere, true},
		{"https://127.0.0.1/", nowhere, true},
		{"https://[::ffff:127.0.0.1]/", nowhere, true},
		{"https://10.1.1.1/", nowhere, true}, // allowed in its mapped form
		{"https://192.168.0.1/", nowhere, false},
		{"https://[64:ff9b::808:808]/", nowhere, true},    // 8.8.8.8 through NAT64
		{"https://[64:ff9b::a00:1]/", nowhere, true},      // 10.0.0.1, allowed itself
		{"https://[64:ff9b::c0a8:1]/", nowhere, false},    // 192.168.0.1 is not
		{"https://[::ffff:c0a8:1]/", nowhere, false},      // the same, mapped
		{"https://[64:ff9b::a9fe:a9fe]/", nowhere, false}, // a cloud's metadata
		{"http://example.com/", nowhere, false},
		{"http://127.0.0.1/", nowhere, false},
		{"http://example.com/", inNetworks, true}, // decided when it is dialled
		{"http://127.0.0.1/", inNetworks, true},
		{"http://1.1.1.1/", inNetworks, false},
		{"http://1.1.1.1/", everywhere, true},
		{"http://192.168.0.1/", everywhere, false},
		{"ftp://example.com/", everywhere, false},
		{"https://user@example.com/", everywhere, false},
	} {
		s := newSender(t, func(cfg *deliver.Config) { cfg.AllowNetworks, cfg.AllowHTTP = networks, c.http })
		if err := s.CheckURL(c.url); (err == nil) != c.ok {
			t.Errorf("%s with %d: %v", c.url, c.http, err)
		}
	}
}

// A name that answers with a public address when it is looked at and with an
// inward one when it is dialled gains nothing: only what is dialled is looked at. The
// error does not tell the address, which may be one inside of the operator's network.
func TestNameThatTurnsInwards(t *testing.T) {
	var answers atomic.Int64
	resolver := fakeDNS(t, func(string) dnsAnswer { answers.Add(1); return dnsAnswer{ip: [4]byte{10, 0, 0, 7}} })
	s := newSender(t, func(c *deliver.Config) { c.Resolver = resolver })
	for _, url := range []string{"https://rebind.test/", "http://rebind.test/"} {
		if err := s.CheckURL(url); err != nil {
			t.Errorf("a name was judged without a look-up: %v", err)
		}
		r := s.Send(t.Context(), newTarget(t, url, long, nil), newMessage(nil))
		if r.Cause != posthaste.CauseBlockedAddress || strings.Contains(r.Error, "10.0.0.7") || r.Timings.DNS <= 0 {
			t.Errorf("%s: cause %q, %+v: %s", url, r.Cause, r.Timings, r.Error)
		}
	}
	if answers.Load() == 0 {
		t.Error("the name was not looked up")
	}
}

func TestNameInAllowedNetwork(t *testing.T) {
	url, _ := rawServer(t, answering(ok))
	_, port, _ := net.SplitHostPort(strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/hook"))
	s := newSender(t, func(c *deliver.Config) {
		c.Resolver = fakeDNS(t, func(string) dnsAnswer { return dnsAnswer{ip: [4]byte{127, 0, 0, 1}} })
	})
	r := s.Send(t.Context(), newTarget(t, "http://receiver.test:"+port+"/", long, nil), newMessage(nil))
	delivered(t, r)
	if r.Timings.DNS <= 0 || r.Timings.Connect <= 0 {
		t.Errorf("%+v", r.Timings)
	}
}

func TestMappedLoopbackIsAllowedWithLoopback(t *testing.T) {
	url, _ := rawServer(t, answering(ok))
	mapped := strings.Replace(url, "127.0.0.1", "[::ffff:127.0.0.1]", 1)
	delivered(t, newSender(t, nil).Send(t.Context(), newTarget(t, mapped, long, nil), newMessage(nil)))
}

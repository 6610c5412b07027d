package posthaste_test

import (
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
)

func TestDefaultDefinitionIsValid(t *testing.T) {
	d := posthaste.DefaultDefinition()
	d.URL = "https://example.com/hooks"
	if problems := d.Validate(posthaste.DefinitionRules{Retention: 720 * time.Hour}); len(problems) > 0 {
		t.Errorf("%+v", problems)
	}
}

func TestDefinitionProblems(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	seconds := func(n int) (s []posthaste.Duration) {
		for range n {
			s = append(s, posthaste.Duration(time.Second))
		}
		return s
	}
	hex := posthaste.Signature{Scheme: "hex", Headers: posthaste.SignatureHeaders{Timestamp: "X-Time", Signature: "X-Sign"}}
	for _, c := range []struct {
		name   string
		change func(*posthaste.Definition)
		fields string // those with a problem, in order, "" if none
	}{
		{"description at the limit", func(d *posthaste.Definition) { d.Description = long(1024) }, ""},
		{"description too long", func(d *posthaste.Definition) { d.Description = long(1025) }, "description"},
		{"description with NUL", func(d *posthaste.Definition) { d.Description = "a\x00b" }, "description"},
		{"no event types", func(d *posthaste.Definition) { d.EventTypes = nil }, "event_types"},
		{"too many event types", func(d *posthaste.Definition) { d.EventTypes = make([]string, 101) }, "event_types"},
		{"good patterns", func(d *posthaste.Definition) { d.EventTypes = []string{"*", "a.*", "a.b", "A/b:c-d_e"} }, ""},
		{"good sources", func(d *posthaste.Definition) {
			d.Sources = []string{posthaste.SourceAPI, posthaste.NewSourceID().Print(posthaste.KindSource)}
		}, ""},
		{"bad sources", func(d *posthaste.Definition) { d.Sources = []string{"api", "", "src_1", "stripe"} }, "sources[1] sources[2] sources[3]"},
		{"too many sources", func(d *posthaste.Definition) { d.Sources = make([]string, 101) }, "sources"},
		{"bad patterns", func(d *posthaste.Definition) { d.EventTypes = []string{"a", "", "a*", "*.a", "a b", ".*"} },
			"event_types[1] event_types[2] event_types[3] event_types[4] event_types[5]"},
		{"good headers", func(d *posthaste.Definition) { d.Headers = map[string]string{"X-Tenant": "7", "x-a": ""} }, ""},
		{"not header names", func(d *posthaste.Definition) {
			d.Headers = map[string]string{"": "v", "a b": "v", "a:b": "v", "é": "v", long(129): "v"}
		}, "headers. headers.a b headers.a:b headers." + long(129) + " headers.é"},
		{"reserved headers", func(d *posthaste.Definition) {
			d.Headers = map[string]string{"Host": "v", "content-Length": "v", "Connection": "v", "webhook-id": "v", "Posthaste-X": "v", "TE": "v", "Traceparent": "v"}
		}, "headers.Connection headers.Host headers.Posthaste-X headers.TE headers.Traceparent headers.content-Length headers.webhook-id"},
		{"header values", func(d *posthaste.Definition) {
			d.Headers = map[string]string{"A": "a\r\nB: c", "B": " v", "C": long(4097), "D": "a\x00", "E": long(4096)}
		}, "headers.A headers.B headers.C headers.D"},
		{"one header twice", func(d *posthaste.Definition) { d.Headers = map[string]string{"X-A": "1", "x-a": "2"} }, "headers.x-a"},
		{"too many headers", func(d *posthaste.Definition) {
			for i := range 21 {
				d.Headers["X-"+long(i)] = "v"
			}
		}, "headers"},
		{"hex", func(d *posthaste.Definition) { d.Signature = hex }, ""},
		{"hex without names", func(d *posthaste.Definition) { d.Signature = posthaste.Signature{Scheme: "hex"} },
			"signature.headers.timestamp signature.headers.signature"},
		{"hex with bad names", func(d *posthaste.Definition) {
			d.Signature = hex
			d.Signature.Headers.ID = "webhook-id"
			d.Signature.Headers.Event = "x-time"
			d.Signature.Headers.DeliveryID = "Authorization"
		}, "signature.headers.id signature.headers.delivery_id signature.headers.event"},
		{"hex with the endpoint's own header", func(d *posthaste.Definition) { d.Signature = hex; d.Headers["x-sign"] = "v" }, "signature.headers.signature"},
		{"standard with names", func(d *posthaste.Definition) { d.Signature.Headers.ID = "X-Id" }, "signature.headers.id"},
		{"unknown scheme", func(d *posthaste.Definition) { d.Signature.Scheme = "md5" }, "signature.scheme"},
		{"no scheme", func(d *posthaste.Definition) { d.Signature.Scheme = "" }, "signature.scheme"},
		{"no retries", func(d *posthaste.Definition) { d.Retry.Schedule = nil }, ""},
		{"steps out of range", func(d *posthaste.Definition) {
			d.Retry.Schedule = append(seconds(1), 0, posthaste.Duration(-time.Second), posthaste.Duration(720*time.Hour), posthaste.Duration(720*time.Hour+1))
		}, "retry.schedule[1] retry.schedule[2] retry.schedule[4]"},
		{"50 steps", func(d *posthaste.Definition) { d.Retry.Schedule = seconds(50) }, ""},
		{"51 steps", func(d *posthaste.Definition) { d.Retry.Schedule = seconds(51) }, "retry.schedule"},
		{"jitter 0", func(d *posthaste.Definition) { d.Retry.Jitter = 0 }, ""},
		{"jitter above 1", func(d *posthaste.Definition) { d.Retry.Jitter = 1.01 }, "retry.jitter"},
		{"jitter below 0", func(d *posthaste.Definition) { d.Retry.Jitter = -0.1 }, "retry.jitter"},
		{"limits at their ends", func(d *posthaste.Definition) {
			d.RateLimit, d.Retry.RPS, d.Ordered = &posthaste.RateLimit{RPS: 100_000, Burst: new(1)}, new(0.001), posthaste.OrderedByEndpoint
			d.Breaker = &posthaste.Breaker{Threshold: 10_000, Reset: posthaste.Duration(24 * time.Hour), ResetMax: posthaste.Duration(24 * time.Hour)}
		}, ""},
		{"no limits at all", func(d *posthaste.Definition) { d.RateLimit, d.Retry.RPS, d.Breaker = nil, nil, nil }, ""},
		{"limits beyond them", func(d *posthaste.Definition) {
			d.RateLimit, d.Retry.RPS, d.Ordered = &posthaste.RateLimit{RPS: math.Inf(1), Burst: new(100_001)}, new(-1.0), "key"
			d.Breaker = &posthaste.Breaker{Reset: posthaste.Duration(99 * time.Millisecond), ResetMax: posthaste.Duration(25 * time.Hour)}
		}, "rate_limit.rps rate_limit.burst retry.rps ordered breaker.threshold breaker.reset breaker.reset_max"},
		{"limits NaN", func(d *posthaste.Definition) {
			d.RateLimit, d.Retry.RPS = &posthaste.RateLimit{RPS: math.NaN()}, new(math.NaN())
		}, "rate_limit.rps retry.rps"},
		{"reset beyond the most", func(d *posthaste.Definition) { d.Breaker.Reset = posthaste.Duration(6 * time.Minute) }, "breaker.reset_max"},
		{"jitter NaN", func(d *posthaste.Definition) { d.Retry.Jitter = math.NaN() }, "retry.jitter"},
		{"timeout short", func(d *posthaste.Definition) { d.Retry.Timeout = posthaste.Duration(99 * time.Millisecond) }, "retry.timeout"},
		{"timeout long", func(d *posthaste.Definition) { d.Retry.Timeout = posthaste.Duration(5*time.Minute + 1) }, "retry.timeout"},
		{"no deadline", func(d *posthaste.Definition) { d.Retry.Deadline = 0 }, "retry.deadline"},
		{"deadline just below the retention", func(d *posthaste.Definition) { d.Retry.Deadline = posthaste.Duration(720*time.Hour - 1) }, ""},
		{"deadline as long as the retention", func(d *posthaste.Definition) { d.Retry.Deadline = posthaste.Duration(720 * time.Hour) }, "retry.deadline"},
		{"nothing transient", func(d *posthaste.Definition) { d.Retry.Transient = nil }, ""},
		{"transient", func(d *posthaste.Definition) {
			d.Retry.Transient = []string{"3xx", "4xx", "599", "404", "2xx", "200", "410", "600", "5XX", "", "0404", "+404", "999999999999999999999"}
		}, "retry.transient[4] retry.transient[5] retry.transient[6] retry.transient[7] retry.transient[8] retry.transient[9] retry.transient[10] retry.transient[11] retry.transient[12]"},
		{"max_in_flight 0", func(d *posthaste.Definition) { d.MaxInFlight = 0 }, "max_in_flight"},
		{"max_in_flight 1000", func(d *posthaste.Definition) { d.MaxInFlight = 1000 }, ""},
		{"max_in_flight 1001", func(d *posthaste.Definition) { d.MaxInFlight = 1001 }, "max_in_flight"},
		{"all at once", func(d *posthaste.Definition) {
			d.URL, d.Retry.Jitter, d.MaxInFlight, d.EventTypes = "", 2, -1, []string{"!"}
		}, "url event_types[0] retry.jitter max_in_flight"},
	} {
		d := posthaste.DefaultDefinition()
		d.URL = "https://example.com/"
		c.change(&d)
		problems := d.Validate(posthaste.DefinitionRules{Retention: 720 * time.Hour})
		var fields []string
		for _, p := range problems {
			fields = append(fields, p.Field)
			if p.Message == "" || p.Hint == "" {
				t.Errorf("%s: a problem without message or hint: %+v", c.name, p)
			}
		}
		if got := strings.Join(fields, " "); got != c.fields {
			t.Errorf("%s: problems with %q, want %q", c.name, got, c.fields)
		}
	}
}

func TestSchemeOfALaterVersion(t *testing.T) {
	d := posthaste.DefaultDefinition()
	d.URL, d.Signature.Scheme = "https://example.com/", "standard-ed25519"
	err := posthaste.Invalid(d.Validate(posthaste.DefinitionRules{}))
	if posthaste.CodeOf(err) != posthaste.CodeUnsupported {
		t.Errorf("%v, want code unsupported", err)
	}
}

func TestEndpointURL(t *testing.T) {
	strict := posthaste.DefinitionRules{}
	loopback := posthaste.DefinitionRules{AllowNetworks: prefixes("127.0.0.0/8", "::1/128"), AllowHTTP: posthaste.HTTPInNetworks}
	httpAnywhere := posthaste.DefinitionRules{AllowHTTP: posthaste.HTTPEverywhere}
	for _, c := range []struct {
		url   string
		rules posthaste.DefinitionRules
		want  string // in the message or the hint; "" if the URL is good
	}{
		{"https://example.com", strict, ""},
		{"https://Example.COM:8443/a/b?c=d&e=%20", strict, ""},
		{"https://example.com./", strict, ""},
		{"https://my_host.example.com/", strict, ""},
		{"https://93.184.216.34/", strict, ""},
		{"https://[2606:2800:220:1:248:1893:25c8:1946]:443/", strict, ""},
		{"https://xn--bcher-kva.example/", strict, ""},
		{"https://receiver/", strict, ""},
		{"HTTPS://example.com/", strict, ""},

		{"", strict, "is missing"},
		{"https://example.com/" + strings.Repeat("x", 2029), strict, "too long"},
		{"example.com/hooks", strict, "not absolute"},
		{"//example.com/hooks", strict, "not absolute"},
		{"/hooks", strict, "not absolute"},
		{"https:example.com", strict, "no host"},
		{"https://", strict, "no host"},
		{"https:///hooks", strict, "no host"},
		{"https://:443/", strict, "no host"},
		{"file:///etc/passwd", strict, "scheme file"},
		{"ftp://example.com/", strict, "scheme ftp"},
		{"javascript:alert(1)", strict, "scheme javascript"},
		{"gopher://127.0.0.1:25/", strict, "scheme gopher"},
		{"https://user:secret@example.com/", strict, "credentials"},
		{"https://user@example.com/", strict, "credentials"},
		{"https://@example.com/", strict, "credentials"},
		{"https://example.com/#top", strict, "fragment"},
		{"https://example.com/#", strict, "fragment"},
		{"https://example.com:/", strict, "colon"},
		{"https://example.com:0/", strict, "port 0"},
		{"https://example.com:65536/", strict, "port 65536"},
		{"https://example.com:99999999999999999999/", strict, "port 9999"},
		{"https://example.com:https/", strict, "not a URL"},
		{" https://example.com/", strict, "space"},
		{"https://example.com/a b", strict, "space"},
		{"https://example.com\\@evil.example/", strict, "backslash"},
		{"https://example.com/\r\nX: y", strict, "control"},
		{"https://exa%mple.com/", strict, "not a URL"},
		{"https://-a.example.com/", strict, "not a name"},
		{"https://a..example.com/", strict, "not a name"},
		{"https://" + strings.Repeat("a", 64) + ".example/", strict, "not a name"},
		{"https://bücher.example/", strict, "xn--bcher-kva.example"},
		{"https://xn--/", strict, "not a name"},

		{"https://127.0.0.1/", strict, "not public"},
		{"https://10.1.2.3/", strict, "not public"},
		{"https://192.168.0.1:8443/", strict, "not public"},
		{"https://172.16.0.1/", strict, "not public"},
		{"https://169.254.169.254/latest/meta-data", strict, "not public"},
		{"https://0.0.0.0/", strict, "not public"},
		{"https://100.64.0.1/", strict, "not public"},
		{"https://[::1]/", strict, "not public"},
		{"https://[::ffff:10.0.0.1]/", strict, "not public"},
		{"https://[64:ff9b::a00:1]/", strict, "not public"},
		{"https://[2002:a00:1::]/", strict, "not public"},
		{"https://[fe80::1%25eth0]/", strict, "zone"},
		{"https://[fd00::1]/", strict, "not public"},
		{"https://localhost/", strict, "not public"},
		{"https://a.LOCALHOST./", strict, "not public"},
		{"https://2130706433/", strict, "usual form"},
		{"https://0x7f000001/", strict, "usual form"},
		{"https://127.1/", strict, "usual form"},
		{"https://0177.0.0.1/", strict, "usual form"},
		{"https://10.0.0.0x1/", strict, "usual form"},
		{"https://127.0.0.1./", strict, "usual form"},

		{"http://example.com/", strict, "is http"},
		{"http://127.0.0.1:8080/", loopback, ""},
		{"http://[::1]:8080/", loopback, ""},
		{"http://[::ffff:127.0.0.1]/", loopback, ""},
		{"http://localhost:8080/", loopback, ""},
		{"https://localhost:8080/", loopback, ""},
		{"http://receiver:8080/", loopback, ""}, // judged when it is dialled
		{"http://93.184.216.34/", loopback, "is http"},
		{"https://10.0.0.1/", loopback, "not public"},
		{"http://example.com/", httpAnywhere, ""},
		{"http://127.0.0.1/", httpAnywhere, "not public"},
		{"http://example.com/", posthaste.DefinitionRules{AllowHTTP: posthaste.HTTPInNetworks}, "is http"},
		{"http://127.0.0.1/", posthaste.DefinitionRules{AllowNetworks: prefixes("127.0.0.0/8")}, "is http"},
	} {
		d := posthaste.DefaultDefinition()
		d.URL = c.url
		problems := d.Validate(c.rules)
		switch {
		case c.want == "" && len(problems) > 0:
			t.Errorf("%q: %+v, want it to be good", c.url, problems)
		case c.want != "" && (len(problems) != 1 || problems[0].Field != "url" || problems[0].Hint == "" ||
			!strings.Contains(problems[0].Message+" "+problems[0].Hint, c.want)):
			t.Errorf("%q: %+v, want one problem with url, %q", c.url, problems, c.want)
		}
		for _, p := range problems {
			if strings.Contains(p.Message+p.Hint, "secret") {
				t.Errorf("%q: the problem repeats the password: %+v", c.url, p)
			}
		}
	}
}

func FuzzEndpointURL(f *testing.F) {
	for _, seed := range []string{"https://example.com:443/a?b#c", "https://[::1%25x]/", "http://0x7f.1/", "https://u:p@h", "https://bücher.example", "::", "https://%41/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		d := posthaste.DefaultDefinition()
		d.URL = raw
		if len(d.Validate(posthaste.DefinitionRules{})) > 0 {
			return
		}
		lower := strings.ToLower(raw)
		if !strings.HasPrefix(lower, "https://") || strings.ContainsAny(raw, " #\\\r\n\x00") || len(raw) > posthaste.MaxURLBytes {
			t.Errorf("%q was taken", raw)
		}
	})
}

func prefixes(s ...string) (out []netip.Prefix) {
	for _, p := range s {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

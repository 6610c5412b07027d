package deliver_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/deliver"
)

// dnsAnswer is what a name server answers for an IPv4 address. For other types of
// records it has an empty answer.
type dnsAnswer struct {
	code   byte // of the response; 0: no error
	ip     [4]byte
	silent bool // no answer at all
}

const (
	dnsServerFailed = 2
	dnsNoSuchName   = 3
)

// fakeDNS is a name server over UDP. answer is given the name, "" for the root zone.
func fakeDNS(t *testing.T, answer func(name string) dnsAnswer) *net.Resolver {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			question := string(buf[12:n])
			end := 12 + strings.IndexByte(question, 0) + 5 // the question: name, type, class
			reply := append([]byte{}, buf[:end]...)
			binary.BigEndian.PutUint16(reply[2:], 0x8180)
			copy(reply[6:12], make([]byte, 6))
			a := answer(nameIn(question))
			if a.silent {
				continue
			}
			reply[3] |= a.code
			if a.code == 0 && binary.BigEndian.Uint16(reply[end-4:]) == 1 { // A
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, a.ip[0], a.ip[1], a.ip[2], a.ip[3])
			}
			pc.WriteTo(reply, from)
		}
	}()
	// A lookup that nobody waits for any more goes on for 5 s: cut it off.
	over, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); pc.Close(); <-done })
	return dialling(func(ctx context.Context) (net.Conn, error) {
		if over.Err() != nil {
			return nil, over.Err()
		}
		c, err := new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
		if err == nil {
			context.AfterFunc(over, func() { c.Close() })
		}
		return c, err
	})
}

func nameIn(question string) string {
	var labels []string
	for n := int(question[0]); n > 0; n = int(question[0]) {
		labels = append(labels, question[1:1+n])
		question = question[1+n:]
	}
	return strings.Join(labels, ".")
}

func dialling(dial func(ctx context.Context) (net.Conn, error)) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
}

// A lookup that fails is the fault of this server where its resolver answers for no
// name, and of the name's owner where the resolver answers for others. The error tells
// owners of endpoints nothing of the resolver.
func TestLookupFailures(t *testing.T) {
	only := func(a dnsAnswer) *net.Resolver {
		return fakeDNS(t, func(name string) dnsAnswer {
			if strings.HasPrefix(name, "receiver.test") {
				return a
			}
			return dnsAnswer{}
		})
	}
	all := func(a dnsAnswer) *net.Resolver { return fakeDNS(t, func(string) dnsAnswer { return a }) }
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, c := range map[string]struct {
		resolver *net.Resolver
		cause    posthaste.Cause
		shortage deliver.Shortage
		words    string
	}{
		"the name does not exist":     {all(dnsAnswer{code: dnsNoSuchName}), posthaste.CauseDNS, "", "no such host"},
		"its name servers fail":       {only(dnsAnswer{code: dnsServerFailed}), posthaste.CauseDNS, "", "the name server reported a failure"},
		"its name servers are silent": {only(dnsAnswer{silent: true}), posthaste.CauseDNS, "", "no name server answered in time"},
		"the resolver fails":          {all(dnsAnswer{code: dnsServerFailed}), posthaste.CauseLocal, deliver.ShortOfResolver, "the name server reported a failure"},
		"the resolver is silent":      {all(dnsAnswer{silent: true}), posthaste.CauseLocal, deliver.ShortOfResolver, "no name server answered in time"},
		"nothing listens at its port": {dialling(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "udp", closed.LocalAddr().String())
		}), posthaste.CauseLocal, deliver.ShortOfResolver, ""},
		"the resolver is not reachable": {dialling(func(context.Context) (net.Conn, error) { return nil, errors.New("no network") }), posthaste.CauseLocal, deliver.ShortOfResolver, ""},
		"no descriptor for the lookup": {dialling(func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "udp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}), posthaste.CauseLocal, deliver.ShortOfDescriptors, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSender(t, func(cfg *deliver.Config) { cfg.Resolver = c.resolver })
			r := s.Send(t.Context(), newTarget(t, "https://receiver.test/", short, nil), newMessage(nil))
			if r.Cause != c.cause || r.Shortage != c.shortage || !strings.Contains(r.Error, "look up the host: receiver.test: ") || !strings.Contains(r.Error, c.words) {
				t.Errorf("cause %q, shortage %q: %s", r.Cause, r.Shortage, r.Error)
			}
			if strings.Contains(r.Error, "127.0.0.1") || strings.Contains(r.Error, ":53") {
				t.Errorf("the error shows the address of the resolver: %s", r.Error)
			}
			if (r.Cause.Fault() == posthaste.FaultLocal) != (r.Shortage != "") {
				t.Errorf("fault %d with shortage %q", r.Cause.Fault(), r.Shortage)
			}
		})
	}
}

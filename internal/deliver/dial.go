package deliver

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptrace"
)

// dialer makes connections within the deadline of the attempt that asked first.
//
// net/http cuts a dial loose from the request's cancellation, so that another
// request may use the connection, but keeps the context's values. Left alone,
// the dials to a host that swallows packets would pile up long after their
// attempts have ended; so the deadline travels as part of the attempt's progress.
type dialer struct {
	net net.Dialer
	tls *tls.Config // for dialTLS
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p := progressOf(ctx)
	ctx, cancel := context.WithDeadline(httptrace.WithClientTrace(ctx, p.dialTrace()), p.deadline)
	defer cancel()
	return d.net.DialContext(ctx, network, address)
}

func (d *dialer) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := d.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		raw.Close()
		return nil, err
	}
	p := progressOf(ctx)
	ctx, cancel := context.WithDeadline(ctx, p.deadline)
	defer cancel()
	config := d.tls.Clone()
	config.ServerName = host
	conn := tls.Client(raw, config)
	p.dialStep(stepTLS)
	err = conn.HandshakeContext(ctx)
	p.dialStepDone(stepTLS, err)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}

package deliver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
)

// dialer makes connections that the guard of its Control lets through. There is
// one for each scheme, because what may be dialled differs.
type dialer struct {
	net net.Dialer
	tls *tls.Config // nil for plain HTTP
}

// dial connects within the attempt's deadline and ends with ctx. How long each
// step took, and at which one it failed, is in p afterwards.
func (d *dialer) dial(ctx context.Context, address string, p *progress) (*conn, error) {
	ctx, cancel := context.WithDeadline(ctx, p.deadline)
	defer cancel()
	steps := new(dialling)
	defer steps.end(p)
	raw, err := d.net.DialContext(steps.trace(ctx), "tcp", address)
	if err != nil {
		return nil, steps.reason(err)
	}
	s, err := newSocket(raw)
	if err != nil {
		raw.Close()
		return nil, err
	}
	if d.tls == nil {
		return newConn(raw, s), nil
	}
	secure, err := d.handshake(ctx, s, address, steps)
	if err != nil {
		raw.Close()
		return nil, err
	}
	return newConn(secure, s), nil
}

func (d *dialer) handshake(ctx context.Context, s *socket, address string, steps *dialling) (*tls.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("find the server's name: %w", err)
	}
	config := d.tls.Clone()
	config.ServerName = host
	secure := tls.Client(s, config)
	steps.enter(stepTLS)
	err = secure.HandshakeContext(ctx)
	steps.leave(stepTLS, err)
	return secure, err
}

//go:build unix

package deliver

import (
	"errors"
	"syscall"
)

// systemPoll receives with recv(2). What a call is given and what it returns are
// fields, and the function is made once, so that a call allocates nothing.
type systemPoll struct {
	raw  syscall.RawConn
	recv func(fd uintptr) bool

	buf   []byte
	flags int
	n     int
	err   error
}

// newPoll is a variable so that tests can choose the portable form.
var newPoll = func(s *socket) (poll, error) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &systemPoll{raw: raw}
	p.recv = func(fd uintptr) bool {
		p.n, _, p.err = syscall.Recvfrom(int(fd), p.buf, p.flags|syscall.MSG_DONTWAIT)
		return true // whatever came of it: false would wait
	}
	return p, nil
}

func (p *systemPoll) receive(b []byte) (int, error) { return p.call(b, 0) }

func (p *systemPoll) peek(b []byte) (int, error) { return p.call(b, syscall.MSG_PEEK) }

func (p *systemPoll) call(b []byte, flags int) (int, error) {
	p.buf, p.flags = b, flags
	err := p.raw.Read(p.recv)
	p.buf = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(p.err, syscall.EAGAIN):
		return 0, errEmpty
	}
	return max(p.n, 0), p.err
}

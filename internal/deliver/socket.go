package deliver

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// socket is a TCP connection that can be looked at without waiting. TLS reads
// through it; plain HTTP goes to the connection itself.
//
// What crypto/tls has read ahead of us is out of sight, so the socket keeps
// count of TLS records: if all that was read are whole records, and crypto/tls
// asks for more, then nothing is left over inside of it.
type socket struct {
	*net.TCPConn

	isPolling bool // Read does not wait
	header    [recordHeaderBytes]byte
	have      int // bytes of header
	left      int // bytes of the record in hand that are still to come

	poll     poll      // receives without waiting
	deadline time.Time // of reads, for a poll that has to change it for a moment
}

// poll receives from a connection without waiting. errEmpty says that the other
// side has sent nothing and has not closed the connection.
type poll interface {
	// receive reads into b.
	receive(b []byte) (int, error)
	// peek reads into b what a later read returns again, where the system can do that.
	peek(b []byte) (int, error)
}

var errEmpty = errors.New("nothing has arrived")

// recordHeaderBytes: type, version (2), length of what follows (2). RFC 8446,
// section 5.1.
const recordHeaderBytes = 5

func newSocket(c net.Conn) (*socket, error) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, errors.New("not a TCP connection")
	}
	s := &socket{TCPConn: tcp}
	var err error
	if s.poll, err = newPoll(s); err != nil {
		return nil, fmt.Errorf("reach the socket: %w", err)
	}
	return s, nil
}

// isSilent reports whether the other side has neither sent anything nor closed
// the connection. After the deadline nothing can be seen, and nothing done: then
// it is not the connection's fault, and the others are as good.
func (s *socket) isSilent() bool {
	var one [1]byte
	_, err := s.poll.peek(one[:])
	return errors.Is(err, errEmpty) || errors.Is(err, os.ErrDeadlineExceeded)
}

// isSilentAbove is isSilent for the connection that reads through s. A session
// ticket that came late is taken in by the way.
func (s *socket) isSilentAbove(tls net.Conn) bool {
	s.isPolling = true
	defer func() { s.isPolling = false }()
	var one [1]byte
	n, err := tls.Read(one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && s.left == 0 && s.have == 0
}

// Read is for crypto/tls, which goes on after a timeout as if nothing had been.
func (s *socket) Read(b []byte) (n int, err error) {
	if !s.isPolling {
		n, err = s.TCPConn.Read(b)
	} else if n, err = s.poll.receive(b); errors.Is(err, errEmpty) {
		err = os.ErrDeadlineExceeded
	} else if n == 0 && err == nil {
		err = io.EOF
	}
	s.count(b[:n])
	return n, err
}

// count follows the bytes of a stream through its records.
func (s *socket) count(b []byte) {
	for len(b) > 0 {
		if s.left > 0 {
			n := min(s.left, len(b))
			s.left -= n
			b = b[n:]
			continue
		}
		n := copy(s.header[s.have:], b)
		b = b[n:]
		if s.have += n; s.have == len(s.header) {
			s.have, s.left = 0, int(s.header[3])<<8|int(s.header[4])
		}
	}
}

package deliver

import (
	"errors"
	"io"
	"os"
	"time"
)

// portablePoll receives with a deadline of a millisecond, for systems without
// recv(2). It cannot peek: a byte that it reads is gone. That is good enough to
// decide whether an idle connection can be used again, since one on which
// anything has arrived is closed.
type portablePoll struct {
	socket *socket
}

// pollWait is how long one receive may take: the shortest that timers keep.
const pollWait = time.Millisecond

func (p *portablePoll) peek(b []byte) (int, error) { return p.receive(b) }

func (p *portablePoll) receive(b []byte) (int, error) {
	if err := p.socket.TCPConn.SetReadDeadline(time.Now().Add(pollWait)); err != nil {
		return 0, err
	}
	n, err := p.socket.TCPConn.Read(b)
	if restoreErr := p.socket.TCPConn.SetReadDeadline(p.socket.deadline); restoreErr != nil {
		return n, restoreErr
	}
	switch {
	case n == 0 && errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errEmpty
	case n == 0 && errors.Is(err, io.EOF):
		return 0, nil // as recv(2) says it
	}
	return n, err
}

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// wire is one kept-alive HTTP/1.1 connection of the generator. net/http's client
// costs about as much as an engine's whole accept path, and on a small machine
// it takes that from the engine; this one writes a request in one system call
// and reads no more of the answer than its status and its length.
type wire struct {
	conn    net.Conn
	in      *bufio.Reader
	request []byte // scratch
	payload []byte // scratch
	body    []byte // scratch
	id      []byte // scratch
}

// Limits of an exchange.
const (
	dialTimeout     = 5 * time.Second
	exchangeTimeout = 30 * time.Second
	maxAnswerBytes  = 1 << 20
	keptAnswerBytes = 200 // of an answer that is not a 2xx, for the report
)

// statusError is an answer that is not a 2xx.
type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// send writes the request of the events from seq on, as many as the template
// takes, and waits for a 2xx. It returns a
// *statusError for any other status; after every other error the connection is
// closed, and the next send opens a new one.
func (w *wire) send(t template, rec *recorder, seq int) error {
	w.body = w.body[:0]
	for i := range min(t.events(), len(rec.intended)-seq) {
		w.id = rec.appendID(w.id[:0], seq+i)
		w.payload = rec.appendPayload(w.payload[:0], seq+i)
		w.body = t.appendBody(w.body, w.id, w.payload)
	}
	w.request = t.appendRequest(w.request[:0], w.id, w.body)
	if w.conn == nil {
		if err := w.dial(t.addr); err != nil {
			return err
		}
	}
	status, keep, err := w.exchange()
	if err != nil || !keep {
		w.close()
	}
	if status != nil {
		return status
	}
	return err
}

func (w *wire) dial(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return err
	}
	w.conn = conn
	if w.in == nil {
		w.in = bufio.NewReaderSize(conn, 4096)
	}
	w.in.Reset(conn)
	return nil
}

func (w *wire) close() {
	if w.conn != nil {
		_ = w.conn.Close() // nothing was buffered that could be lost
		w.conn = nil
	}
}

// exchange sends the scratch request and reads its answer. keep says whether
// the connection may be used again.
func (w *wire) exchange() (refused error, keep bool, err error) {
	if err := w.conn.SetDeadline(time.Now().Add(exchangeTimeout)); err != nil {
		return nil, false, err
	}
	if _, err := w.conn.Write(w.request); err != nil {
		return nil, false, fmt.Errorf("write request: %w", err)
	}
	a, err := readAnswer(w.in)
	if err != nil {
		return nil, false, fmt.Errorf("read answer: %w", err)
	}
	if a.status/100 != 2 {
		return &statusError{a.status, string(a.body)}, a.keep, nil
	}
	return nil, a.keep, nil
}

// answer is what the generator wants to know of a response.
type answer struct {
	status int
	keep   bool   // the connection stays open
	body   []byte // the first bytes, if the status is not a 2xx
}

var errAnswer = errors.New("not an HTTP/1.1 answer")

// readAnswer reads one response (RFC 9112), its body included, so that the next
// one follows. Bodies have a Content-Length or are chunked: one that lasts until
// the connection closes is an error, as no engine worth measuring sends it.
func readAnswer(in *bufio.Reader) (answer, error) {
	line, err := readLine(in)
	if err != nil {
		return answer{}, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return answer{}, fmt.Errorf("%w: %.40q", errAnswer, line)
	}
	a := answer{keep: true}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil || a.status < 200 {
		return answer{}, fmt.Errorf("%w: %.40q", errAnswer, line)
	}
	size, chunked := -1, false
	for {
		if line, err = readLine(in); err != nil {
			return answer{}, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case asciiFold(name, "content-length"):
			if size, err = strconv.Atoi(string(value)); err != nil || size < 0 || size > maxAnswerBytes {
				return answer{}, fmt.Errorf("%w: Content-Length %.40q", errAnswer, value)
			}
		case asciiFold(name, "transfer-encoding"):
			chunked = asciiFold(value, "chunked")
		case asciiFold(name, "connection"):
			a.keep = !asciiFold(value, "close")
		}
	}
	switch {
	case a.status == 204 || a.status == 304:
	case chunked:
		err = a.readChunks(in)
	case size >= 0:
		err = a.take(in, size)
	default:
		err = fmt.Errorf("%w: a body without a length", errAnswer)
	}
	return a, err
}

// readChunks reads a chunked body and its trailer.
func (a *answer) readChunks(in *bufio.Reader) error {
	for total := 0; total <= maxAnswerBytes; {
		line, err := readLine(in)
		if err != nil {
			return err
		}
		digits, _, _ := bytes.Cut(line, []byte(";"))
		size, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 24)
		if err != nil {
			return fmt.Errorf("%w: chunk size %.40q", errAnswer, line)
		}
		if err := a.take(in, int(size)); err != nil {
			return err
		}
		// After a chunk comes an empty line; after the last one a trailer, which
		// ends with an empty line as well.
		for {
			if line, err = readLine(in); err != nil {
				return err
			}
			if len(line) == 0 {
				break
			}
		}
		if size == 0 {
			return nil
		}
		total += int(size)
	}
	return fmt.Errorf("%w: over %d bytes", errAnswer, maxAnswerBytes)
}

// take reads n bytes of the body, and keeps the first of a failure's.
func (a *answer) take(in *bufio.Reader, n int) error {
	if keep := min(n, keptAnswerBytes-len(a.body)); a.status/100 != 2 && keep > 0 {
		head := make([]byte, keep)
		if _, err := io.ReadFull(in, head); err != nil {
			return err
		}
		a.body, n = append(a.body, head...), n-keep
	}
	_, err := in.Discard(n)
	return err
}

// readLine returns the next line without its end. It is valid until the next read.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// asciiFold reports whether b is lower, which is in lower case, in any case.
func asciiFold(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}

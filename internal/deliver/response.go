package deliver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"sync"

	"github.com/posthaste-dev/posthaste"
)

// workspace is what an attempt works with. Idle connections hold none, so there
// are as many as there are attempts at once.
type workspace struct {
	progress progress

	request []byte // up to its body
	body    []byte // the caller's

	source source
	reader *bufio.Reader
	kept   [posthaste.MaxResponseBodyBytes]byte // most bodies are tiny: only what came is copied out

	hasAnswer  bool // the response has begun
	isReusable bool // the connection
}

const readBufferBytes = 4 << 10 // most responses come in one piece

var workspaces = sync.Pool{New: func() any {
	return &workspace{reader: bufio.NewReaderSize(nil, readBufferBytes)}
}}

// free lets another attempt have w.
func (w *workspace) free() {
	w.body, w.source.conn = nil, nil
	if cap(w.request) > 2*maxInlineBytes {
		w.request = nil
	}
	workspaces.Put(w)
}

// source is what a response is read from, headers within a limit.
type source struct {
	conn net.Conn
	left int
	err  error // that ended it, but for the end of the connection
}

var errHeadersTooLarge = fmt.Errorf("more than %d bytes of headers", maxHeaderBytes)

func (s *source) Read(b []byte) (int, error) {
	if s.left <= 0 {
		s.err = errHeadersTooLarge
		return 0, s.err
	}
	n, err := s.conn.Read(b[:min(len(b), s.left)])
	s.left -= n
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (w *workspace) listen(c net.Conn) {
	w.source = source{conn: c, left: maxHeaderBytes}
	w.reader.Reset(&w.source)
}

// post tells net/http what a response answers. It only reads the method.
var post = &http.Request{Method: http.MethodPost}

// receive reads what is kept of a response, and to its end where that is near.
// Where the parser made nothing of half a line, the error is what cut the line off.
func (w *workspace) receive(p *progress, r *Result) error {
	err := w.readResponse(p, r)
	if err != nil && w.source.err != nil {
		return w.source.err
	}
	return err
}

func (w *workspace) readResponse(p *progress, r *Result) error {
	response, err := http.ReadResponse(w.reader, post) //nolint:bodyclose // see readBody
	// Those that announce another one, whose headers count as its own. 101 is the
	// last thing in HTTP that would be said on the connection.
	for err == nil && response.StatusCode/100 == 1 && response.StatusCode != http.StatusSwitchingProtocols {
		response, err = http.ReadResponse(w.reader, post) //nolint:bodyclose // such a response has no body
	}
	if err != nil {
		return err
	}
	w.source.left = math.MaxInt
	p.step = stepBody
	r.StatusCode = response.StatusCode
	r.RetryAfter = response.Header.Get("Retry-After")
	r.Headers = keepHeaders(response.Header)
	var isWhole bool
	if r.Body, isWhole, err = w.readBody(response.Body); err != nil {
		return err
	}
	// What is buffered now was sent before anybody could have asked for it.
	w.isReusable = isWhole && !response.Close && response.StatusCode >= 200 && w.reader.Buffered() == 0
	return nil
}

// readBody returns the first 16 KiB, and reads on to the end, so that the
// connection can be used again, or to maxDrainBytes. It reports whether it got
// to the end. The body is not closed: that would read all of it.
func (w *workspace) readBody(body io.Reader) (kept []byte, isWhole bool, err error) {
	var n int
	for n < len(w.kept) && err == nil {
		var m int
		m, err = body.Read(w.kept[n:])
		n += m
	}
	if n > 0 {
		kept = bytes.Clone(w.kept[:n])
	}
	for total := n; err == nil && total < maxDrainBytes; {
		var m int
		m, err = body.Read(w.kept[:min(len(w.kept), maxDrainBytes-total)])
		total += m
	}
	if err == io.EOF {
		return kept, true, nil
	}
	return kept, false, err
}

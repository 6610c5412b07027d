package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/posthaste-dev/posthaste/signature"
)

type receiverCommand struct {
	Listen  string   `default:"127.0.0.1:8701" placeholder:"HOST:PORT" help:"Address to listen on. Default: ${default}."`
	Secret  []string `env:"POSTHASTE_RECEIVER_SECRET" sep:"none" placeholder:"whsec_…" help:"The endpoint's secret, to verify signatures with; can be given again, while one is replaced."`
	pattern `embed:""`
	JSON    bool `name:"json" help:"Print JSON, one object a line."`

	SignatureHeader string `placeholder:"NAME" help:"Header of the signature, for an endpoint with the scheme hex. Default: that of the scheme standard."`
	TimestampHeader string `placeholder:"NAME" help:"Header of the timestamp, for an endpoint with the scheme hex."`
}

// Run receives until ctx ends.
func (c *receiverCommand) Run(ctx context.Context, s Streams) error {
	r, err := newReceiver(receiverConfig{
		Secrets: c.Secret, SignatureHeader: c.SignatureHeader, TimestampHeader: c.TimestampHeader,
		Pattern: c.pattern, JSON: c.JSON, Out: s.Stdout,
	})
	if err != nil {
		return usageError{err.Error()}
	}
	listener, err := listen(ctx, c.Listen)
	if err != nil {
		return fmt.Errorf("start the receiver: %w", err)
	}
	_, _ = fmt.Fprintf(s.Stderr, "receiving at http://%s/, %s\n", listener.Addr(), c.pattern)
	return r.serve(ctx, listener)
}

// receiverConfig says how a receiver behaves.
type receiverConfig struct {
	Secrets []string // none verifies nothing

	// SignatureHeader and TimestampHeader are those of the scheme hex. Default: the
	// scheme standard.
	SignatureHeader, TimestampHeader string

	Pattern pattern
	JSON    bool
	Out     io.Writer
}

// receiver is an endpoint for people: it prints each request in one line.
type receiver struct {
	config receiverConfig
	verify func(h http.Header, body []byte, now time.Time) error // nil: nothing to verify with
	draw   func() float64                                        // in [0, 1)

	mu sync.Mutex // one line at a time
}

func newReceiver(config receiverConfig) (*receiver, error) {
	if err := config.Pattern.check(); err != nil {
		return nil, err
	}
	if (config.SignatureHeader == "") != (config.TimestampHeader == "") {
		return nil, errors.New("--signature-header and --timestamp-header belong together: they are the two of the scheme hex")
	}
	r := &receiver{config: config, draw: rand.Float64}
	switch {
	case len(config.Secrets) == 0:
	case config.SignatureHeader != "":
		verifier, err := signature.NewHex(config.Secrets...)
		if err != nil {
			return nil, fmt.Errorf("--secret: %w", err)
		}
		r.verify = func(h http.Header, body []byte, now time.Time) error {
			return verifier.Verify(signature.HexRequest{
				Timestamp: h.Get(config.TimestampHeader), Signature: h.Get(config.SignatureHeader), Body: body,
			}, now)
		}
	default:
		verifier, err := signature.NewStandard(config.Secrets...)
		if err != nil {
			return nil, fmt.Errorf("--secret: %w", err)
		}
		r.verify = verifier.Verify
	}
	return r, nil
}

// serve answers requests until ctx ends. Requests that wait out their delay are
// then cut off: the engine takes that for a failed attempt and tries again.
func (r *receiver) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: r, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("receive: %w", err)
	}
	return nil
}

// arrival is what is told of a request.
type arrival struct {
	At         time.Time `json:"at"`
	Type       string    `json:"type"`
	EventID    string    `json:"event_id"`
	DeliveryID string    `json:"delivery_id"`
	Attempt    int       `json:"attempt"`
	Signature  string    `json:"signature"` // "ok", "not checked", or why it is bad
	Answered   int       `json:"answered"`  // 0: it gets no answer
	Reply      string    `json:"reply"`     // "answered", "hung", "closed"
	BodyBytes  int       `json:"body_bytes"`
	Body       string    `json:"body"` // its beginning
}

// maxReceivedBytes is more than a server can be set to send.
const maxReceivedBytes = 64 << 20

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxReceivedBytes))
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return
	}
	now := time.Now()
	attempt, _ := strconv.Atoi(req.Header.Get("Posthaste-Attempt")) // 0: not from Posthaste
	answer := r.config.Pattern.answer(attempt, r.draw())
	r.print(arrival{
		At:         now.UTC(),
		Type:       req.Header.Get("Posthaste-Event-Type"),
		EventID:    req.Header.Get(signature.HeaderID),
		DeliveryID: req.Header.Get("Posthaste-Delivery-Id"),
		Attempt:    attempt,
		Signature:  r.judge(req.Header, body, now),
		Answered:   answer.status,
		Reply:      answer.reply,
		BodyBytes:  len(body),
		Body:       excerpt(body),
	})
	answer.write(w, req)
}

func (r *receiver) judge(h http.Header, body []byte, now time.Time) string {
	if r.verify == nil {
		return "not checked"
	}
	err := r.verify(h, body, now)
	for _, known := range []error{signature.ErrMismatch, signature.ErrTimestamp, signature.ErrHeader} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func (r *receiver) print(a arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.config.JSON {
		_ = printJSON(r.config.Out, a) // a receiver goes on when nobody reads what it prints
		return
	}
	verdict := map[string]string{
		"ok": "signature ok", "not checked": "signature not checked (no --secret)",
	}[a.Signature]
	if verdict == "" {
		verdict = "signature BAD: " + a.Signature
	}
	reply := a.Reply
	if a.Answered != 0 {
		reply += " " + strconv.Itoa(a.Answered)
	}
	_, _ = fmt.Fprintf(r.config.Out, "%s  %s  %s  %s  attempt %d  %s  %s  %s\n",
		a.At.UTC().Format(clock), printable(a.Type), printable(a.EventID), printable(a.DeliveryID),
		a.Attempt, verdict, reply, a.Body)
}

// excerpt shows the beginning of a body in one line.
func excerpt(body []byte) string {
	const most = 120
	switch {
	case len(body) == 0:
		return "(empty)"
	case !utf8.Valid(body):
		return fmt.Sprintf("(%d bytes, not text)", len(body))
	}
	return shorten(string(body), most)
}

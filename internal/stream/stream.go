// Package stream tells clients what becomes of events, live, as server-sent
// events (https://html.spec.whatwg.org/multipage/server-sent-events.html).
//
// One goroutine for each replica, the tailer, reads the table of changes while clients are
// connected, and hands what it reads to those whom it concerns. A client that
// comes back with the id of the last event it saw reads what it missed itself,
// and then joins the tailer; see docs/adr/0010-changes.md for why nothing is
// missed or told twice in between.
package stream

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// pollEvery is how often the tailer looks for what other replicas have
	// committed. Its own replica's commits wake it.
	pollEvery = 250 * time.Millisecond
	// readGap is the shortest time between two reads that find the end: under load
	// one read then brings several commits.
	readGap = 20 * time.Millisecond
	// retryEvery is how long the tailer waits when the database does not answer.
	retryEvery = time.Second
	// pageRows is how many rows of changes are read at once. A row is a batch of
	// the pipeline, of some 30 to 500 changes under load.
	pageRows = 32
	// catchingUp is how many clients read what they missed at once.
	catchingUp = 8
)

var (
	errClosed = &posthaste.Error{
		Code: posthaste.CodeUnavailable, Message: "the server is stopping", Hint: "connect again after the seconds in Retry-After",
	}
	errAway = &posthaste.Error{
		Code: posthaste.CodeUnavailable, Message: "the database did not answer", Hint: "connect again after the seconds in Retry-After",
	}
)

// Config is what a stream is made of. Store is required.
type Config struct {
	Store store.Changes
	// Log takes a line when the database does not answer. Default: nowhere.
	Log *slog.Logger
	// PingEvery is the time between two signs of life to a client. Default: 15s.
	PingEvery time.Duration
	// WriteTimeout is how long a client may take to read what it is sent. Default: 10s.
	WriteTimeout time.Duration
	// QueueBytes bounds what waits for a client. Default: 1 MiB.
	QueueBytes int
	// Now is the wall clock. Default: time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.PingEvery <= 0 {
		c.PingEvery = 15 * time.Second
	}
	if c.WriteTimeout <= 0 {
		c.WriteTimeout = 10 * time.Second
	}
	if c.QueueBytes <= 0 {
		c.QueueBytes = 1 << 20
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Stream is the stream of one replica. Its methods are safe for concurrent use.
type Stream struct {
	Config
	wake    chan struct{} // holds one hint
	reading chan struct{} // a token for each client that catches up
	closed  chan struct{}
	tailing sync.WaitGroup
	waiting atomic.Int32 // clients, joined or about to: spares commits a lock while there is none

	mu       sync.Mutex
	over     bool                                    // closed
	clients  map[store.TenantNo]map[*client]struct{} // joined; 0: of all tenants
	kinds    [store.ChangeGate + 1]int               // how many of them want a kind
	joining  []*client
	running  bool         // the tailer
	position store.Cursor // what has been handed out
	readAt   time.Time    // when that was read
}

// New makes a stream. It does nothing until a client comes.
func New(cfg Config) *Stream {
	return &Stream{
		Config: cfg.withDefaults(), wake: make(chan struct{}, 1), reading: make(chan struct{}, catchingUp), closed: make(chan struct{}),
		clients: map[store.TenantNo]map[*client]struct{}{},
	}
}

// Clients returns how many clients there are.
func (s *Stream) Clients() int { return int(s.waiting.Load()) }

// Wake says that this replica has committed something.
func (s *Stream) Wake() {
	if s.waiting.Load() == 0 {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Close ends every client's stream, takes no more, and returns when the
// database isn't read any more.
func (s *Stream) Close() {
	s.mu.Lock()
	if !s.over {
		s.over = true
		close(s.closed)
	}
	s.mu.Unlock()
	s.tailing.Wait()
}

// Watch returns the store as one that wakes the stream when it has committed
// something that clients are told of.
func (s *Stream) Watch(db store.Store) store.Store { return watched{Store: db, stream: s} }

type watched struct {
	store.Store
	stream *Stream
}

func (w watched) Accept(ctx context.Context, p store.AcceptParams) (store.Accepted, error) {
	accepted, err := w.Store.Accept(ctx, p)
	w.stream.Wake()
	return accepted, err
}

func (w watched) Settle(ctx context.Context, p store.SettleParams) (store.Settled, error) {
	settled, err := w.Store.Settle(ctx, p)
	w.stream.Wake()
	return settled, err
}

func (w watched) EndDeleted(ctx context.Context, p store.EndDeletedParams) (int, error) {
	ended, err := w.Store.EndDeleted(ctx, p)
	w.stream.Wake()
	return ended, err
}

func (w watched) EndExpired(ctx context.Context, p store.EndExpiredParams) (store.EndedExpired, error) {
	ended, err := w.Store.EndExpired(ctx, p)
	w.stream.Wake()
	return ended, err
}

func (w watched) Skip(ctx context.Context, p store.SkipParams) (store.DeliveryRow, error) {
	row, err := w.Store.Skip(ctx, p)
	w.stream.Wake()
	return row, err
}

func (w watched) AppendChange(ctx context.Context, p store.AppendChangeParams) error {
	err := w.Store.AppendChange(ctx, p)
	w.stream.Wake()
	return err
}

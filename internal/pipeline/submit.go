package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// Submission is an event that asks to be accepted.
type Submission struct {
	Tenant    store.TenantRow
	Event     posthaste.Event // without ID, FanOut and CorrelationID
	Endpoints []posthaste.ID  // only to these and those of UIDs; both empty: to all that subscribe
	UIDs      []string        // owners' own ids of endpoints

	// Content is what tells a repeated event from another one with its idempotency key.
	// Nil: the payload.
	Content []byte

	Namespace int16  // of the idempotency key. Default: the API's
	KeyScope  string // keeps equal keys of one namespace apart, such as those of two sources
	KeepFirst bool   // the same key with another type or bytes is a duplicate too, told apart in the receipt

	// OutboxRow identifies an event that an outbox hands over where it has no idempotency
	// key of its own, which does the same. Zero: it is of no outbox.
	OutboxRow store.Hash
}

// Receipt is what an accepted event is answered with.
type Receipt struct {
	ID         posthaste.ID
	Type       string
	Deliveries int
	Duplicate  bool // an earlier event with the same key, type and bytes stands for it
	Differs    bool // of a duplicate: that event has another type or other bytes
	Spilled    int  // deliveries that found no room in their lane, and wait in the database
}

// submission is one Submission on its way through the committer.
type submission struct {
	Submission
	sum, key store.Hash
	entry    *entry
	together *together       // whom it is stored with; nil where it stands alone
	refusal  error           // why it cannot be stored as things are
	invalid  error           // why it can never be stored
	event    posthaste.Event // with its id
	targets  []*endpoint
	spilled  int                    // targets that could be attempted at once, but for the room
	matched  [2]store.TenantVersion // the routing that targets are of: every tenant's, and the submission's
	leased   []bool                 // parallel to targets: born leased, room reserved
	fate     fate                   // what earlier runs of its batch left open
	givenUp  time.Duration          // uptime at which its sender has waited long enough
	answer   chan Result
	result   Result // the answer, for the sender
}

var errOverloaded = &posthaste.Error{
	Code: posthaste.CodeOverloaded, Message: "the engine has more on its hands than it can store",
	Hint: "try again after the seconds in Retry-After, with the same Idempotency-Key",
}

func unavailable(err error) error {
	return &posthaste.Error{
		Code: posthaste.CodeUnavailable, Message: "the database did not confirm the event",
		Hint: "try again after the seconds in Retry-After, with the same Idempotency-Key", Err: err,
	}
}

// Result is what became of one of several submissions.
type Result struct {
	Receipt Receipt
	Err     error
}

// Accept stores an event with its deliveries and returns once the commit is on
// disk. Errors are *[posthaste.Error]: [posthaste.CodeInvalid] for an unknown endpoint,
// [posthaste.CodeIdempotencyMismatch], [posthaste.CodeOverloaded] and
// [posthaste.CodeUnavailable]. After the last the event may or may not be
// stored; the same call with the same idempotency key finds out.
func (p *Pipeline) Accept(ctx context.Context, in Submission) (Receipt, error) {
	s := newSubmission(in)
	p.submit(ctx, []*submission{s})
	return s.result.Receipt, s.result.Err
}

// AcceptAll stores events in one commit, as far as the database takes them, and
// answers each on its own, in their order. The errors are those of Accept.
func (p *Pipeline) AcceptAll(ctx context.Context, in []Submission) []Result {
	group := make([]*submission, len(in))
	for i := range in {
		group[i] = newSubmission(in[i])
	}
	p.submit(ctx, group)
	out := make([]Result, len(in))
	for i, s := range group {
		out[i] = s.result
	}
	return out
}

func newSubmission(in Submission) *submission {
	in.Namespace = cmp.Or(in.Namespace, store.NamespaceAPI)
	s := &submission{Submission: in, answer: make(chan Result, 1), givenUp: uptime() + acceptPatience}
	s.invalid = posthaste.Invalid(posthaste.ValidateEventHeaders("headers", in.Event.Headers))
	switch { // without a key it can't be taken for another event
	case in.Event.IdempotencyKey != "":
		s.sum, s.key = sumOf(in), keyOf(in)
	case in.OutboxRow != store.Hash{}:
		s.Namespace, s.sum, s.key = store.NamespaceOutbox, sumOf(in), in.OutboxRow
	}
	return s
}

// keyOf hashes an idempotency key with its scope, which has no NUL in it.
func keyOf(in Submission) store.Hash {
	text := in.Event.IdempotencyKey
	if in.KeyScope != "" {
		text = in.KeyScope + "\x00" + text
	}
	h := sha256.Sum256([]byte(text))
	return store.Hash(h[:16])
}

// submit hands a group to the committer, which keeps it together, and waits
// for the answers.
func (p *Pipeline) submit(ctx context.Context, group []*submission) {
	if len(group) == 0 {
		return
	}
	if err := p.acceptable(group[0].Namespace); err != nil {
		p.refuse(group, "unavailable", err)
		return
	}
	p.submitAnyway(ctx, group)
}

// submitAnyway is submit for events of the engine's own, which a replica without the
// role accept may have too.
func (p *Pipeline) submitAnyway(ctx context.Context, group []*submission) {
	size := weightOf(group)
	if !p.load.admit(len(group), size) {
		p.refuse(group, "overloaded", errOverloaded)
		return
	}
	defer p.load.committed(len(group), size)
	if err := p.awake(ctx); err != nil {
		p.refuse(group, "unavailable", unavailable(err))
		return
	}
	if err := p.ensureRouting(ctx, group); err != nil {
		p.refuse(group, "unavailable", unavailable(err))
		return
	}
	select {
	case p.submissions <- group:
	case <-p.acceptClosed:
		p.refuse(group, "unavailable", errStopping)
		return
	}
	for _, s := range group {
		s.result = p.await(s)
		if s.result.Err == nil {
			p.logAccept(ctx, s, s.result.Receipt)
		}
	}
}

// weightOf returns about how much memory a group takes, in bytes.
func weightOf(group []*submission) (n int64) {
	for _, s := range group {
		n += int64(len(s.Event.Payload)) + submissionBytes
		for _, headers := range [][]posthaste.Header{s.Event.Headers, s.Event.SourceHeaders} {
			for _, h := range headers {
				n += int64(len(h.Name) + len(h.Value))
			}
		}
	}
	return n
}

// refuse answers a group that never came to the committer.
func (p *Pipeline) refuse(group []*submission, reason string, err error) {
	p.metrics.Refused.WithLabelValues(reason).Add(float64(len(group)))
	for _, s := range group {
		s.result = Result{Err: err}
	}
}

// await returns the committer's answer. The committer answers everything it
// takes, also when it gives up; only what reached it after its end is left.
func (p *Pipeline) await(s *submission) Result {
	select {
	case a := <-s.answer:
		return a
	case <-p.committerDone:
	}
	select {
	case a := <-s.answer:
		return a
	default:
		return Result{Err: errStopping}
	}
}

// sumOf is what tells a repeated event from another one with its key.
func sumOf(in Submission) store.Hash {
	content := in.Content
	if content == nil {
		content = in.Event.Payload
	}
	h := sha256.New()
	h.Write([]byte(in.Event.Type))
	h.Write([]byte{0})
	h.Write(content)
	var out [sha256.Size]byte
	return store.Hash(h.Sum(out[:0])[:16])
}

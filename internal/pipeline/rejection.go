package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// RejectingAfter is after how many deliveries to a source in a row that could
	// not be verified, none taken between, its operator is told.
	RejectingAfter = 10
	// rejectionsASecond bounds what is kept of a source's rejections: whoever knows
	// its URL can send as many as he likes, and each would be a commit.
	rejectionsASecond = 5
	// rejectedBytesASecond bounds the bodies that are kept whole. Of others only the
	// beginning is kept.
	rejectedBytesASecond = 512 << 10
	rejectionTimeout     = 2 * time.Second
)

// rejectionTally is what a replica remembers of the rejections of a source.
type rejectionTally struct {
	mu      sync.Mutex
	second  time.Duration // uptime at which the present second began
	kept    int           // in it
	bytes   int           // of bodies that were kept whole in it
	skipped int           // since the last one that was kept
	open    bool          // the count in the database is not 0, as far as is known here
	endedAt time.Duration // uptime at which it was set to 0
}

// take reports whether a rejection is kept, for how many it then counts, and how many
// bytes of its body are kept.
func (t *rejectionTally) take(now time.Duration, bodyBytes int) (count, keptBytes int, keep bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.second == 0 || now-t.second >= time.Second {
		t.second, t.kept, t.bytes = now, 0, 0
	}
	if t.kept == rejectionsASecond {
		t.skipped++
		return 0, 0, false
	}
	keptBytes = bodyBytes
	if bodyBytes > posthaste.MaxRejectionBodyBytes || t.bytes+bodyBytes > rejectedBytesASecond {
		keptBytes = min(bodyBytes, posthaste.MaxShownBodyBytes)
	}
	t.bytes += keptBytes
	count = t.skipped + 1
	t.kept, t.skipped, t.open = t.kept+1, 0, true
	return count, keptBytes, true
}

// keeps reports whether the next rejection would be kept.
func (t *rejectionTally) keeps(now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.second == 0 || now-t.second >= time.Second || t.kept < rejectionsASecond
}

// end reports whether the count in the database is to be set back.
func (t *rejectionTally) end(known *KnownSource, now time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skipped = 0
	if !t.open && (known.Row.Rejected == 0 || known.readAt <= t.endedAt) {
		return false
	}
	t.open, t.endedAt = false, now
	return true
}

// KeepsRejection reports whether Reject would keep a rejection now, so that a diagnosis
// which nobody would see is not made.
func (p *Pipeline) KeepsRejection(known *KnownSource) bool {
	return p.sources.slot(known.Row.ID).rejections.keeps(uptime())
}

// Reject keeps a delivery to a source that could not be verified, for its owner to
// look at. It keeps some of many, and tells the operator when a source has taken
// nothing for long. The sender is answered the same whatever becomes of it.
func (p *Pipeline) Reject(ctx context.Context, known *KnownSource, r posthaste.Rejection) {
	count, bodyBytes, keep := p.sources.slot(known.Row.ID).rejections.take(uptime(), len(r.Body))
	if !keep {
		return
	}
	r.Body = r.Body[:bodyBytes]
	r.ID = p.ids.Mint(p.clock.Now())
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), rejectionTimeout)
	defer cancel()
	inARow, err := p.store.AddRejection(call, store.AddRejectionParams{
		Source: known.Row.No, Rejection: r, Count: count, Keep: posthaste.MaxRejections,
	})
	switch {
	case errors.Is(err, store.ErrNotFound): // deleted meanwhile
	case err != nil:
		p.log.WarnContext(ctx, "a rejection was not kept", "source_id", known.Row.ID.Print(posthaste.KindSource), "err", err)
	case inARow >= RejectingAfter && inARow-count < RejectingAfter:
		p.announceRejecting(ctx, known, r, inARow)
	}
}

// announceRejecting tells the operator of a source that rejects all it gets: most
// often its secret was changed at the provider, and not here.
func (p *Pipeline) announceRejecting(ctx context.Context, known *KnownSource, last posthaste.Rejection, inARow int) {
	id := known.Row.ID.Print(posthaste.KindSource)
	p.log.WarnContext(ctx, "a source rejects all that comes", "source_id", id,
		"tenant", known.Tenant.Name, "provider", known.Row.Provider, "rejected", inARow, "reason", last.Reason, "detail", last.Detail)
	p.Announce("source.rejecting", map[string]any{
		"source_id": id, "name": known.Row.Name, "provider": known.Row.Provider, "tenant": known.Tenant.Name,
		"rejected_in_a_row": inARow, "reason": last.Reason, "detail": last.Detail, "hint": last.Hint, "at": last.At(),
	})
}

// Verified ends the rejections in a row of a source: it has taken a delivery.
func (p *Pipeline) Verified(ctx context.Context, known *KnownSource) {
	if !p.sources.slot(known.Row.ID).rejections.end(known, uptime()) {
		return
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), rejectionTimeout)
	defer cancel()
	if err := p.store.EndRejections(call, known.Row.No); err != nil {
		p.log.WarnContext(ctx, "the rejections in a row of a source were not ended", "source_id", known.Row.ID.Print(posthaste.KindSource), "err", err)
	}
}

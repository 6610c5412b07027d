package pipeline

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// sourceFresh is how long a source that was read counts: one look a second at
	// each source that is in use, and none while nothing comes in. With the time of a look, a change holds on every
	// replica within 2 s.
	sourceFresh   = time.Second
	sourceTimeout = time.Second
	// maxKnownSources bounds what is remembered; ids that nobody has count too.
	maxKnownSources = 10_000
)

// KnownSource is a source as a delivery finds it: not to be changed.
type KnownSource struct {
	Row    store.SourceRow
	Secret SourceSecrets
	Tenant store.TenantRow
	readAt time.Duration // uptime
}

// knownSources are the sources that were asked for lately. Unlike endpoints they
// are no part of the routing that a heartbeat brings up to date: a replica that
// only takes deliveries need not beat to notice a change.
type knownSources struct {
	mu   sync.Mutex
	byID map[posthaste.ID]*sourceSlot
}

// sourceSlot is the place of one source, or of an id that none has.
type sourceSlot struct {
	looking  sync.Mutex // one look at a time; the others wait for it
	failure  error      // of the last look, under looking
	failedAt time.Duration
	mu       sync.Mutex
	known    *KnownSource // nil: there is none
	readAt   time.Duration
	read     bool

	rejections rejectionTally
}

func (k *knownSources) slot(id posthaste.ID) *sourceSlot {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = map[posthaste.ID]*sourceSlot{}
	}
	if len(k.byID) >= maxKnownSources {
		k.makeRoom()
	}
	s := k.byID[id]
	if s == nil {
		s = &sourceSlot{}
		k.byID[id] = s
	}
	return s
}

// makeRoom forgets the ids that no source has, since anybody can make those up: the
// tally of a source's rejections is not to begin anew for their sake. Where that is not
// enough it forgets all, and whoever is in use is read again.
func (k *knownSources) makeRoom() {
	maps.DeleteFunc(k.byID, func(_ posthaste.ID, s *sourceSlot) bool {
		known, _ := s.fresh()
		return known == nil
	})
	if len(k.byID) > maxKnownSources/2 {
		clear(k.byID)
	}
}

// forget lets the next delivery read a source anew. A look that is under way
// fills a slot that nobody finds any more.
func (k *knownSources) forget(id posthaste.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.byID, id)
}

// fresh returns what the slot holds, if that was read lately enough.
func (s *sourceSlot) fresh() (known *KnownSource, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known, s.read && uptime()-s.readAt < sourceFresh
}

// Source returns the source that has an id, of whatever tenant, as it was at most
// a second ago. [store.ErrNotFound] where there is none or its tenant is deleted;
// a secret that can't be opened, and a database that is away, are our own failures.
func (p *Pipeline) Source(ctx context.Context, id posthaste.ID) (*KnownSource, error) {
	slot := p.sources.slot(id)
	known, ok := slot.fresh()
	if !ok {
		var err error
		if known, err = p.lookAtSource(ctx, slot, id, uptime()); err != nil {
			return nil, err
		}
	}
	if known == nil {
		return nil, store.ErrNotFound
	}
	return known, nil
}

// lookAtSource reads a source into its slot, one caller at a time. Those who have waited since
// before a look failed share the failure: with the database away each of them would
// wait for all who came before him.
func (p *Pipeline) lookAtSource(ctx context.Context, slot *sourceSlot, id posthaste.ID, asked time.Duration) (*KnownSource, error) {
	slot.looking.Lock()
	defer slot.looking.Unlock()
	if known, ok := slot.fresh(); ok {
		return known, nil
	}
	if slot.failure != nil && slot.failedAt > asked {
		return nil, slot.failure
	}
	known, err := p.lookUpSource(ctx, id)
	if slot.failure = err; err != nil {
		slot.failedAt = uptime()
		return nil, err
	}
	slot.mu.Lock()
	defer slot.mu.Unlock()
	slot.known, slot.read = known, true
	if slot.readAt = uptime(); known != nil {
		slot.readAt = known.readAt
	}
	return known, nil
}

// lookUpSource reads a source, nil where there is none.
func (p *Pipeline) lookUpSource(ctx context.Context, id posthaste.ID) (*KnownSource, error) {
	// The look is the others' too, who wait for it: it does not end with this request.
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), sourceTimeout)
	defer cancel()
	known := &KnownSource{readAt: uptime()}
	var err error
	if known.Row, err = p.store.Source(call, 0, id); err == nil {
		known.Secret, err = p.OpenSource(known.Row)
	}
	name := ""
	if err == nil {
		name, err = p.routing.tenantName(call, known.Row.Tenant)
	}
	if err == nil {
		known.Tenant, err = p.routing.tenant(call, name)
	}
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && !known.Tenant.DeletedAt.IsZero():
		return nil, nil //nolint:nilnil // an absent source is an answer, and is remembered
	case err != nil:
		return nil, err
	}
	return known, nil
}

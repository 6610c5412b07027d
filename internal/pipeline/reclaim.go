package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// silence is how long another replica's beat must stand still before its work
	// is taken over, and how long our own beats must have been unbroken: after an
	// outage of the database everybody's beats are old, and nobody is dead.
	silence = 15 * time.Second
	// forgetAfter is when the row of a replica that ended while asleep is removed.
	// One that lives after all takes a new epoch when it wakes.
	forgetAfter = 24 * time.Hour
	// sightings is how often the unchanged beat must have been read meanwhile.
	sightings = 3
)

// sighting is what was seen of another replica. Values are compared, never
// clocks.
type sighting struct {
	beatAt time.Time
	since  time.Duration // sinceBoot when this beat was first read
	reads  int
	busy   bool
	tried  time.Duration // sinceBoot when a reclaim was tried last
}

// lookAround notes the beats of the other replicas, decides who leads, and
// reclaims the work of those that have fallen silent.
func (p *Pipeline) lookAround(ctx context.Context, replicas []store.Replica) {
	now, at := sinceBoot(), p.clock.Now()
	l := p.life
	l.mu.Lock()
	seen := map[store.Epoch]*sighting{}
	var silent []store.Replica
	leader := true
	peers, rank := 1, 0
	for _, r := range replicas {
		if r.Epoch == l.epoch {
			continue
		}
		if r.Busy && r.Delivers {
			peers++
			if r.Epoch < l.epoch {
				rank++
			}
		}
		s := l.others[r.Epoch]
		if s == nil || !s.beatAt.Equal(r.BeatAt) {
			s = &sighting{beatAt: r.BeatAt, since: now}
		}
		s.reads++
		s.busy = r.Busy
		seen[r.Epoch] = s
		dead := r.Busy && now-s.since >= silence && s.reads >= sightings && l.unbroken != 0 && now-l.unbroken >= silence
		gone := !r.Busy && at.Sub(r.BeatAt) > forgetAfter // it went while asleep, and holds nothing
		if (dead || gone) && (s.tried == 0 || now-s.tried >= silence) {
			s.tried = now // a try that fails is repeated after another silence
			silent = append(silent, r)
		}
		if r.Epoch < l.epoch && now-s.since < silence {
			leader = false
		}
	}
	l.others, l.peers, l.rank = seen, peers, rank
	if leader != l.leader {
		p.log.InfoContext(ctx, "chores", "epoch", l.epoch, "leader", leader)
	}
	l.leader = leader
	l.mu.Unlock()
	p.metrics.Leader.Set(map[bool]float64{true: 1}[leader])
	p.waker.company(len(replicas) - 1)
	for _, r := range silent {
		p.tasks.Go(func() { p.reclaim(ctx, r) }) // not here: a large reclaim must not hold up our own beat
	}
}

// reclaim takes over what a silent replica held: each attempt number is
// recorded as lost, and the deliveries are due.
func (p *Pipeline) reclaim(ctx context.Context, dead store.Replica) {
	ctx, cancel := p.withinGrace(ctx, 30*time.Second)
	defer cancel()
	now := p.clock.Now()
	got, err := p.store.Reclaim(ctx, store.ReclaimParams{Dead: dead.Epoch, SeenBeatAt: dead.BeatAt, Now: now})
	switch {
	case errors.Is(err, store.ErrConflict): // it lives, or another replica was faster
		return
	case err != nil:
		p.log.ErrorContext(ctx, "reclaim failed", "dead", dead.Name, "dead_epoch", dead.Epoch, "err", err)
		return
	}
	p.metrics.Lost.WithLabelValues("reclaim").Add(float64(got.Deliveries))
	p.log.WarnContext(ctx, "reclaimed", "dead", dead.Name, "dead_epoch", dead.Epoch, "deliveries", got.Deliveries)
	for _, ep := range got.Endpoints {
		p.agenda.note(ep, now, now)
		p.waker.wake(ep)
	}
}

func (p *Pipeline) isLeader() bool {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	return p.life.leader
}

// share returns this replica's part of n that the working replicas divide among
// them, 1 at least.
func (l *life) share(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	peers := max(1, l.peers)
	part := n / peers
	if l.rank < n%peers {
		part++
	}
	return max(1, part)
}

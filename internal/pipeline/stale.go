package pipeline

import (
	"context"
	"slices"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// Submissions of a tenant whose routing is not up to date leave the committer until it
// is: its load may take long, and the other tenants' events must not wait for it.

// ensureRouting waits until the routing that a group is matched against is in memory.
func (p *Pipeline) ensureRouting(ctx context.Context, group []*submission) error {
	ctx, cancel := context.WithTimeout(ctx, acceptPatience)
	defer cancel()
	if _, err := p.routing.ensure(ctx, store.EveryTenant); err != nil {
		return err
	}
	for i, s := range group {
		if i > 0 && group[i-1].Tenant.No == s.Tenant.No {
			continue
		}
		if _, err := p.routing.ensure(ctx, s.Tenant.No); err != nil {
			return err
		}
	}
	return nil
}

// leaveUnloaded takes those submissions out of a batch whose routing is not in memory,
// and returns the others.
func (p *Pipeline) leaveUnloaded(batch []*submission, f fate) []*submission {
	var missing []store.TenantVersion
	look := func(no store.TenantNo) {
		v := store.TenantVersion{Tenant: no, Version: store.NoVersion}
		if p.routing.of(no) == nil && !slices.Contains(missing, v) {
			missing = append(missing, v)
		}
	}
	look(store.EveryTenant)
	for i, s := range batch {
		if i == 0 || batch[i-1].Tenant.No != s.Tenant.No {
			look(s.Tenant.No)
		}
	}
	if len(missing) == 0 {
		return batch
	}
	return p.leaveStale(batch, missing, f)
}

// leaveStale takes the submissions of tenants at other versions out of a batch, and
// returns the others. The former come back once their routing is up to date.
func (p *Pipeline) leaveStale(batch []*submission, versions []store.TenantVersion, f fate) []*submission {
	stale := map[store.TenantNo][]*submission{}
	for _, v := range versions {
		stale[v.Tenant] = nil
	}
	_, all := stale[store.EveryTenant]
	var rest []*submission
	for _, s := range batch {
		if _, is := stale[s.Tenant.No]; is || all {
			stale[s.Tenant.No] = append(stale[s.Tenant.No], s)
		} else {
			rest = append(rest, s)
		}
	}
	for no, group := range stale {
		if len(group) == 0 {
			continue
		}
		rounds := []*round{p.routing.ask(no)}
		if all {
			rounds = append(rounds, p.routing.ask(store.EveryTenant))
		}
		p.tasks.Go(func() { p.comeBack(group, rounds, f) })
	}
	return rest
}

// comeBack waits until the routing of a group is up to date and hands the group to the
// committer again. Those that run out of patience meanwhile are answered.
func (p *Pipeline) comeBack(group []*submission, rounds []*round, f fate) {
	for _, s := range group {
		p.unreserve(s)
		s.fate = f
	}
	ctx, cancel := context.WithTimeout(p.starting, max(0, group[0].givenUp-uptime()))
	defer cancel()
	for _, of := range rounds {
		if err := p.routing.wait(ctx, of); err != nil {
			p.giveUp(group, f, unavailable(err))
			return
		}
	}
	select {
	case p.submissions <- group:
	case <-p.committerDone:
		p.giveUp(group, f, errStopping)
	}
}

// byFate parts a batch where some submissions may be stored already and others can't be.
// Those that are stored together have one fate.
func byFate(batch []*submission) [][]*submission {
	if !slices.ContainsFunc(batch, func(s *submission) bool { return s.fate != batch[0].fate }) {
		return [][]*submission{batch}
	}
	parts := make([][]*submission, 2)
	for _, s := range batch {
		parts[s.fate] = append(parts[s.fate], s)
	}
	return parts
}

// refreshBriefly brings tenants up to date whose endpoints a claim took work of, unless
// that takes long: the sweep serves all tenants.
func (p *Pipeline) refreshBriefly(ctx context.Context, newer []store.TenantVersion) {
	ctx, cancel := context.WithTimeout(ctx, 2*briefWait)
	defer cancel()
	if err := p.routing.refresh(ctx, newer); err != nil {
		p.log.WarnContext(ctx, "claim: changed endpoints are not loaded yet", "err", err)
	}
}

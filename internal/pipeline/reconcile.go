package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// reconcileStep is how many deliveries one statement looks at.
	reconcileStep = 5000
	// reconcileLag keeps the walk behind what is just being accepted.
	reconcileLag = 5 * time.Second
	// reconcileRest is the pause between steps: a backstop is in no hurry.
	reconcileRest = 20 * time.Millisecond
)

// requestReconcile asks for a walk soon.
func (p *Pipeline) requestReconcile() { poke(p.reconcileSoon) }

// reconcile gives every pending delivery that nothing would find a due row. It
// is the backstop of all other ways: in a healthy system it repairs nothing. A replica
// that does not lead only looks for leases of its own that memory has forgotten, which
// nobody else can tell.
//
//nolint:revive // leads is a fact about the replica
func (p *Pipeline) reconcile(ctx context.Context, leads bool) error {
	began := time.Now()
	mine := map[store.Epoch][]store.HeldLease{}
	now := p.clock.Now()
	repaired, dead, err := p.walk(ctx, leads, posthaste.ID{}, posthaste.FloorID(now.Add(-reconcileLag)), mine)
	if err == nil { // ids that were minted while a clock was ahead
		n, d, aheadErr := p.walk(ctx, leads, posthaste.FloorID(now.Add(reconcileLag)), posthaste.MaxID, mine)
		repaired, dead, err = repaired+n, dead+d, aheadErr
	}
	p.metrics.Repaired.Add(float64(repaired))
	if repaired > 0 || dead > 0 {
		p.log.WarnContext(ctx, "reconciled", "repaired", repaired, "dead_rows", dead, "took", time.Since(began))
	}
	if err == nil && leads {
		err = p.pullBack(ctx)
	}
	if err != nil {
		return err
	}
	return p.revokeMine(ctx, mine)
}

// walk looks at the deliveries in [from, to).
func (p *Pipeline) walk(ctx context.Context, leads bool, from, to posthaste.ID, mine map[store.Epoch][]store.HeldLease) (repaired, dead int, err error) {
	for {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		found, err := p.store.FindStranded(call, store.FindStrandedParams{From: from, To: to, Limit: reconcileStep})
		cancel()
		if err != nil {
			return repaired, dead, fmt.Errorf("look for stranded deliveries: %w", err)
		}
		dead += found.Dead
		n, err := p.repair(ctx, leads, found.Deliveries, mine)
		if err != nil {
			return repaired, dead, err
		}
		repaired += n
		if from = found.Next; from.IsZero() {
			return repaired, dead, nil
		}
		p.pause(ctx, reconcileRest)
	}
}

// repair repairs what no living replica owns, and notes in mine what this
// replica owns without knowing it.
func (p *Pipeline) repair(ctx context.Context, leads bool, found []store.StrandedDelivery, mine map[store.Epoch][]store.HeldLease) (int, error) {
	var stranded []store.StrandedDelivery
	for _, d := range found {
		switch {
		case !d.Living && leads:
			stranded = append(stranded, d)
		case d.Living && d.Owner == p.epoch() && !p.lanes.holds(d.Delivery):
			mine[d.Owner] = append(mine[d.Owner], store.HeldLease{Delivery: d.Delivery, DueAt: d.DueAt})
		}
	}
	if len(stranded) == 0 {
		return 0, nil
	}
	now := p.clock.Now()
	n, err := p.store.RepairStranded(ctx, store.RepairStrandedParams{Deliveries: stranded, Now: now})
	if err != nil {
		return 0, fmt.Errorf("repair stranded deliveries: %w", err)
	}
	for _, d := range stranded {
		at := d.DueAt
		if d.Owner != 0 || at.IsZero() {
			at = now
		}
		p.agenda.note(d.Endpoint, at, now)
		p.waker.wake(d.Endpoint)
	}
	return n, nil
}

// revokeMine revokes leases of ours that memory still doesn't know after longer
// than a claim takes.
func (p *Pipeline) revokeMine(ctx context.Context, mine map[store.Epoch][]store.HeldLease) error {
	if len(mine) > 0 {
		p.pause(ctx, maxClaimTime)
	}
	for epoch, leases := range mine {
		n, err := p.revokeForgotten(ctx, epoch, leases)
		p.metrics.Lost.WithLabelValues("reconcile").Add(float64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// claimLost notes a claim whose answer did not come: it may have taken rows that
// nobody works on. Until an audit has looked, there is no rest.
func (p *Pipeline) claimLost() {
	p.claimsLost.Add(1)
	poke(p.auditSoon)
}

// runAudit compares the due rows that are ours in the database with what memory
// knows, once a minute and after a claim whose answer was lost.
func (p *Pipeline) runAudit(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-p.auditSoon:
			p.pause(ctx, maxClaimTime) // the statement may still be under way
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		lost := p.claimsLost.Load()
		if p.rest.is(asleep) {
			continue // nothing is claimed
		}
		err := p.audit(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			p.claimsLost.Add(-lost)
		case lost > 0:
			poke(p.auditSoon)
		}
		if err != nil {
			p.log.WarnContext(ctx, "audit of claimed work interrupted", "err", err)
		}
	}
}

func (p *Pipeline) audit(ctx context.Context) error {
	epoch := p.epoch()
	first, err := p.unknownDue(ctx, epoch)
	if err != nil || len(first) == 0 {
		return err
	}
	p.pause(ctx, maxClaimTime) // the answer to a claim may still be under way
	again, err := p.unknownDue(ctx, epoch)
	if err != nil {
		return err
	}
	var forgotten []store.HeldLease
	for _, k := range again {
		if slices.Contains(first, k) {
			forgotten = append(forgotten, store.HeldLease{Delivery: k.Delivery, DueAt: k.DueAt})
		}
	}
	n, err := p.revokeForgotten(ctx, epoch, forgotten)
	p.metrics.Lost.WithLabelValues("audit").Add(float64(n))
	return err
}

// unknownDue lists the due rows of the epoch that memory does not know.
func (p *Pipeline) unknownDue(ctx context.Context, epoch store.Epoch) (unknown []store.DueKey, err error) {
	var after store.DueKey
	for {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		page, err := p.store.OwnedDue(call, store.OwnedDueParams{Epoch: epoch, After: after, Limit: reconcileStep})
		cancel()
		if err != nil {
			return nil, fmt.Errorf("list claimed work: %w", err)
		}
		for _, k := range page {
			if !p.lanes.holds(k.Delivery) {
				unknown = append(unknown, k)
			}
		}
		if len(page) < reconcileStep {
			return unknown, nil
		}
		after = page[len(page)-1]
	}
}

package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// routingTimeout bounds one page of a load. A page that took longer is asked for
	// again with fewer endpoints.
	routingTimeout = 5 * time.Second
	// firstPage and maxPage bound the endpoints of a page. The pages that follow are as
	// large as can be read within pageTime.
	firstPage = 250
	maxPage   = 4000
	pageTime  = 100 * time.Millisecond
	// pagesAtOnce bounds the pages that are read at once. Loads take turns page by page, so
	// a small tenant does not wait for a large one.
	pagesAtOnce = 2
	// loadPatience bounds the wait for a load where the caller has no deadline.
	loadPatience = 5 * time.Second
	// briefWait is how long loops that serve others wait for a load.
	briefWait = 250 * time.Millisecond
)

var errStillLoading = fmt.Errorf("the endpoints of the tenant are still being loaded: %w", store.ErrUnavailable)

// tenantLoad brings one tenant up to date, round after round while somebody asks. A round
// that began after a change was committed includes it.
type tenantLoad struct {
	began time.Duration // uptime
	next  *round        // the round that has not begun
	asked bool          // somebody waits for it
	owned []store.EndpointNo
}

type round struct {
	done chan struct{}
	err  error // set before done is closed
}

func newRound() *round { return &round{done: make(chan struct{})} }

// building is a load of a whole tenant on its way, which survives an interruption.
type building struct {
	mark      store.RoutingMark // of the first page
	name      string
	deletedAt time.Time
	begun     bool
	next      store.RoutingCursor
	endpoints []*endpoint
	size      pageSize
}

// loadOf returns the load of a tenant, started if need be. r.mu is held.
func (r *routing) loadOf(tenant store.TenantNo) *tenantLoad {
	l := r.loads[tenant]
	if l == nil {
		l = &tenantLoad{began: uptime(), next: newRound(), asked: true}
		r.loads[tenant] = l
		r.spawn(func() { r.run(tenant, l) })
	}
	return l
}

// ask begins a round of a tenant's load and returns it.
func (r *routing) ask(tenant store.TenantNo) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.loadOf(tenant)
	l.asked = true
	return l.next
}

func (r *routing) run(tenant store.TenantNo, l *tenantLoad) {
	for {
		r.mu.Lock()
		if !l.asked {
			delete(r.loads, tenant)
			for _, no := range l.owned {
				delete(r.owners, no)
			}
			r.mu.Unlock()
			return
		}
		now := l.next
		l.next, l.asked = newRound(), false
		r.mu.Unlock()
		began := uptime()
		now.err = r.bringUpToDate(tenant)
		if took := uptime() - began; took > routingTimeout {
			r.log.Warn("a tenant's endpoints took long to load", "tenant_no", tenant, "took", took, "err", now.err)
		}
		close(now.done)
	}
}

// wait returns when a round is over. Its error is why the routes are not up to date.
func (r *routing) wait(ctx context.Context, of *round) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, loadPatience)
		defer cancel()
	}
	select {
	case <-of.done:
		return of.err
	case <-ctx.Done():
		return errStillLoading
	case <-r.stopping.Done():
		return errStopping
	}
}

// ensure returns the routes of a tenant, loaded if need be.
func (r *routing) ensure(ctx context.Context, tenant store.TenantNo) (*routes, error) {
	if known := r.of(tenant); known != nil {
		return known, nil
	}
	if err := r.wait(ctx, r.ask(tenant)); err != nil {
		return nil, err
	}
	if known := r.of(tenant); known != nil {
		return known, nil
	}
	return nil, errStillLoading
}

// sync brings a tenant's routes up to the state that the database has now.
func (r *routing) sync(ctx context.Context, tenant store.TenantNo) error {
	return r.wait(ctx, r.ask(tenant))
}

// refresh brings those tenants up to date that are remembered and not at the version
// given, and waits for them as long as ctx allows.
func (r *routing) refresh(ctx context.Context, versions []store.TenantVersion) error {
	var failed error
	for _, of := range r.askAll(versions) {
		if err := r.wait(ctx, of); err != nil {
			failed = err
		}
	}
	return failed
}

// askAll is refresh without the wait.
func (r *routing) askAll(versions []store.TenantVersion) (rounds []*round) {
	for _, v := range versions {
		r.mu.RLock()
		known, name := r.tenants[v.Tenant], r.named[v.Tenant]
		row := r.names[name]
		r.mu.RUnlock()
		switch {
		case known != nil && known.version() != v.Version:
			rounds = append(rounds, r.ask(v.Tenant))
		case known == nil && row.No == v.Tenant && row.RoutingVersion != v.Version:
			r.forgetName(v.Tenant) // only its name is in use: it is looked up again
		}
	}
	return rounds
}

func (r *routing) bringUpToDate(tenant store.TenantNo) error {
	known := r.of(tenant)
	whole := known == nil
	if known != nil {
		mark, _ := known.state()
		whole = mark == store.RoutingMark{}
	}
	for {
		var err error
		if whole {
			var complete bool
			if known, complete, err = r.loadWhole(tenant); err != nil || complete {
				return r.gaveUp(tenant, err)
			}
		}
		if whole, err = r.loadChanges(known); err != nil || !whole {
			return r.gaveUp(tenant, err)
		}
		// The database was restored, or a standby took over that lacks what we have seen.
		r.log.Warn("the database has lost changes of endpoints: loading all of a tenant's again", "tenant", known.name)
		r.forgetName(tenant)
		r.mu.Lock()
		delete(r.partial, tenant)
		r.mu.Unlock()
	}
}

// gaveUp forgets a tenant that does not exist any more.
func (r *routing) gaveUp(tenant store.TenantNo, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		r.forget(tenant)
	}
	if err != nil {
		return fmt.Errorf("load the endpoints of tenant %d: %w", tenant, err)
	}
	return nil
}

// pageSize is how many endpoints a load asks for at once.
type pageSize struct {
	now  int
	most int // below every size that met the time limit
}

func newPageSize() pageSize { return pageSize{now: firstPage, most: maxPage} }

// page reads a page. One that met its time limit is asked for again at a fourth of its
// size, until it is a single endpoint, and no later one is as large.
func (r *routing) page(p store.RoutingParams, size *pageSize) (store.Routing, error) {
	for {
		select {
		case r.pages <- struct{}{}:
		case <-r.stopping.Done():
			return store.Routing{}, errStopping
		}
		p.Limit = size.now
		call, cancel := context.WithTimeout(r.stopping, r.timeout)
		began := uptime()
		got, err := r.store.Routing(call, p)
		took := uptime() - began
		cancel()
		<-r.pages
		switch {
		case err == nil:
			switch full := len(got.Endpoints) == size.now; {
			case full && took < pageTime/2:
				size.now = min(size.now*2, size.most)
			case took > pageTime:
				size.now = max(1, size.now/2)
			}
			return got, nil
		case !errors.Is(err, store.ErrUnavailable) || took < r.timeout/2 || size.now == 1 || r.stopping.Err() != nil:
			return got, err
		}
		size.most, size.now = max(1, size.now/2), max(1, size.now/4)
	}
}

// loadWhole reads all living endpoints of a tenant and puts them in force, as of the
// first page. Unless that was the only one, what changed since has to follow. What was
// read when it fails is kept for the next try.
func (r *routing) loadWhole(tenant store.TenantNo) (_ *routes, complete bool, _ error) {
	r.mu.Lock()
	b := r.partial[tenant]
	if b == nil {
		b = &building{size: newPageSize()}
		r.partial[tenant] = b
	}
	r.mu.Unlock()
	for !b.begun || b.next != (store.RoutingCursor{}) {
		got, err := r.page(store.RoutingParams{Tenant: tenant, After: b.next}, &b.size)
		if err != nil {
			return nil, false, err
		}
		if !b.begun {
			b.begun, b.mark, b.name, b.deletedAt = true, got.Mark, got.Name, got.DeletedAt
			complete = got.Next == store.RoutingCursor{}
		}
		for _, row := range got.Endpoints {
			b.endpoints = append(b.endpoints, r.prepare(row))
		}
		b.next = got.Next
	}
	next := newRoutes(tenant, b.name)
	next.put(b.endpoints)
	next.reach(b.mark, b.deletedAt)
	r.replace(next, b.endpoints)
	return next, complete, nil
}

// loadChanges applies what changed since the routes' mark. It reports whether the
// database does not know that mark.
func (r *routing) loadChanges(known *routes) (unknown bool, err error) {
	size := newPageSize()
	mark, _ := known.state()
	p := store.RoutingParams{Tenant: known.tenant, Since: mark}
	for {
		got, err := r.page(p, &size)
		if err != nil || got.Unknown || got.Name != known.name {
			return err == nil, err
		}
		if !got.DeletedAt.IsZero() { // and all endpoints with it
			next := newRoutes(known.tenant, known.name)
			next.reach(got.Mark, got.DeletedAt)
			r.replace(next, nil)
			return false, nil
		}
		r.apply(known, got.Endpoints)
		if p.After = got.Next; p.After == (store.RoutingCursor{}) {
			known.reach(got.Mark, got.DeletedAt)
			return false, nil
		}
	}
}

// apply puts changed endpoints in force.
func (r *routing) apply(known *routes, rows []store.EndpointRow) {
	if len(rows) == 0 {
		return
	}
	after := make([]*endpoint, len(rows))
	for i, row := range rows {
		after[i] = r.prepare(row)
	}
	known.put(after)
	r.publish(after)
}

// publishStep bounds how many endpoints are entered at once under the lock that
// everything in flight takes.
const publishStep = 500

// publish makes endpoints current, and tells of those that differ from what was.
func (r *routing) publish(list []*endpoint) {
	for len(list) > 0 {
		step := list[:min(publishStep, len(list))]
		list = list[len(step):]
		before := make([]*endpoint, len(step))
		r.mu.Lock()
		for i, e := range step {
			before[i] = r.byNo[e.row.No]
			r.byNo[e.row.No] = e
			if e.deleted() {
				r.gone = append(r.gone, tombstone{e, uptime()})
			}
		}
		for len(r.gone) > 0 && uptime()-r.gone[0].at > tombstoneMemory {
			if e := r.gone[0].endpoint; r.byNo[e.row.No] == e {
				delete(r.byNo, e.row.No)
			}
			r.gone = r.gone[1:]
		}
		r.mu.Unlock()
		for i, e := range step {
			if old := before[i]; old == nil || old.row.Version != e.row.Version || old.row.ID != e.row.ID || !old.row.UpdatedAt.Equal(e.row.UpdatedAt) {
				r.changed(old, e)
			}
		}
	}
}

// replace puts a tenant's routes in force that were loaded as a whole. Endpoints that
// were known and are not among them no longer exist.
func (r *routing) replace(next *routes, endpoints []*endpoint) {
	r.publish(endpoints)
	r.mu.Lock()
	old := r.tenants[next.tenant]
	r.tenants[next.tenant] = next
	if name := r.named[next.tenant]; name != next.name && r.names[name].No == next.tenant {
		delete(r.names, name) // the number was another tenant's before a rewind
	}
	r.named[next.tenant] = next.name
	r.known.add(next.tenant)
	delete(r.partial, next.tenant)
	r.mu.Unlock()
	if old != nil {
		r.bury(old, next)
	}
}

// bury makes tombstones of endpoints that the database does not have any more.
func (r *routing) bury(old, next *routes) {
	var lost []*endpoint
	for _, e := range old.living() {
		if next != nil {
			next.mu.RLock()
			kept := next.byID[e.row.ID]
			next.mu.RUnlock()
			if kept != nil {
				continue
			}
		}
		if r.current(e.row.No) != e { // its number is another one's now
			continue
		}
		row := e.row
		row.Version++
		row.DeletedAt = time.UnixMicro(1)
		lost = append(lost, r.prepare(row))
	}
	r.publish(lost)
}

// forget drops all that is remembered of a tenant that does not exist.
func (r *routing) forget(tenant store.TenantNo) {
	r.forgetName(tenant)
	r.mu.Lock()
	old := r.tenants[tenant]
	delete(r.tenants, tenant)
	delete(r.partial, tenant)
	r.known.remove(tenant)
	r.mu.Unlock()
	if old != nil {
		r.bury(old, nil)
	}
}

// forgetName lets a tenant be looked up by its name again.
func (r *routing) forgetName(tenant store.TenantNo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if name := r.named[tenant]; r.names[name].No == tenant {
		delete(r.names, name)
	}
	delete(r.named, tenant)
	if r.tenants[tenant] == nil {
		r.known.remove(tenant)
	}
}

package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// routing keeps the routes of the tenants in use, and the tenants' names. Routes are
// loaded on first use, and brought up to date whenever an accept, a claim or a
// heartbeat finds a tenant at another version. Loads run beside those who wait for
// them: see routingload.go.
type routing struct {
	store   store.Store
	log     *slog.Logger
	prepare func(store.EndpointRow) *endpoint
	changed func(before, after *endpoint) // before is nil for a new one

	stopping context.Context //nolint:containedctx // ends loads
	spawn    func(func())
	pages    chan struct{} // a token for each page that may be read at once
	timeout  time.Duration // of a page

	mu      sync.RWMutex
	tenants map[store.TenantNo]*routes
	byNo    map[store.EndpointNo]*endpoint
	gone    []tombstone // deleted endpoints in byNo, the oldest first
	names   map[string]store.TenantRow
	named   map[store.TenantNo]string
	known   rotation // tenants of which anything is remembered
	loads   map[store.TenantNo]*tenantLoad
	owners  map[store.EndpointNo]store.TenantNo // of endpoints whose tenant is being loaded
	partial map[store.TenantNo]*building        // loads that were interrupted
	beatNow time.Time                           // the database's clock at the last heartbeat
}

// tombstone is a deleted endpoint that memory keeps for a while: work that was leased
// before the deletion looks for it.
type tombstone struct {
	endpoint *endpoint
	at       time.Duration // uptime
}

// tombstoneMemory is longer than any work is leased without having been started.
const tombstoneMemory = 4 * maxLaneWait

func newRouting(s store.Store, log *slog.Logger, prepare func(store.EndpointRow) *endpoint) *routing {
	return &routing{
		store: s, log: log, prepare: prepare, changed: func(_, _ *endpoint) {},
		stopping: context.Background(), spawn: func(f func()) { go f() }, pages: make(chan struct{}, pagesAtOnce), timeout: routingTimeout,
		tenants: map[store.TenantNo]*routes{}, byNo: map[store.EndpointNo]*endpoint{},
		names: map[string]store.TenantRow{}, named: map[store.TenantNo]string{}, known: newRotation(),
		loads: map[store.TenantNo]*tenantLoad{}, owners: map[store.EndpointNo]store.TenantNo{}, partial: map[store.TenantNo]*building{},
	}
}

// tenant returns a tenant by name. What is remembered of it is checked by the
// heartbeat.
func (r *routing) tenant(ctx context.Context, name string) (store.TenantRow, error) {
	if name == posthaste.TenantAll { // owns endpoints, and is nobody who could send or be sent to
		return store.TenantRow{}, store.ErrNotFound
	}
	r.mu.RLock()
	row, ok := r.names[name]
	routes := r.tenants[row.No]
	r.mu.RUnlock()
	if !ok {
		var err error
		if row, err = r.store.Tenant(ctx, name); err != nil {
			return row, err
		}
		r.remember(row)
		routes = r.of(row.No)
	}
	if routes != nil {
		if mark, deletedAt := routes.state(); mark.Version >= row.RoutingVersion {
			row.DeletedAt = deletedAt
		}
	}
	return row, nil
}

func (r *routing) remember(row store.TenantRow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names[row.Name], r.named[row.No] = row, row.Name
	r.known.add(row.No)
}

// tenantName returns the name of a tenant by its number.
func (r *routing) tenantName(ctx context.Context, no store.TenantNo) (string, error) {
	r.mu.RLock()
	name, ok := r.named[no]
	r.mu.RUnlock()
	if ok {
		return name, nil
	}
	row, err := r.store.TenantByNo(ctx, no)
	if err != nil {
		return "", err
	}
	r.remember(row)
	return row.Name, nil
}

// of returns the routes of a tenant in memory, or nil.
func (r *routing) of(tenant store.TenantNo) *routes {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tenants[tenant]
}

// tenantDeleted reports whether a tenant is known to be deleted.
func (r *routing) tenantDeleted(tenant store.TenantNo) bool {
	known := r.of(tenant)
	if known == nil {
		return false
	}
	_, deletedAt := known.state()
	return !deletedAt.IsZero()
}

// current returns an endpoint as it is in memory, or nil.
func (r *routing) current(no store.EndpointNo) *endpoint {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byNo[no]
}

// endpoint returns an endpoint by number, loading its tenant if need be; nil where
// there is none, or a deleted one that memory has let go.
func (r *routing) endpoint(ctx context.Context, no store.EndpointNo) (*endpoint, error) {
	if e := r.current(no); e != nil {
		return e, nil
	}
	tenant, err := r.ownerOf(ctx, no)
	if err != nil || tenant == 0 {
		return nil, err
	}
	known, err := r.ensure(ctx, tenant)
	if err != nil {
		return nil, err
	}
	if e := r.current(no); e != nil {
		return e, nil
	}
	// Younger than the routes, or deleted meanwhile.
	if err := r.sync(ctx, known.tenant); err != nil {
		return nil, err
	}
	return r.current(no), nil
}

// endpointSoon is endpoint for loops that serve many endpoints: it waits briefly for a
// load of the tenant, and not at all for one that takes longer.
func (r *routing) endpointSoon(ctx context.Context, no store.EndpointNo) (*endpoint, error) {
	r.mu.RLock()
	e, l := r.byNo[no], r.loads[r.owners[no]]
	r.mu.RUnlock()
	if e != nil {
		return e, nil
	}
	if l != nil && uptime()-l.began > briefWait {
		return nil, errStillLoading
	}
	ctx, cancel := context.WithTimeout(ctx, 2*briefWait)
	defer cancel()
	e, err := r.endpoint(ctx, no)
	if err != nil && ctx.Err() != nil {
		err = errStillLoading
	}
	return e, err
}

// ownerOf returns the tenant of an endpoint, 0 where the endpoint is deleted or absent.
func (r *routing) ownerOf(ctx context.Context, no store.EndpointNo) (store.TenantNo, error) {
	r.mu.RLock()
	tenant := r.owners[no]
	r.mu.RUnlock()
	if tenant != 0 {
		return tenant, nil
	}
	row, err := r.store.EndpointByNo(ctx, no)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case !row.DeletedAt.IsZero():
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenants[row.Tenant] == nil { // the end of the load forgets it
		l := r.loadOf(row.Tenant)
		l.owned = append(l.owned, no)
		r.owners[no] = row.Tenant
	}
	return row.Tenant, nil
}

// versionsOf returns the versions in memory of the tenants of these endpoints,
// for a claim to compare.
func (r *routing) versionsOf(wants []store.ClaimWant) []store.TenantVersion {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []store.TenantVersion
	seen := make(map[store.TenantNo]bool, len(wants))
	for _, w := range wants {
		e := r.byNo[w.Endpoint]
		if e == nil || seen[e.row.Tenant] {
			continue
		}
		seen[e.row.Tenant] = true
		if t := r.tenants[e.row.Tenant]; t != nil {
			out = append(out, store.TenantVersion{Tenant: e.row.Tenant, Version: t.version()})
		}
	}
	return sortedVersions(out)
}

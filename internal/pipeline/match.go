package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/gate"
	"github.com/posthaste-dev/posthaste/internal/retry"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// endpoint is one endpoint as it stands in memory: immutable; a change makes a
// new one. Work that was leased under an older version looks here before it starts.
type endpoint struct {
	row       store.EndpointRow
	printed   string   // its id, for the line of each attempt
	signing   *signing // nil for a deleted one
	policy    gate.Policy
	transient retry.StatusSet
	unusable  error     // why there is no signing: a secret that can't be opened
	handlers  *handlers // of this process
}

func (e *endpoint) deleted() bool { return !e.row.DeletedAt.IsZero() }

// open reports whether its owner lets work of the endpoint start now; its gate may
// still say no.
func (e *endpoint) open() bool { return !e.deleted() && !e.row.Paused && !e.row.Disabled }

// ordered reports whether its deliveries are made one at a time, in order.
func (e *endpoint) ordered() bool { return e.row.Ordered == posthaste.OrderedByEndpoint }

// routes is the snapshot of one tenant's endpoints at a routing version.
type routes struct {
	tenant    store.TenantNo
	version   int64
	deletedAt time.Time // of the tenant; zero while it lives
	byNo      map[store.EndpointNo]*endpoint
	byID      map[posthaste.ID]*endpoint
	byUID     map[string]*endpoint // without deleted ones
	ordered   []*endpoint          // by number, without deleted ones
}

// noRoutes is the snapshot of nobody's endpoints.
var noRoutes = &routes{}

// match returns the endpoints an event goes to, of the tenant and of every tenant:
// those named, or those that subscribe to its type and its source. Disabled ones get
// nothing; paused ones get deliveries that wait.
func (r *routes) match(every *routes, in Submission) ([]*endpoint, []posthaste.Problem) {
	var out []*endpoint
	byNo := func(a, b *endpoint) int { return int(a.row.No) - int(b.row.No) }
	if len(in.Endpoints) == 0 && len(in.UIDs) == 0 {
		for _, of := range []*routes{r, every} {
			for _, e := range of.ordered {
				if !e.row.Disabled && e.row.Matches(in.Event.Type, in.Event.Source) {
					out = append(out, e)
				}
			}
		}
		if len(every.ordered) > 0 {
			slices.SortFunc(out, byNo)
		}
		return out, nil
	}
	var problems []posthaste.Problem
	name := func(e *endpoint, text string) {
		switch {
		case e == nil || e.deleted():
			problems = append(problems, posthaste.Problem{
				Field: "Posthaste-Endpoint", Message: fmt.Sprintf("names %s, which this tenant does not have", text),
				Hint: "list the endpoints with GET /v1/endpoints",
			})
		case !e.row.Disabled && !slices.Contains(out, e):
			out = append(out, e)
		}
	}
	for _, id := range in.Endpoints {
		name(cmp.Or(r.byID[id], every.byID[id]), id.Print(posthaste.KindEndpoint))
	}
	for _, uid := range in.UIDs {
		name(cmp.Or(r.byUID[uid], every.byUID[uid]), posthaste.UIDPrefix+uid)
	}
	slices.SortFunc(out, byNo)
	return out, problems
}

// routing keeps the snapshots of the tenants in use, and the tenants' names.
// It is loaded from the store on first use, and again whenever an accept, a claim
// or a heartbeat says that a tenant has moved on.
type routing struct {
	store   store.Store
	prepare func(store.EndpointRow) *endpoint

	mu      sync.RWMutex
	tenants map[store.TenantNo]*routes
	byNo    map[store.EndpointNo]*endpoint
	names   map[string]store.TenantRow
	named   map[store.TenantNo]string
	loading sync.Mutex // one load at a time: a later version is never overwritten by an earlier one

	changed func(before, after *endpoint) // before is nil for a new one
}

func newRouting(s store.Store, prepare func(store.EndpointRow) *endpoint) *routing {
	return &routing{
		store: s, prepare: prepare,
		tenants: map[store.TenantNo]*routes{}, byNo: map[store.EndpointNo]*endpoint{}, names: map[string]store.TenantRow{}, named: map[store.TenantNo]string{},
		changed: func(_, _ *endpoint) {},
	}
}

// tenant returns a tenant by name. Neither its name nor its number ever changes,
// so it is kept; whether it is deleted comes with its routes.
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
		r.mu.Lock()
		r.names[name], r.named[row.No] = row, name
		routes = r.tenants[row.No]
		r.mu.Unlock()
	}
	if routes != nil && routes.version >= row.RoutingVersion {
		row.DeletedAt = routes.deletedAt
	}
	return row, nil
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
	r.mu.Lock()
	r.named[no] = row.Name
	r.mu.Unlock()
	return row.Name, nil
}

// of returns the snapshot of a tenant in memory, or nil.
func (r *routing) of(tenant store.TenantNo) *routes {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tenants[tenant]
}

// tenantDeleted reports whether a tenant is known to be deleted.
func (r *routing) tenantDeleted(tenant store.TenantNo) bool {
	known := r.of(tenant)
	return known != nil && !known.deletedAt.IsZero()
}

// ensure returns the snapshot of a tenant, loaded if need be.
func (r *routing) ensure(ctx context.Context, tenant store.TenantNo) (*routes, error) {
	if known := r.of(tenant); known != nil {
		return known, nil
	}
	return r.load(ctx, store.TenantVersion{Tenant: tenant, Version: -1})
}

// load brings the snapshot of a tenant up to at least the given version.
func (r *routing) load(ctx context.Context, want store.TenantVersion) (*routes, error) {
	r.loading.Lock()
	defer r.loading.Unlock()
	old := r.of(want.Tenant)
	if old != nil && old.version >= want.Version {
		return old, nil
	}
	next := &routes{tenant: want.Tenant, byNo: map[store.EndpointNo]*endpoint{}, byID: map[posthaste.ID]*endpoint{}, byUID: map[string]*endpoint{}}
	if old != nil {
		next.version = old.version
		maps.Copy(next.byNo, old.byNo)
	} else {
		next.version = -1
	}
	call, cancel := context.WithTimeout(ctx, routingTimeout)
	defer cancel()
	news, err := r.store.Routing(call, want.Tenant, next.version)
	if err != nil {
		return nil, fmt.Errorf("load the endpoints of tenant %d: %w", want.Tenant, err)
	}
	next.version, next.deletedAt = news.Version, news.DeletedAt
	var after []*endpoint
	for _, row := range news.Endpoints {
		e := r.prepare(row)
		next.byNo[row.No] = e
		after = append(after, e)
	}
	for _, e := range next.byNo {
		next.byID[e.row.ID] = e
		if !e.deleted() {
			next.ordered = append(next.ordered, e)
			next.byUID[e.row.UID] = e // also under "", which nobody asks for
		}
	}
	slices.SortFunc(next.ordered, func(a, b *endpoint) int { return int(a.row.No) - int(b.row.No) })

	before := make([]*endpoint, len(after))
	r.mu.Lock()
	r.tenants[want.Tenant] = next
	for i, e := range after {
		before[i] = r.byNo[e.row.No]
		r.byNo[e.row.No] = e
	}
	r.mu.Unlock()
	for i, e := range after {
		r.changed(before[i], e)
	}
	return next, nil
}

// routingTimeout bounds a load, which others wait for.
const routingTimeout = 5 * time.Second

// refresh loads every tenant that is said to have moved on.
func (r *routing) refresh(ctx context.Context, newer []store.TenantVersion) error {
	for _, v := range newer {
		if _, err := r.load(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// endpoint returns an endpoint by number, loading its tenant if need be.
func (r *routing) endpoint(ctx context.Context, no store.EndpointNo) (*endpoint, error) {
	if e := r.current(no); e != nil {
		return e, nil
	}
	row, err := r.store.EndpointByNo(ctx, no)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // an absent endpoint is an answer: its work is ended
	}
	if err != nil {
		return nil, err
	}
	known, err := r.ensure(ctx, row.Tenant)
	if err == nil && known.byNo[no] == nil { // younger than the snapshot
		known, err = r.load(ctx, store.TenantVersion{Tenant: row.Tenant, Version: known.version + 1})
	}
	if err != nil {
		return nil, err
	}
	return known.byNo[no], nil
}

// current returns an endpoint as it is in memory, or nil.
func (r *routing) current(no store.EndpointNo) *endpoint {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byNo[no]
}

// versionsOf returns the versions in memory of the tenants of these endpoints,
// for a claim to compare.
func (r *routing) versionsOf(wants []store.ClaimWant) []store.TenantVersion {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var out []store.TenantVersion
	seen := map[store.TenantNo]bool{}
	for _, w := range wants {
		e := r.byNo[w.Endpoint]
		if e == nil || seen[e.row.Tenant] {
			continue
		}
		seen[e.row.Tenant] = true
		if t := r.tenants[e.row.Tenant]; t != nil {
			out = append(out, store.TenantVersion{Tenant: e.row.Tenant, Version: t.version})
		}
	}
	slices.SortFunc(out, func(a, b store.TenantVersion) int { return int(a.Tenant) - int(b.Tenant) })
	return out
}

// versions returns the versions in memory, for a heartbeat to compare: of the
// snapshots, and of tenants that are known by their names alone.
func (r *routing) versions() []store.TenantVersion {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]store.TenantVersion, 0, len(r.tenants))
	for no, t := range r.tenants {
		out = append(out, store.TenantVersion{Tenant: no, Version: t.version})
	}
	for _, row := range r.names {
		if r.tenants[row.No] == nil {
			out = append(out, store.TenantVersion{Tenant: row.No, Version: row.RoutingVersion})
		}
	}
	slices.SortFunc(out, func(a, b store.TenantVersion) int { return int(a.Tenant) - int(b.Tenant) })
	return out
}

// deadlineOf returns when a run that begins now ends.
func (e *endpoint) deadlineOf(now time.Time) time.Time {
	return now.Add(time.Duration(e.row.Retry.Deadline))
}

package pipeline

import (
	"fmt"
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
	row      store.EndpointRow
	printed  string // its id, for the line of each attempt
	policy   gate.Policy
	handlers *handlers // of this process

	// What an attempt needs; see Pipeline.ready. A tenant may have a million endpoints
	// of which a few are ever attempted here.
	prepared  sync.Once
	signing   *signing // nil for a deleted one
	transient retry.StatusSet
	unusable  error // why there is no signing: a secret that can't be opened
}

func (e *endpoint) deleted() bool { return !e.row.DeletedAt.IsZero() }

// open reports whether its owner lets work of the endpoint start now; its gate may
// still say no.
func (e *endpoint) open() bool { return !e.deleted() && !e.row.Paused && !e.row.Disabled }

// ordered reports whether its deliveries are made one at a time, in order.
func (e *endpoint) ordered() bool { return e.row.Ordered == posthaste.OrderedByEndpoint }

// deadlineOf returns when a run that begins now ends.
func (e *endpoint) deadlineOf(now time.Time) time.Time {
	return now.Add(time.Duration(e.row.Retry.Deadline))
}

// routes are the living endpoints of one tenant. A change is applied in place, so its
// cost does not depend on how many others there are. While changes are applied the
// mark is still the old one, which the accepting statement refuses.
type routes struct {
	tenant store.TenantNo
	name   string // of the tenant

	mu        sync.RWMutex
	mark      store.RoutingMark
	deletedAt time.Time // of the tenant; zero while it lives
	byID      map[posthaste.ID]*endpoint
	byUID     map[string]*endpoint
	types     typeIndex // without disabled ones
}

func newRoutes(tenant store.TenantNo, name string) *routes {
	return &routes{tenant: tenant, name: name}
}

// noRoutes are the routes of a tenant without endpoints.
var noRoutes = &routes{}

// state returns the mark that the routes are at, and when the tenant was deleted.
func (r *routes) state() (store.RoutingMark, time.Time) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.mark, r.deletedAt
}

func (r *routes) version() int64 {
	mark, _ := r.state()
	return mark.Version
}

// reach notes that all changes up to a mark are applied.
func (r *routes) reach(mark store.RoutingMark, deletedAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mark, r.deletedAt = mark, deletedAt
}

// put replaces endpoints by what they are now; deleted ones leave.
func (r *routes) put(list []*endpoint) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID == nil {
		r.byID, r.byUID = make(map[posthaste.ID]*endpoint, len(list)), map[string]*endpoint{}
	}
	for _, e := range list {
		r.putOne(e)
	}
}

func (r *routes) putOne(e *endpoint) {
	if old := r.byID[e.row.ID]; old != nil {
		delete(r.byID, e.row.ID)
		if r.byUID[old.row.UID] == old {
			delete(r.byUID, old.row.UID)
		}
		if !old.row.Disabled {
			r.types.remove(old)
		}
	}
	if e.deleted() {
		return
	}
	r.byID[e.row.ID] = e
	if e.row.UID != "" {
		r.byUID[e.row.UID] = e
	}
	if !e.row.Disabled {
		r.types.add(e)
	}
}

// living returns the endpoints, in no order.
func (r *routes) living() []*endpoint {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := make([]*endpoint, 0, len(r.byID))
	for _, e := range r.byID {
		out = append(out, e)
	}
	return out
}

// matched are the endpoints that an event goes to, and the state of the routing that
// they were found in.
type matched struct {
	targets         []*endpoint // by number
	problems        []posthaste.Problem
	version         int64     // of the tenant's routes
	every           int64     // of every tenant's
	tenantDeletedAt time.Time // zero while the tenant lives
}

// match returns the endpoints an event goes to, of the tenant and of every tenant:
// those named, or those that subscribe to its type and its source. Disabled ones get
// nothing; paused ones get deliveries that wait. Events of the operator are for its own
// endpoints only: a handler of every tenant that fails must not be told of itself.
func (r *routes) match(every *routes, in Submission) (m matched) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	every.mu.RLock()
	defer every.mu.RUnlock()
	m.version, m.every, m.tenantDeletedAt = r.mark.Version, every.mark.Version, r.deletedAt
	if in.Tenant.Name == posthaste.TenantOperator {
		every = noRoutes
	}
	if len(in.Endpoints) == 0 && len(in.UIDs) == 0 {
		m.targets = r.types.find(nil, in.Event.Type, in.Event.Source)
		own := len(m.targets)
		m.targets = every.types.find(m.targets, in.Event.Type, in.Event.Source)
		if own > 0 && len(m.targets) > own {
			slices.SortFunc(m.targets, byNo)
		}
		return m
	}
	name := func(e *endpoint, text string) {
		switch {
		case e == nil:
			m.problems = append(m.problems, posthaste.Problem{
				Field: "Posthaste-Endpoint", Message: fmt.Sprintf("names %s, which this tenant does not have", text),
				Hint: "list the endpoints with GET /v1/endpoints",
			})
		case !e.row.Disabled && !slices.Contains(m.targets, e):
			m.targets = append(m.targets, e)
		}
	}
	for _, id := range in.Endpoints {
		e := r.byID[id]
		if e == nil {
			e = every.byID[id]
		}
		name(e, id.Print(posthaste.KindEndpoint))
	}
	for _, uid := range in.UIDs {
		e := r.byUID[uid]
		if e == nil {
			e = every.byUID[uid]
		}
		name(e, posthaste.UIDPrefix+uid)
	}
	slices.SortFunc(m.targets, byNo)
	return m
}

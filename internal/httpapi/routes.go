package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/auth"
)

// access says who may use a route.
type access int8

const (
	open       access = iota // anybody
	anyKey                   // any key, for its tenant
	allTenants               // as anyKey; an admin may ask for all tenants at once
	adminKey                 // an admin key, without a tenant
)

// route is one method at one path. Its operation is what the OpenAPI document says of it.
type route struct {
	method, path string
	access       access
	handle       func(*call) error
	operation    operation
}

// served is a route with what counts its requests, by the first digit of the status.
type served struct {
	route
	seconds [6]atomic.Pointer[prometheus.Observer]
}

// routes is the whole API.
func (a *api) routes() []route {
	metrics := adminKey
	if a.MetricsPublic {
		metrics = open
	}
	return []route{
		{"POST", "/v1/events", anyKey, a.acceptEvent, acceptEventOperation},
		{"POST", "/v1/events/batch", anyKey, a.acceptBatch, acceptBatchOperation},
		{"GET", "/v1/events", anyKey, a.listEvents, listEventsOperation},
		{"GET", "/v1/events/{id}", anyKey, a.readEvent, readEventOperation},
		{"GET", "/v1/events/{id}/payload", anyKey, a.readPayload, readPayloadOperation},
		{"POST", "/v1/events/{id}/resend", anyKey, a.resendEvent, resendEventOperation},

		{"POST", "/v1/endpoints", anyKey, a.createEndpoint, createEndpointOperation},
		{"GET", "/v1/endpoints", allTenants, a.listEndpoints, listEndpointsOperation},
		{"GET", "/v1/endpoints/{id}", allTenants, a.readEndpoint, readEndpointOperation},
		{"PUT", "/v1/endpoints/{id}", anyKey, a.putEndpoint, putEndpointOperation},
		{"PATCH", "/v1/endpoints/{id}", anyKey, a.patchEndpoint, patchEndpointOperation},
		{"DELETE", "/v1/endpoints/{id}", anyKey, a.deleteEndpoint, deleteEndpointOperation},
		{"POST", "/v1/endpoints/{id}/pause", anyKey, a.pauseEndpoint, pauseEndpointOperation},
		{"POST", "/v1/endpoints/{id}/resume", anyKey, a.resumeEndpoint, resumeEndpointOperation},
		{"POST", "/v1/endpoints/{id}/rotate-secret", anyKey, a.rotateSecret, rotateSecretOperation},
		{"POST", "/v1/endpoints/{id}/test", anyKey, a.testEndpoint, testEndpointOperation},

		{"POST", "/v1/sources", anyKey, a.createSource, createSourceOperation},
		{"GET", "/v1/sources", anyKey, a.listSources, listSourcesOperation},
		{"GET", "/v1/sources/{id}", anyKey, a.readSource, readSourceOperation},
		{"PUT", "/v1/sources/{id}", anyKey, a.putSource, putSourceOperation},
		{"PATCH", "/v1/sources/{id}", anyKey, a.patchSource, patchSourceOperation},
		{"DELETE", "/v1/sources/{id}", anyKey, a.deleteSource, deleteSourceOperation},
		{"GET", "/v1/sources/{id}/rejections", anyKey, a.listRejections, listRejectionsOperation},

		{"GET", "/v1/deliveries", allTenants, a.listDeliveries, listDeliveriesOperation},
		{"GET", "/v1/deliveries/{id}", allTenants, a.readDelivery, readDeliveryOperation},
		{"POST", "/v1/deliveries/{id}/replay", anyKey, a.replayDelivery, replayDeliveryOperation},
		{"POST", "/v1/deliveries/{id}/skip", anyKey, a.skipDelivery, skipDeliveryOperation},

		{"GET", "/v1/stream", allTenants, a.streamChanges, streamOperation},

		{"POST", "/v1/tenants", adminKey, a.createTenant, createTenantOperation},
		{"GET", "/v1/tenants", adminKey, a.listTenants, listTenantsOperation},
		{"GET", "/v1/tenants/{name}", adminKey, a.readTenant, readTenantOperation},
		{"PUT", "/v1/tenants/{name}", adminKey, a.putTenant, putTenantOperation},
		{"PATCH", "/v1/tenants/{name}", adminKey, a.patchTenant, patchTenantOperation},
		{"DELETE", "/v1/tenants/{name}", adminKey, a.deleteTenant, deleteTenantOperation},

		{"GET", "/livez", open, a.live, liveOperation},
		{"GET", "/readyz", open, a.ready, readyOperation},
		{"GET", "/metrics", metrics, a.metrics, metricsOperation},
		{"GET", "/openapi.json", open, a.openAPI, openAPIOperation},
		{"GET", "/docs", open, a.docs, docsOperation},
		{"GET", "/docs/{$}", open, a.docs, operation{}},
		{"GET", "/docs/{file}", open, a.docsFile, operation{}},
		{"GET", "/{$}", open, a.home, homeOperation},
	}
}

// newMux serves each path with all its methods, so that a wrong method is told
// from a wrong path.
func (a *api) newMux(routes []route) *http.ServeMux {
	paths := map[string]map[string]*served{}
	for _, r := range routes {
		if paths[r.path] == nil {
			paths[r.path] = map[string]*served{}
		}
		paths[r.path][r.method] = &served{route: r}
	}
	mux := http.NewServeMux()
	for path, methods := range paths {
		allow := allowed(methods)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			a.serve(w, r, methods, allow)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		callOf(w, r).refuse(&posthaste.Error{
			Code: posthaste.CodeNotFound, Message: "there is nothing at this path", Hint: "see /docs for the paths",
		})
	})
	return mux
}

func allowed(methods map[string]*served) string {
	names := append(slices.Collect(maps.Keys(methods)), http.MethodOptions)
	if methods[http.MethodGet] != nil {
		names = append(names, http.MethodHead)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// callOf gets back the call that ServeHTTP made, with the request as the mux has
// it: with the parts of its path.
func callOf(w http.ResponseWriter, r *http.Request) *call {
	c := w.(*call)
	c.r = r
	return c
}

func (a *api) serve(w http.ResponseWriter, r *http.Request, methods map[string]*served, allow string) {
	c := callOf(w, r)
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http leaves the body out
	}
	rt := methods[method]
	if rt == nil {
		c.Header().Set("Allow", allow)
		if method == http.MethodOptions {
			c.WriteHeader(http.StatusNoContent)
			return
		}
		c.refuse(&posthaste.Error{
			Code: posthaste.CodeMethodNotAllowed, Message: fmt.Sprintf("%.20s is not a method of this path", r.Method), Hint: "use one of " + allow,
		})
		return
	}
	c.route = rt
	err := a.admit(c, rt.access)
	if err == nil {
		err = c.checkKey()
	}
	if err == nil {
		err = rt.handle(c)
	}
	if err != nil {
		c.refuse(err)
	}
}

// checkKey refuses an idempotency key where the request would not be deduplicated by it.
func (c *call) checkKey() error {
	if c.r.Method != http.MethodPost || strings.HasPrefix(c.route.path, "/v1/events") && !strings.HasSuffix(c.route.path, "/resend") ||
		len(c.r.Header[headerIdempotencyKey]) == 0 {
		return nil // events know what to do with one
	}
	hint := "leave the header out"
	switch c.route.path {
	case "/v1/endpoints", "/v1/sources", "/v1/tenants":
		hint = "leave the header out; to create an object that a repeated request does not create twice, PUT to " + c.route.path + "/uid: and an id of your own"
	}
	return posthaste.Invalid([]posthaste.Problem{{
		Field: headerIdempotencyKey, Message: "is not supported for this request", Hint: hint, Code: posthaste.CodeUnsupported,
	}})
}

// admit finds out who sends the request and which tenant it is for. An unknown
// tenant is an error, so that a typo can't swallow an event.
func (a *api) admit(c *call, need access) (err error) {
	if need == open {
		return nil
	}
	if c.principal, err = a.Auth.Identify(c.r.Header); err != nil {
		return err
	}
	if need == adminKey {
		if !c.principal.Admin {
			return &posthaste.Error{Code: posthaste.CodeForbidden, Message: "this needs an admin key", Hint: "use an admin key"}
		}
		return nil
	}
	name, err := c.principal.Tenant(c.r.Header)
	if err != nil {
		return err
	}
	if name == auth.AllTenants {
		c.tenant.Name = name // and number 0, which asks the store for all
		if need != allTenants {
			return oneProblem(auth.HeaderTenant, "is for all tenants, which this request cannot be",
				"name one tenant; * is for reading endpoints and deliveries")
		}
		return nil
	}
	if name != posthaste.TenantDefault && len(posthaste.ValidateTenantName(name)) > 0 {
		return notFound("tenant") // what is no name is no tenant's either; and no database sees it
	}
	if c.tenant, err = a.Pipeline.Tenant(c.r.Context(), name); err != nil {
		if explain(err).Code == posthaste.CodeNotFound {
			return &posthaste.Error{
				Code: posthaste.CodeNotFound, Message: fmt.Sprintf("there is no tenant %q", name),
				Hint: "check the header Posthaste-Tenant, or create the tenant with POST /v1/tenants", Err: err,
			}
		}
		return err
	}
	if !c.tenant.DeletedAt.IsZero() && (c.route.method != http.MethodGet || !c.principal.Admin) {
		return &posthaste.Error{
			Code: posthaste.CodeNotFound, Message: fmt.Sprintf("the tenant %q is deleted", name),
			Hint: "its history can be read with an admin key; nothing else is left of it",
		}
	}
	return nil
}

// pathID reads the id in the path. What is no id names no object: 404.
func pathID(c *call, kind posthaste.Kind, what string) (posthaste.ID, error) {
	id, err := posthaste.ParseID(kind, c.r.PathValue("id"))
	if err != nil {
		return id, notAnID(what, err)
	}
	return id, nil
}

package httpapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// A handler is an endpoint that a program makes when it starts: func:NAME, of one
// tenant or of all. Here it is to be read, by every tenant whose events it gets. An
// operator can stop it and let it go on; what it is, the program says, and would say
// again at its next start.

// isHandler reports whether an endpoint is a function of a program.
func isHandler(row store.EndpointRow) bool {
	_, is := row.Handler()
	return is
}

// mayChange lets only an operator change what his program made: a tenant sees it
// because its deliveries name it.
func (c *call) mayChange(row store.EndpointRow) error {
	if !isHandler(row) || c.principal.Admin {
		return nil
	}
	return &posthaste.Error{
		Code: posthaste.CodeForbidden, Message: "the endpoint is a handler of the operator's program", Hint: "it can be read, and changed with an admin key",
	}
}

const handlerHint = "the program that registers the handler says what it is; here it can be paused, resumed, disabled and deleted"

// noHandler refuses what makes no sense for a function.
func noHandler(row store.EndpointRow, what string) error {
	if !isHandler(row) {
		return nil
	}
	return oneProblem("id", "is a handler, which "+what, handlerHint)
}

// ownerOf is who an endpoint is changed for: a handler of all tenants is nobody's
// own, whichever tenant the request names.
func ownerOf(row store.EndpointRow) store.TenantRow { return store.TenantRow{No: row.Tenant} }

type handlerPatch struct {
	Enabled bool `json:"enabled"`
}

// mergeHandler lays a JSON Merge Patch over a handler, of which only one field is
// not the program's.
func (a *api) mergeHandler(body []byte, row *store.EndpointRow) error {
	if err := checkJSON("the body", body); err != nil {
		return err
	}
	in, defaults := handlerPatch{Enabled: !row.Disabled}, handlerPatch{Enabled: true}
	var fields map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimSpace(body), &fields) != nil { // an array, a number: decode says so
		return decode(body, &in, &defaults, nil)
	}
	var problems []posthaste.Problem
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "enabled" {
			problems = append(problems, posthaste.Problem{Field: name, Message: "of a handler cannot be changed", Hint: handlerHint})
		}
	}
	if len(problems) > 0 {
		return posthaste.Invalid(problems)
	}
	if err := decode(body, &in, &defaults, nil); err != nil {
		return err
	}
	enable(&row.Endpoint, in.Enabled)
	return nil
}

// validateEndpoint is validate with the uids that handlers are kept under left out.
func (l Label) validateEndpoint() []posthaste.Problem {
	if strings.HasPrefix(l.UID, posthaste.HandlerPrefix) {
		return append(posthaste.ValidateMetadata("metadata", l.Metadata), posthaste.Problem{
			Field: "uid", Message: "begins with " + posthaste.HandlerPrefix, Hint: "those are the uids of handlers; choose another one",
		})
	}
	return l.validate()
}

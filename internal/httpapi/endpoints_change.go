package httpapi

import (
	"errors"
	"slices"
	"strings"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/signature"
)

func (a *api) patchEndpoint(c *call) error {
	row, pre, err := a.livingEndpoint(c)
	if err != nil {
		return err
	}
	body, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	return a.changeEndpoint(c, row, pre, func(row *store.EndpointRow) error {
		if isHandler(*row) {
			return a.mergeHandler(body, row)
		}
		return a.merge(body, row)
	})
}

// merge lays a JSON Merge Patch over an endpoint.
func (a *api) merge(body []byte, row *store.EndpointRow) error {
	e := &row.Endpoint
	in, defaults := patchEndpointRequest{Definition: e.Definition, Label: Label{e.UID, e.Metadata}, Enabled: !e.Disabled}, newPatchEndpoint()
	problems, err := problemsOf(decode(body, &in, &defaults, laterOnEndpoint))
	if err != nil {
		return err
	}
	// What was wrong before is not the fault of this change: an endpoint that
	// stricter rules have overtaken can still be paused, disabled or repaired.
	before := e.Validate(a.rules)
	after := slices.DeleteFunc(in.Validate(a.rules), func(p posthaste.Problem) bool { return slices.Contains(before, p) })
	problems = append(problems, without(append(after, in.validateEndpoint()...), problems)...)
	problems = append(problems, checkSecretHeaders(in.SecretHeaders, e.SecretHeaders)...)
	more, err := a.secretProblems(*row, in.Signature.Scheme, in.Secret)
	if err != nil {
		return err
	}
	if err := posthaste.Invalid(append(problems, more...)); err != nil {
		return err
	}
	e.Definition, e.UID, e.Metadata = in.Definition, in.UID, in.Metadata
	enable(e, in.Enabled)
	return nil
}

// enable opens or disables an endpoint. One that is disabled keeps its reason.
func enable(e *posthaste.Endpoint, enabled bool) {
	switch {
	case enabled:
		e.Disabled, e.DisabledReason = false, ""
	case !e.Disabled:
		e.Disabled, e.DisabledReason = true, byRequest
	}
}

// putEndpoint makes the endpoint of a uid, or replaces what its owner wrote of
// one that exists. The same request again changes nothing; a pause stays.
func (a *api) putEndpoint(c *call) error {
	if err := newQuery(c).err(); err != nil {
		return err
	}
	pre, err := c.precondition()
	if err != nil {
		return err
	}
	raw, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	uid, isUID := pathUID(c, "id")
	if isUID && len(posthaste.ValidateUID("uid", uid)) > 0 {
		return oneProblem("uid", "in the path is not one", posthaste.ValidateUID("uid", uid)[0].Hint)
	}
	if isUID && strings.HasPrefix(uid, posthaste.HandlerPrefix) {
		return oneProblem("uid", "in the path is a handler's", handlerHint)
	}
	in, err := a.decodePut(raw, uid)
	if err != nil {
		return err
	}
	change := func(row *store.EndpointRow) error { return a.replace(row, in, pre) }
	if !isUID {
		row, _, err := a.livingEndpoint(c)
		if err == nil {
			err = noHandler(row, "cannot be replaced")
		}
		if err != nil {
			return err
		}
		return a.changeEndpoint(c, row, precondition{}, change)
	}
	secret := signature.NewSecret()
	create := func() (posthaste.Endpoint, string, error) {
		if err := pre.checkNone(); err != nil {
			return posthaste.Endpoint{}, "", err
		}
		if in.Secret != nil {
			secret = *in.Secret
		}
		e := posthaste.Endpoint{Definition: in.Definition, Metadata: in.Metadata}
		enable(&e, in.Enabled == nil || *in.Enabled)
		return e, secret, posthaste.Invalid(checkSecret(in.Signature.Scheme, secret))
	}
	row, made, err := a.Pipeline.PutEndpoint(c.r.Context(), c.tenant, uid, create, change)
	switch {
	case err != nil:
		return err
	case made:
		c.answerCreated(row, secret)
	default:
		return a.answerChanged(c, row)
	}
	return nil
}

// decodePut reads the body of a PUT to a uid, or to an id where uid is "".
func (a *api) decodePut(raw []byte, uid string) (putEndpointRequest, error) {
	in, defaults := newPutEndpoint(), newPutEndpoint()
	problems, err := problemsOf(decode(raw, &in, &defaults, laterOnEndpoint))
	if err != nil {
		return in, err
	}
	problems = append(problems, without(append(in.Validate(a.rules), in.validateEndpoint()...), problems)...)
	problems = append(problems, checkSecretHeaders(in.SecretHeaders, nil)...)
	if uid != "" {
		if in.UID != "" && in.UID != uid {
			problems = append(problems, posthaste.Problem{Field: "uid", Message: "is not the one in the path", Hint: "leave it out, or change it with PATCH"})
		}
		in.UID = uid
	}
	return in, posthaste.Invalid(problems)
}

func (a *api) replace(row *store.EndpointRow, in putEndpointRequest, pre precondition) error {
	if err := pre.check(row.Version); err != nil {
		return err
	}
	problems, err := a.secretProblems(*row, in.Signature.Scheme, in.Secret)
	if err == nil {
		err = posthaste.Invalid(problems)
	}
	if err != nil {
		return err
	}
	row.Definition, row.UID, row.Metadata = in.Definition, in.UID, in.Metadata
	if in.Enabled != nil {
		enable(&row.Endpoint, *in.Enabled)
	}
	return nil
}

func (a *api) pauseEndpoint(c *call) error {
	return a.order(c, func(row *store.EndpointRow) error {
		row.Paused = true
		return nil
	})
}

func (a *api) resumeEndpoint(c *call) error {
	return a.order(c, func(row *store.EndpointRow) error {
		row.Paused = false
		return nil
	})
}

// order changes an endpoint by a request that says all it has to say in its path.
func (a *api) order(c *call, change func(*store.EndpointRow) error) error {
	row, pre, err := a.livingEndpoint(c)
	if err != nil {
		return err
	}
	if err := a.noBody(c); err != nil {
		return err
	}
	return a.changeEndpoint(c, row, pre, change)
}

func (a *api) changeEndpoint(c *call, found store.EndpointRow, pre precondition, change func(*store.EndpointRow) error) error {
	row, err := a.Pipeline.ChangeEndpoint(c.r.Context(), ownerOf(found), found.ID, func(row *store.EndpointRow) error {
		if err := pre.check(row.Version); err != nil {
			return err
		}
		return change(row)
	})
	if errors.Is(err, store.ErrNotFound) {
		return notFound("endpoint")
	}
	if err != nil {
		return err
	}
	return a.answerChanged(c, row)
}

func (a *api) deleteEndpoint(c *call) error {
	row, pre, err := a.livingEndpoint(c)
	if err == nil {
		err = pre.check(row.Version)
	}
	if err != nil {
		return err
	}
	err = a.Pipeline.DeleteEndpoint(c.r.Context(), ownerOf(row), row.ID, pre.version(row.Version))
	return c.answerDeleted("endpoint", err)
}

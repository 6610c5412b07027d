package httpapi

import (
	"errors"
	"net/http"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

type tenantBody struct {
	Name      string            `json:"name"`
	UID       *string           `json:"uid" doc:"Your own id for it"`
	Metadata  map[string]string `json:"metadata" doc:"Your own words on it"`
	Version   int               `json:"version" doc:"Rises with every change; also the ETag"`
	CreatedAt moment            `json:"created_at"`
	UpdatedAt moment            `json:"updated_at"`
	DeletedAt moment            `json:"deleted_at" doc:"Null while it lives. A deleted tenant keeps its name, under which its history can be read"`
}

// tenantRequest is laid over nothing, or, in a patch, over the tenant as it stands.
type tenantRequest struct {
	Name string `json:"name" doc:"1 to 64 of a-z A-Z 0-9 . _ -, beginning with a letter or a digit; never changes"`
	Label
}

func newTenant() tenantRequest { return tenantRequest{Label: newLabel()} }

func showTenant(row store.TenantRow) tenantBody {
	metadata := row.Metadata
	if metadata == nil {
		metadata = map[string]string{}
	}
	return tenantBody{
		Name: row.Name, UID: orNull(row.UID), Metadata: metadata, Version: row.Version,
		CreatedAt: moment(row.CreatedAt), UpdatedAt: moment(row.UpdatedAt), DeletedAt: moment(row.DeletedAt),
	}
}

func (c *call) answerTenant(status int, row store.TenantRow) {
	c.Header().Set("ETag", etag(row.Version))
	c.write(status, showTenant(row))
}

// laterOnTenant are the fields of the contract that are not built yet.
var laterOnTenant = map[string]laterField{
	"limits": {[]string{"{}"}, "leave it out: a tenant has no limits"},
}

// readTenantRequest reads a body over in, and tells everything that is wrong with
// it. Where uid or name are not "", the body may leave them out or repeat them.
func (a *api) readTenantRequest(c *call, in *tenantRequest, name, uid string) error {
	defaults := newTenant()
	problems, err := problemsOf(a.readJSON(c, in, &defaults, laterOnTenant))
	if err != nil {
		return err
	}
	if name != "" && in.Name != "" && in.Name != name {
		problems = append(problems, posthaste.Problem{Field: "name", Message: "cannot be changed", Hint: "leave it out, or make another tenant"})
	}
	if uid != "" && in.UID != "" && in.UID != uid {
		problems = append(problems, posthaste.Problem{Field: "uid", Message: "is not the one in the path", Hint: "leave it out, or change it with PATCH"})
	}
	return posthaste.Invalid(append(problems, without(in.validate(), problems)...))
}

// createTenant is the only way to a new tenant beside a PUT to a uid: one that is
// merely named in a request is not made by it.
func (a *api) createTenant(c *call) error {
	in := newTenant()
	err := a.readTenantRequest(c, &in, "", "")
	problems, err := problemsOf(err)
	if err != nil {
		return err
	}
	if err := posthaste.Invalid(append(problems, without(posthaste.ValidateTenantName(in.Name), problems)...)); err != nil {
		return err
	}
	row, err := a.Pipeline.CreateTenant(c.r.Context(), posthaste.Tenant{Name: in.Name, UID: in.UID, Metadata: in.Metadata})
	if err != nil {
		return a.nameTaken(c, in.Name, err)
	}
	c.Header().Set("Location", "/v1/tenants/"+row.Name)
	c.answerTenant(http.StatusCreated, row)
	return nil
}

// nameTaken explains a conflict: a name is never given twice, since the history
// of a deleted tenant is read by it.
func (a *api) nameTaken(c *call, name string, err error) error {
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	out := &posthaste.Error{Code: posthaste.CodeConflict, Message: "there is a tenant of that name", Hint: "choose another name", Err: err}
	if row, look := a.store.Tenant(c.r.Context(), name); look == nil && !row.DeletedAt.IsZero() {
		out.Message = "there was a tenant of that name, and its history is kept under it"
	}
	return out
}

// findTenant finds the tenant that the path names: by its name, a deleted one
// too, or, after "uid:", by the operator's own id.
func (a *api) findTenant(c *call) (row store.TenantRow, pre precondition, err error) {
	if err = newQuery(c).err(); err == nil {
		pre, err = c.precondition()
	}
	if err != nil {
		return row, pre, err
	}
	name := c.r.PathValue("name")
	if uid, isUID := pathUID(c, "name"); isUID {
		if len(posthaste.ValidateUID("uid", uid)) > 0 {
			return row, pre, notFound("tenant")
		}
		row, err = a.store.TenantByUID(c.r.Context(), uid)
	} else {
		if len(posthaste.ValidateTenantName(name)) > 0 {
			return row, pre, notFound("tenant")
		}
		row, err = a.store.Tenant(c.r.Context(), name)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = notFound("tenant")
	}
	return row, pre, err
}

// livingTenant is findTenant for requests that change something.
func (a *api) livingTenant(c *call) (store.TenantRow, precondition, error) {
	row, pre, err := a.findTenant(c)
	if err == nil && !row.DeletedAt.IsZero() {
		err = notFound("tenant")
	}
	return row, pre, err
}

func (a *api) readTenant(c *call) error {
	row, pre, err := a.findTenant(c)
	if err == nil {
		err = pre.check(row.Version)
	}
	if err != nil {
		return err
	}
	c.answerTenant(http.StatusOK, row)
	return nil
}

func (a *api) patchTenant(c *call) error {
	row, pre, err := a.livingTenant(c)
	if err != nil {
		return err
	}
	body, err := a.readBody(c, maxJSONBytes)
	if err != nil {
		return err
	}
	return a.changeTenant(c, row, pre, func(row *store.TenantRow) error {
		in, defaults := tenantRequest{Name: row.Name, Label: Label{UID: row.UID, Metadata: row.Metadata}}, newTenant()
		problems, err := problemsOf(decode(body, &in, &defaults, laterOnTenant))
		if err != nil {
			return err
		}
		if in.Name != row.Name {
			problems = append(problems, posthaste.Problem{Field: "name", Message: "cannot be changed", Hint: "leave it out, or make another tenant"})
		}
		problems = append(problems, without(in.validate(), problems)...)
		row.UID, row.Metadata = in.UID, in.Metadata
		return posthaste.Invalid(problems)
	})
}

func (a *api) changeTenant(c *call, row store.TenantRow, pre precondition, change func(*store.TenantRow) error) error {
	row, err := a.Pipeline.ChangeTenant(c.r.Context(), row.No, func(row *store.TenantRow) error {
		if err := pre.check(row.Version); err != nil {
			return err
		}
		return change(row)
	})
	if errors.Is(err, store.ErrNotFound) {
		return notFound("tenant")
	}
	if err != nil {
		return err
	}
	c.answerTenant(http.StatusOK, row)
	return nil
}

// putTenant makes the tenant of a uid, or replaces the metadata of one that
// exists; by a name it only replaces.
func (a *api) putTenant(c *call) error {
	uid, isUID := pathUID(c, "name")
	if !isUID {
		row, pre, err := a.livingTenant(c)
		if err != nil {
			return err
		}
		in := newTenant()
		if err := a.readTenantRequest(c, &in, row.Name, ""); err != nil {
			return err
		}
		return a.changeTenant(c, row, pre, func(row *store.TenantRow) error {
			row.UID, row.Metadata = in.UID, in.Metadata
			return nil
		})
	}
	if problems := posthaste.ValidateUID("uid", uid); len(problems) > 0 {
		return oneProblem("uid", "in the path is not one", problems[0].Hint)
	}
	pre, err := c.precondition()
	if err != nil {
		return err
	}
	in := newTenant()
	if err := a.readTenantRequest(c, &in, "", uid); err != nil {
		return err
	}
	create := func() (posthaste.Tenant, error) {
		if err := pre.checkNone(); err != nil {
			return posthaste.Tenant{}, err
		}
		return posthaste.Tenant{Name: in.Name, Metadata: in.Metadata}, posthaste.Invalid(posthaste.ValidateTenantName(in.Name))
	}
	change := func(row *store.TenantRow) error {
		if err := pre.check(row.Version); err != nil {
			return err
		}
		if in.Name != "" && in.Name != row.Name {
			return oneProblem("name", "cannot be changed", "leave it out, or make another tenant")
		}
		row.Metadata = in.Metadata
		return nil
	}
	row, made, err := a.Pipeline.PutTenant(c.r.Context(), uid, create, change)
	if err != nil {
		return a.nameTaken(c, in.Name, err)
	}
	status := http.StatusOK
	if made {
		status = http.StatusCreated
		c.Header().Set("Location", "/v1/tenants/"+row.Name)
	}
	c.answerTenant(status, row)
	return nil
}

func (a *api) deleteTenant(c *call) error {
	row, pre, err := a.livingTenant(c)
	if err == nil {
		err = pre.check(row.Version)
	}
	if err != nil {
		return err
	}
	err = a.Pipeline.DeleteTenant(c.r.Context(), row, pre.version(row.Version))
	return c.answerDeleted("tenant", err)
}

func (a *api) listTenants(c *call) error {
	q := newQuery(c, "limit", "cursor", "deleted")
	p := store.ListTenantsParams{
		Before:  store.TenantNo(q.numberCursor(tenantList)),
		Deleted: q.oneOf("deleted", "true", "false") == "true", Limit: q.limit(),
	}
	if err := q.err(); err != nil {
		return err
	}
	rows, err := a.store.ListTenants(c.r.Context(), p)
	if err != nil {
		return err
	}
	var next posthaste.ID
	if len(rows) == p.Limit {
		next = numberAsID(int32(rows[len(rows)-1].No))
	}
	c.write(http.StatusOK, newPage(rows, showTenant, printCursor(tenantList, next)))
	return nil
}

package pipeline

import (
	"context"
	"errors"
	"maps"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

var (
	errTenantDeleted = &posthaste.Error{
		Code: posthaste.CodeNotFound, Message: "the tenant is deleted", Hint: "its history can be read; nothing new is taken for it",
	}
	errTenantKept = &posthaste.Error{
		Code: posthaste.CodeConflict, Message: "this tenant is part of every installation and cannot be deleted", Hint: "delete its endpoints instead",
	}
)

// Tenant returns a tenant by name, from memory where it is known, a deleted one
// too, or [store.ErrNotFound]. Of what is kept in memory only name, number and
// deletion are up to date; a deletion is known everywhere within two heartbeats.
func (p *Pipeline) Tenant(ctx context.Context, name string) (store.TenantRow, error) {
	return p.routing.tenant(ctx, name)
}

// TenantName returns the name of a tenant by its number.
func (p *Pipeline) TenantName(ctx context.Context, no store.TenantNo) (string, error) {
	return p.routing.tenantName(ctx, no)
}

// CreateTenant makes a tenant of a name, uid and metadata. [store.ErrConflict] if
// there is or was one of that name, [store.ErrTaken] if one has the uid.
func (p *Pipeline) CreateTenant(ctx context.Context, t posthaste.Tenant) (store.TenantRow, error) {
	t.CreatedAt = p.clock.Now()
	return p.store.CreateTenant(ctx, t)
}

// PutTenant makes the tenant of a uid as create says, or, where there is one, lets
// change edit its metadata; see [Pipeline.PutEndpoint]. [store.ErrConflict] if
// another one has or had the name.
func (p *Pipeline) PutTenant(
	ctx context.Context, uid string, create func() (posthaste.Tenant, error), change func(*store.TenantRow) error,
) (row store.TenantRow, made bool, err error) {
	for range changeTries {
		row, err = p.store.TenantByUID(ctx, uid)
		switch {
		case err == nil:
			row, err = p.ChangeTenant(ctx, row.No, change)
			if !errors.Is(err, store.ErrNotFound) {
				return row, false, err
			}
			continue // deleted meanwhile
		case !errors.Is(err, store.ErrNotFound):
			return row, false, err
		}
		t, err := create()
		if err != nil {
			return row, false, err
		}
		t.UID = uid
		row, err = p.CreateTenant(ctx, t)
		switch {
		case errors.Is(err, store.ErrTaken):
			continue
		case errors.Is(err, store.ErrConflict): // of our uid, if somebody else's call was faster
			if other, look := p.store.TenantByUID(ctx, uid); look == nil && other.Name == t.Name {
				continue
			}
		}
		return row, err == nil, err
	}
	return row, false, errContended
}

// ChangeTenant lets change edit uid and metadata of a tenant; the rules are those
// of [Pipeline.ChangeEndpoint].
func (p *Pipeline) ChangeTenant(ctx context.Context, no store.TenantNo, change func(*store.TenantRow) error) (store.TenantRow, error) {
	for range changeTries {
		row, err := p.store.TenantByNo(ctx, no)
		if err != nil {
			return row, err
		}
		if !row.DeletedAt.IsZero() {
			return row, store.ErrNotFound
		}
		before := row.Tenant
		if err := change(&row); err != nil {
			return row, err
		}
		if row.UID == before.UID && maps.Equal(row.Metadata, before.Metadata) {
			return row, nil
		}
		row, err = p.store.UpdateTenant(ctx, store.UpdateTenantParams{
			No: no, FromVersion: before.Version, UID: row.UID, Metadata: row.Metadata, Now: p.clock.Now(),
		})
		if !errors.Is(err, store.ErrConflict) {
			return row, err
		}
	}
	return store.TenantRow{}, errContended
}

// DeleteTenant makes a tenant and its endpoints tombstones: nothing is taken for
// it any more, here at once, what waits ends dead, and what happened can be read.
// [store.ErrConflict] if it is not at the version (0: any).
func (p *Pipeline) DeleteTenant(ctx context.Context, tenant store.TenantRow, version int) error {
	if tenant.Name == posthaste.TenantDefault || tenant.Name == posthaste.TenantOperator || tenant.No == store.EveryTenant {
		return errTenantKept
	}
	if err := p.store.DeleteTenant(ctx, store.DeleteTenantParams{No: tenant.No, FromVersion: version, Now: p.clock.Now()}); err != nil {
		return err
	}
	p.reload(ctx, tenant.No)
	p.waker.wakeAll() // to end what waits
	return nil
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	tenantColumns   = `no, routing_version, name, uid, metadata, version, created_at, updated_at, deleted_at`
	createTenantSQL = `
insert into tenants (name, uid, metadata, created_at, updated_at) values ($1, $2, $3, $4, $4)
on conflict (name) do nothing returning ` + tenantColumns
	updateTenantSQL = `
update tenants set version = version + 1, uid = $3, metadata = $4, updated_at = $5
where no = $1 and version = $2 and deleted_at = 0 returning ` + tenantColumns
	tenantSQL      = `select ` + tenantColumns + ` from tenants where name = $1`
	tenantByUIDSQL = `select ` + tenantColumns + ` from tenants where uid = $1 and uid <> '' and deleted_at = 0`
	tenantByNoSQL  = `select ` + tenantColumns + ` from tenants where no = $1`

	listTenantsSQL     = `select ` + tenantColumns + ` from tenants where ($1 = 0 or no < $1) and deleted_at = 0 and name <> '*' order by no desc limit $2`
	listEveryTenantSQL = `select ` + tenantColumns + ` from tenants where ($1 = 0 or no < $1) and name <> '*' order by no desc limit $2`
)

// CreateTenant implements store.Tenants.
func (db *DB) CreateTenant(ctx context.Context, t posthaste.Tenant) (store.TenantRow, error) {
	metadata, err := metadataJSON(t.Metadata)
	if err != nil {
		return store.TenantRow{}, fmt.Errorf("create the tenant %s: %w", t.Name, err)
	}
	row, err := db.tenant(ctx, createTenantSQL, t.Name, t.UID, metadata, micros(t.CreatedAt))
	if errors.Is(err, store.ErrNotFound) {
		err = store.ErrConflict
	}
	if err != nil {
		return store.TenantRow{}, fail("create the tenant "+t.Name, err)
	}
	return row, nil
}

// UpdateTenant implements store.Tenants.
func (db *DB) UpdateTenant(ctx context.Context, p store.UpdateTenantParams) (store.TenantRow, error) {
	metadata, err := metadataJSON(p.Metadata)
	if err != nil {
		return store.TenantRow{}, fmt.Errorf("change a tenant: %w", err)
	}
	row, err := db.tenant(ctx, updateTenantSQL, int32(p.No), p.FromVersion, p.UID, metadata, micros(p.Now))
	if errors.Is(err, store.ErrNotFound) {
		err = db.whyTenantUnchanged(ctx, p.No)
	}
	if err != nil {
		return store.TenantRow{}, fail("change a tenant", err)
	}
	return row, nil
}

// whyTenantUnchanged says why no tenant stood at the expected version.
func (db *DB) whyTenantUnchanged(ctx context.Context, no store.TenantNo) error {
	row, err := db.TenantByNo(ctx, no)
	switch {
	case err != nil:
		return err
	case !row.DeletedAt.IsZero():
		return store.ErrNotFound
	default:
		return store.ErrConflict
	}
}

// A tenant goes in a few statements of one transaction. The first keeps to the
// order in which a change of an endpoint locks: endpoint, then tenant. The second
// holds up whoever makes an endpoint or a source, so that the others, with a snapshot of
// their own, see every one that there will ever be.
const (
	lockEndpointsSQL = `select no from endpoints where tenant = $1 and deleted_at = 0 order by no for update`
	deleteTenantSQL  = `
update tenants set deleted_at = $2, updated_at = $2, version = version + 1, routing_version = greatest(routing_version + 1, ` + clockSQL + `)
where no = $1 and deleted_at = 0 and ($3 = 0 or version = $3)`
	deleteEndpointsSQL = `
update endpoints p set version = p.version + 1, deleted_at = $2, updated_at = $2, routing_version = t.routing_version
from tenants t where t.no = $1 and t.deleted_at <> 0 and p.tenant = $1 and p.deleted_at = 0`
)

// DeleteTenant implements store.Tenants.
func (db *DB) DeleteTenant(ctx context.Context, p store.DeleteTenantParams) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	batch, deleted := &pgx.Batch{}, false
	batch.Queue(lockEndpointsSQL, int32(p.No))
	batch.Queue(deleteTenantSQL, int32(p.No), micros(p.Now), p.FromVersion).Exec(func(tag pgconn.CommandTag) error {
		deleted = tag.RowsAffected() == 1
		return nil
	})
	batch.Queue(deleteEndpointsSQL, int32(p.No), micros(p.Now))
	batch.Queue(lockSourcesSQL, int32(p.No), nil)
	batch.Queue(deleteSourcesSQL, int32(p.No))
	err := db.side.Run(ctx, batch)
	if err == nil && !deleted {
		err = db.whyTenantUnchanged(ctx, p.No)
	}
	if err != nil {
		return fail("delete a tenant", err)
	}
	return nil
}

// Tenant implements store.Tenants.
func (db *DB) Tenant(ctx context.Context, name string) (store.TenantRow, error) {
	return db.lookUpTenant(ctx, tenantSQL, name)
}

// TenantByUID implements store.Tenants.
func (db *DB) TenantByUID(ctx context.Context, uid string) (store.TenantRow, error) {
	return db.lookUpTenant(ctx, tenantByUIDSQL, uid)
}

// TenantByNo implements store.Tenants.
func (db *DB) TenantByNo(ctx context.Context, no store.TenantNo) (store.TenantRow, error) {
	return db.lookUpTenant(ctx, tenantByNoSQL, int32(no))
}

func (db *DB) lookUpTenant(ctx context.Context, sql string, key any) (store.TenantRow, error) {
	row, err := db.tenant(ctx, sql, key)
	if err != nil {
		return store.TenantRow{}, fail(fmt.Sprintf("look up the tenant %q", fmt.Sprint(key)), err)
	}
	return row, nil
}

// tenant runs a statement that returns one tenant at most, else ErrNotFound.
func (db *DB) tenant(ctx context.Context, sql string, args ...any) (store.TenantRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.lookups.Query(ctx, sql, args...)
	if err != nil {
		return store.TenantRow{}, err
	}
	row, err := pgx.CollectExactlyOneRow(rows, readTenant)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = store.ErrNotFound
	case hasState(err, stateUniqueViolation):
		err = store.ErrTaken // the name has been looked after
	}
	return row, err
}

// ListTenants implements store.Tenants.
func (db *DB) ListTenants(ctx context.Context, p store.ListTenantsParams) ([]store.TenantRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	sql := listTenantsSQL
	if p.Deleted {
		sql = listEveryTenantSQL
	}
	rows, err := db.side.Query(ctx, sql, int32(p.Before), p.Limit)
	if err != nil {
		return nil, fail("list tenants", err)
	}
	tenants, err := pgx.CollectRows(rows, readTenant)
	if err != nil {
		return nil, fail("list tenants", err)
	}
	return tenants, nil
}

func readTenant(row pgx.CollectableRow) (store.TenantRow, error) {
	var t store.TenantRow
	var metadata []byte
	var created, updated, deleted int64
	err := row.Scan((*int32)(&t.No), &t.RoutingVersion, &t.Name, &t.UID, &metadata, &t.Version, &created, &updated, &deleted)
	if err != nil {
		return t, err
	}
	t.CreatedAt, t.UpdatedAt, t.DeletedAt = timeAt(created), timeAt(updated), timeAt(deleted)
	if updated == 0 { // those of the first migration
		t.UpdatedAt = t.CreatedAt
	}
	if err := json.Unmarshal(metadata, &t.Metadata); err != nil {
		return t, undecodable(fmt.Sprintf("the metadata of tenant %d", t.No), err)
	}
	return t, nil
}

func metadataJSON(metadata map[string]string) (string, error) {
	if len(metadata) == 0 {
		return "{}", nil
	}
	raw, err := json.Marshal(metadata)
	return string(raw), err
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	tenantColumns   = `no, routing_version, name, created_at`
	createTenantSQL = `insert into tenants (name, created_at) values ($1, $2) on conflict do nothing returning ` + tenantColumns
	tenantSQL       = `select ` + tenantColumns + ` from tenants where name = $1`
	listTenantsSQL  = `select ` + tenantColumns + ` from tenants where $1 = 0 or no < $1 order by no desc limit $2`
)

// CreateTenant implements store.Tenants.
func (db *DB) CreateTenant(ctx context.Context, name string, now time.Time) (store.TenantRow, error) {
	row, err := db.tenant(ctx, createTenantSQL, name, micros(now))
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrConflict
	}
	if err != nil {
		return store.TenantRow{}, fail("create the tenant "+name, err)
	}
	return row, nil
}

// Tenant implements store.Tenants.
func (db *DB) Tenant(ctx context.Context, name string) (store.TenantRow, error) {
	row, err := db.tenant(ctx, tenantSQL, name)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.TenantRow{}, fail(fmt.Sprintf("look up the tenant %q", name), err)
	}
	return row, nil
}

func (db *DB) tenant(ctx context.Context, sql string, args ...any) (store.TenantRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.side.Query(ctx, sql, args...)
	if err != nil {
		return store.TenantRow{}, err
	}
	return pgx.CollectExactlyOneRow(rows, readTenant)
}

// ListTenants implements store.Tenants.
func (db *DB) ListTenants(ctx context.Context, p store.ListTenantsParams) ([]store.TenantRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.side.Query(ctx, listTenantsSQL, int32(p.Before), p.Limit)
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
	var created int64
	err := row.Scan((*int32)(&t.No), &t.RoutingVersion, &t.Name, &created)
	t.CreatedAt = timeAt(created)
	return t, err
}

package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const sqlCreateTenant = `INSERT INTO tenants (name, created_at) VALUES (?1, ?2) ON CONFLICT DO NOTHING`

// CreateTenant implements store.Tenants.
func (db *DB) CreateTenant(ctx context.Context, name string, now time.Time) (store.TenantRow, error) {
	var out store.TenantRow
	err := db.write(ctx, "create tenant "+name, func(c *conn) error {
		n, err := c.exec(sqlCreateTenant, name, now)
		if err == nil && n == 0 {
			err = store.ErrConflict
		}
		if err != nil {
			return err
		}
		_, err = c.get(sqlTenant, func(r row) { out = scanTenant(r) }, name)
		return err
	})
	if err != nil {
		return store.TenantRow{}, err
	}
	return out, nil
}

const sqlTenant = `SELECT no, routing_version, name, created_at FROM tenants WHERE name = ?1`

// Tenant implements store.Tenants.
func (db *DB) Tenant(ctx context.Context, name string) (store.TenantRow, error) {
	var out store.TenantRow
	err := db.read(ctx, "read tenant "+name, func(c *conn) error {
		found, err := c.get(sqlTenant, func(r row) { out = scanTenant(r) }, name)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		return err
	})
	return out, err
}

func scanTenant(r row) store.TenantRow {
	return store.TenantRow{
		No: r.tenant(0), RoutingVersion: r.ColumnInt64(1),
		Tenant: posthaste.Tenant{Name: r.ColumnText(2), CreatedAt: r.at(3)},
	}
}

const sqlListTenants = `SELECT no, routing_version, name, created_at FROM tenants WHERE no < ?1 ORDER BY no DESC LIMIT ?2`

// ListTenants implements store.Tenants.
func (db *DB) ListTenants(ctx context.Context, p store.ListTenantsParams) ([]store.TenantRow, error) {
	before := forever
	if p.Before != 0 {
		before = int64(p.Before)
	}
	var out []store.TenantRow
	err := db.read(ctx, "list tenants", func(c *conn) error {
		for r, err := range c.rows(sqlListTenants, before, p.Limit) {
			if err != nil {
				return err
			}
			out = append(out, scanTenant(r))
		}
		return nil
	})
	return out, err
}

const (
	sqlRaiseRouting = `UPDATE tenants SET routing_version = routing_version + 1 WHERE no = ?1`
)

// raiseRouting raises the routing version of a tenant and returns the new one.
func raiseRouting(c *conn, tenant store.TenantNo) (version int64, err error) {
	n, err := c.exec(sqlRaiseRouting, tenant)
	if err == nil && n == 0 {
		err = fmt.Errorf("tenant %d: %w", tenant, store.ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	_, err = c.get(sqlRoutingVersion, func(r row) { version = r.ColumnInt64(0) }, tenant)
	return version, err
}

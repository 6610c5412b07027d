package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// sqlTakenTenantUID finds a living tenant, other than ?2, that has a uid. One writer
// writes, so what it finds stays true to the end of the transaction.
const (
	sqlTakenTenantUID = `SELECT 1 FROM tenants WHERE uid = ?1 AND uid <> '' AND deleted_at = 0 AND no <> ?2`
	sqlCreateTenant   = `INSERT INTO tenants (name, uid, metadata, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?4) ON CONFLICT DO NOTHING`
)

// CreateTenant implements store.Tenants.
func (db *DB) CreateTenant(ctx context.Context, t posthaste.Tenant) (store.TenantRow, error) {
	var out store.TenantRow
	metadata, err := metadataJSON(t.Metadata)
	if err != nil {
		return out, fmt.Errorf("create tenant %s: %w", t.Name, err)
	}
	err = db.write(ctx, "create tenant "+t.Name, func(c *conn) error {
		if err := freeUID(c, sqlTakenTenantUID, t.UID, 0); err != nil {
			return err
		}
		n, err := c.exec(sqlCreateTenant, t.Name, t.UID, metadata, t.CreatedAt)
		if err == nil && n == 0 {
			err = store.ErrConflict
		}
		if err != nil {
			return err
		}
		out, err = readTenant(c, sqlTenant, t.Name)
		return err
	})
	if err != nil {
		return store.TenantRow{}, err
	}
	return out, nil
}

// freeUID returns ErrTaken where the query finds another object that has the uid.
func freeUID(c *conn, query, uid string, args ...any) error {
	taken, err := c.get(query, func(row) {}, append([]any{uid}, args...)...)
	if err == nil && taken {
		err = store.ErrTaken
	}
	return err
}

func metadataJSON(metadata map[string]string) (string, error) {
	if len(metadata) == 0 {
		return "{}", nil
	}
	raw, err := json.Marshal(metadata)
	return string(raw), err
}

const sqlUpdateTenant = `UPDATE tenants SET version = version + 1, uid = ?2, metadata = ?3, updated_at = ?4 WHERE no = ?1`

// UpdateTenant implements store.Tenants.
func (db *DB) UpdateTenant(ctx context.Context, p store.UpdateTenantParams) (store.TenantRow, error) {
	var out store.TenantRow
	metadata, err := metadataJSON(p.Metadata)
	if err != nil {
		return out, fmt.Errorf("update tenant: %w", err)
	}
	err = db.write(ctx, "update tenant", func(c *conn) error {
		if _, err := tenantAt(c, p.No, p.FromVersion); err != nil {
			return err
		}
		if err := freeUID(c, sqlTakenTenantUID, p.UID, p.No); err != nil {
			return err
		}
		if _, err := c.exec(sqlUpdateTenant, p.No, p.UID, metadata, p.Now); err != nil {
			return err
		}
		var err error
		out, err = readTenant(c, sqlTenantByNo, p.No)
		return err
	})
	if err != nil {
		return store.TenantRow{}, err
	}
	return out, nil
}

// tenantAt reads a tenant that is about to change. Version 0 is any.
func tenantAt(c *conn, no store.TenantNo, version int) (store.TenantRow, error) {
	row, err := readTenant(c, sqlTenantByNo, no)
	switch {
	case err != nil:
		return row, err
	case !row.DeletedAt.IsZero():
		return row, store.ErrNotFound
	case version != 0 && row.Version != version:
		return row, store.ErrConflict
	}
	return row, nil
}

const (
	sqlDeleteTenant    = `UPDATE tenants SET deleted_at = ?2, updated_at = ?2, version = version + 1 WHERE no = ?1`
	sqlDeleteEndpoints = `UPDATE endpoints SET version = version + 1, deleted_at = ?2, updated_at = ?2, routing_version = ?3 WHERE tenant = ?1 AND deleted_at = 0`
)

// DeleteTenant implements store.Tenants.
func (db *DB) DeleteTenant(ctx context.Context, p store.DeleteTenantParams) error {
	return db.write(ctx, "delete tenant", func(c *conn) error {
		if _, err := tenantAt(c, p.No, p.FromVersion); err != nil {
			return err
		}
		routing, err := db.raiseRouting(c, p.No)
		if err != nil {
			return err
		}
		if _, err := c.exec(sqlDeleteTenant, p.No, p.Now); err != nil {
			return err
		}
		if _, err := c.exec(sqlDeleteEndpoints, p.No, p.Now, routing); err != nil {
			return err
		}
		return deleteSources(c, p.No)
	})
}

const (
	tenantColumns  = `SELECT no, routing_version, name, uid, metadata, version, created_at, updated_at, deleted_at FROM tenants `
	sqlTenant      = tenantColumns + `WHERE name = ?1`
	sqlTenantByUID = tenantColumns + `WHERE uid = ?1 AND uid <> '' AND deleted_at = 0`
	sqlTenantByNo  = tenantColumns + `WHERE no = ?1`
)

// Tenant implements store.Tenants.
func (db *DB) Tenant(ctx context.Context, name string) (store.TenantRow, error) {
	return db.tenant(ctx, sqlTenant, name)
}

// TenantByUID implements store.Tenants.
func (db *DB) TenantByUID(ctx context.Context, uid string) (store.TenantRow, error) {
	return db.tenant(ctx, sqlTenantByUID, uid)
}

// TenantByNo implements store.Tenants.
func (db *DB) TenantByNo(ctx context.Context, no store.TenantNo) (store.TenantRow, error) {
	return db.tenant(ctx, sqlTenantByNo, no)
}

func (db *DB) tenant(ctx context.Context, query string, key any) (out store.TenantRow, err error) {
	err = db.readOn(ctx, db.lookups, fmt.Sprintf("read tenant %v", key), func(c *conn) (err error) {
		out, err = readTenant(c, query, key)
		return err
	})
	return out, err
}

func readTenant(c *conn, query string, key any) (store.TenantRow, error) {
	for r, err := range c.rows(query, key) {
		if err != nil {
			return store.TenantRow{}, err
		}
		return scanTenant(r)
	}
	return store.TenantRow{}, store.ErrNotFound
}

func scanTenant(r row) (store.TenantRow, error) {
	out := store.TenantRow{
		No: r.tenant(0), RoutingVersion: r.ColumnInt64(1),
		Tenant: posthaste.Tenant{
			Name: r.ColumnText(2), UID: r.ColumnText(3), Version: r.ColumnInt(5),
			CreatedAt: r.at(6), UpdatedAt: r.at(7), DeletedAt: r.at(8),
		},
	}
	if out.UpdatedAt.IsZero() { // those of the first migration
		out.UpdatedAt = out.CreatedAt
	}
	if err := json.Unmarshal([]byte(r.ColumnText(4)), &out.Metadata); err != nil {
		return out, fmt.Errorf("read metadata of tenant %d: %w", out.No, err)
	}
	return out, nil
}

const (
	sqlListTenants     = tenantColumns + `WHERE no < ?1 AND deleted_at = 0 AND name <> '*' ORDER BY no DESC LIMIT ?2`
	sqlListEveryTenant = tenantColumns + `WHERE no < ?1 AND name <> '*' ORDER BY no DESC LIMIT ?2`
)

// ListTenants implements store.Tenants.
func (db *DB) ListTenants(ctx context.Context, p store.ListTenantsParams) ([]store.TenantRow, error) {
	before, query := forever, sqlListTenants
	if p.Before != 0 {
		before = int64(p.Before)
	}
	if p.Deleted {
		query = sqlListEveryTenant
	}
	var out []store.TenantRow
	err := db.read(ctx, "list tenants", func(c *conn) error {
		for r, err := range c.rows(query, before, p.Limit) {
			if err != nil {
				return err
			}
			row, err := scanTenant(r)
			if err != nil {
				return err
			}
			out = append(out, row)
		}
		return nil
	})
	return out, err
}

const sqlRaiseRouting = `UPDATE tenants SET routing_version = max(routing_version + 1, ?2) WHERE no = ?1 AND deleted_at = 0`

// raiseRouting raises the routing version of a living tenant, to the time at least, and
// returns the new one.
func (db *DB) raiseRouting(c *conn, tenant store.TenantNo) (version int64, err error) {
	n, err := c.exec(sqlRaiseRouting, tenant, db.now())
	if err == nil && n == 0 {
		err = fmt.Errorf("tenant %d: %w", tenant, store.ErrNotFound)
	}
	if err != nil {
		return 0, err
	}
	_, err = c.get(sqlRoutingVersion, func(r row) { version = r.ColumnInt64(0) }, tenant)
	return version, err
}

package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	sqlTakenUID       = `SELECT 1 FROM endpoints WHERE uid = ?1 AND uid <> '' AND deleted_at = 0 AND tenant = ?2 AND no <> ?3`
	sqlInsertEndpoint = `INSERT INTO endpoints (tenant, id, version, definition, paused, disabled, disabled_reason, created_at, updated_at, routing_version, uid, metadata)
VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING`
	sqlInsertSecret  = `INSERT INTO endpoint_secrets (endpoint, no, sealed, key_id, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)`
	sqlInsertVersion = `INSERT INTO endpoint_versions (endpoint, version, definition, routing_version) VALUES (?1, ?2, ?3, ?4)`
)

// CreateEndpoint implements store.Endpoints.
func (db *DB) CreateEndpoint(ctx context.Context, p store.CreateEndpointParams) (store.EndpointRow, error) {
	definition, metadata, err := encodeEndpoint(p.Endpoint)
	if err != nil {
		return store.EndpointRow{}, fmt.Errorf("create endpoint: %w", err)
	}
	var out store.EndpointRow
	err = db.write(ctx, "create endpoint", func(c *conn) error {
		routing, err := db.raiseRouting(c, p.Tenant)
		if err != nil {
			return err
		}
		e := &p.Endpoint
		if err := freeUID(c, sqlTakenUID, e.UID, p.Tenant, 0); err != nil {
			return err
		}
		n, err := c.exec(sqlInsertEndpoint, p.Tenant, e.ID, definition, e.Paused, e.Disabled, e.DisabledReason, e.CreatedAt, routing, e.UID, metadata)
		if err == nil && n == 0 {
			err = store.ErrConflict
		}
		if err != nil {
			return err
		}
		no := store.EndpointNo(c.LastInsertRowID())
		if _, err := c.exec(sqlInsertVersion, no, 1, definition, routing); err != nil {
			return err
		}
		for _, s := range p.Secrets {
			if _, err := c.exec(sqlInsertSecret, no, s.No, s.Sealed, s.KeyID, s.ExpiresAt); err != nil {
				return err
			}
		}
		out, err = readEndpoint(c, sqlEndpointByNo, no)
		return err
	})
	if err != nil {
		return store.EndpointRow{}, err
	}
	return out, nil
}

func encodeEndpoint(e posthaste.Endpoint) (definition, metadata string, err error) {
	raw, err := json.Marshal(e.Definition)
	if err != nil {
		return "", "", err
	}
	metadata, err = metadataJSON(e.Metadata)
	return string(raw), metadata, err
}

// endpointAt reads an endpoint that is about to change. Version 0 is any.
// Unlike a reader, who may ask all tenants, it must name the endpoint's own.
func endpointAt(c *conn, tenant store.TenantNo, id posthaste.ID, version int) (store.EndpointRow, error) {
	row, err := readEndpoint(c, sqlEndpoint, tenant, id)
	switch {
	case err != nil:
		return row, err
	case row.Tenant != tenant || !row.DeletedAt.IsZero():
		return row, store.ErrNotFound
	case version != 0 && row.Version != version:
		return row, store.ErrConflict
	}
	return row, nil
}

const sqlUpdateEndpoint = `UPDATE endpoints SET version = version + 1, definition = ?2, paused = ?3, disabled = ?4, disabled_reason = ?5,
  updated_at = ?6, routing_version = ?7, uid = ?8, metadata = ?9 WHERE no = ?1`

// UpdateEndpoint implements store.Endpoints.
func (db *DB) UpdateEndpoint(ctx context.Context, p store.UpdateEndpointParams) (store.EndpointRow, error) {
	definition, metadata, err := encodeEndpoint(p.Endpoint)
	if err != nil {
		return store.EndpointRow{}, fmt.Errorf("update endpoint: %w", err)
	}
	var out store.EndpointRow
	err = db.write(ctx, "update endpoint", func(c *conn) error {
		e := &p.Endpoint
		old, err := endpointAt(c, p.Tenant, e.ID, p.FromVersion)
		switch {
		case err != nil:
			return err
		case old.Version != p.FromVersion: // here, 0 is no version
			return store.ErrConflict
		}
		if err := freeUID(c, sqlTakenUID, e.UID, p.Tenant, old.No); err != nil {
			return err
		}
		routing, err := db.raiseRouting(c, p.Tenant)
		if err != nil {
			return err
		}
		if _, err := c.exec(sqlUpdateEndpoint, old.No, definition, e.Paused, e.Disabled, e.DisabledReason, e.UpdatedAt, routing, e.UID, metadata); err != nil {
			return err
		}
		if _, err := c.exec(sqlInsertVersion, old.No, old.Version+1, definition, routing); err != nil {
			return err
		}
		out, err = readEndpoint(c, sqlEndpointByNo, old.No)
		return err
	})
	if err != nil {
		return store.EndpointRow{}, err
	}
	return out, nil
}

const sqlDeleteEndpoint = `UPDATE endpoints SET version = version + 1, deleted_at = ?2, updated_at = ?2, routing_version = ?3 WHERE no = ?1`

// DeleteEndpoint implements store.Endpoints.
func (db *DB) DeleteEndpoint(ctx context.Context, p store.DeleteEndpointParams) error {
	return db.write(ctx, "delete endpoint", func(c *conn) error {
		old, err := endpointAt(c, p.Tenant, p.ID, p.FromVersion)
		if err != nil {
			return err
		}
		routing, err := db.raiseRouting(c, p.Tenant)
		if err != nil {
			return err
		}
		_, err = c.exec(sqlDeleteEndpoint, old.No, p.Now, routing)
		return err
	})
}

const (
	endpointColumns  = `SELECT no, tenant, id, version, definition, paused, disabled, disabled_reason, created_at, updated_at, deleted_at, uid, metadata FROM endpoints `
	sqlEndpoint      = endpointColumns + `WHERE (?1 = 0 OR tenant = ?1) AND id = ?2`
	sqlEndpointByUID = endpointColumns + `WHERE tenant = ?1 AND uid = ?2 AND uid <> '' AND deleted_at = 0`
	sqlEndpointByNo  = endpointColumns + `WHERE no = ?1`
)

// Endpoint implements store.Endpoints.
func (db *DB) Endpoint(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (store.EndpointRow, error) {
	return usable(db.endpoint(ctx, sqlEndpoint, tenant, id))
}

// EndpointByUID implements store.Endpoints.
func (db *DB) EndpointByUID(ctx context.Context, tenant store.TenantNo, uid string) (store.EndpointRow, error) {
	return usable(db.endpoint(ctx, sqlEndpointByUID, tenant, uid))
}

// EndpointByNo implements store.Endpoints.
func (db *DB) EndpointByNo(ctx context.Context, no store.EndpointNo) (store.EndpointRow, error) {
	return db.endpoint(ctx, sqlEndpointByNo, no)
}

// usable makes an error of an endpoint that can't be read.
func usable(row store.EndpointRow, err error) (store.EndpointRow, error) {
	if err == nil && row.Unusable != nil {
		return store.EndpointRow{}, row.Unusable
	}
	return row, err
}

func (db *DB) endpoint(ctx context.Context, query string, args ...any) (store.EndpointRow, error) {
	var out store.EndpointRow
	err := db.readOn(ctx, db.lookups, "read endpoint", func(c *conn) error {
		return c.snapshot(func() (err error) { // an endpoint and its secrets belong together
			out, err = readEndpoint(c, query, args...)
			return err
		})
	})
	return out, err
}

func readEndpoint(c *conn, query string, args ...any) (store.EndpointRow, error) {
	out, err := readEndpoints(c, query, args...)
	if err == nil && len(out) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.EndpointRow{}, err
	}
	return out[0], nil
}

// readEndpoints runs one of the queries that begin with endpointColumns.
func readEndpoints(c *conn, query string, args ...any) (out []store.EndpointRow, err error) {
	for r, err := range c.rows(query, args...) {
		if err != nil {
			return nil, err
		}
		e := store.EndpointRow{No: r.endpoint(0), Tenant: r.tenant(1), Endpoint: posthaste.Endpoint{
			ID: r.id(2), Version: r.ColumnInt(3), Paused: r.ColumnBool(5), Disabled: r.ColumnBool(6), DisabledReason: r.ColumnText(7),
			CreatedAt: r.at(8), UpdatedAt: r.at(9), DeletedAt: r.at(10), UID: r.ColumnText(11),
		}}
		err := errors.Join(json.Unmarshal([]byte(r.ColumnText(4)), &e.Definition), json.Unmarshal([]byte(r.ColumnText(12)), &e.Metadata))
		if err != nil {
			e.Definition, e.Metadata = posthaste.Definition{}, nil
			e.Unusable = fmt.Errorf("read the definition or the metadata of endpoint %d: %w", e.No, err)
		}
		out = append(out, e)
	}
	for i := range out {
		if out[i].Secrets, err = readSecrets(c, out[i].No); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const (
	sqlListEndpoints          = endpointColumns + `WHERE tenant = ?1 AND id < ?2 AND deleted_at = 0 ORDER BY id DESC LIMIT ?3`
	sqlListEveryEndpoint      = endpointColumns + `WHERE tenant = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3`
	sqlListTenantsEndpoints   = endpointColumns + `WHERE ?1 = 0 AND id < ?2 AND deleted_at = 0 ORDER BY id DESC LIMIT ?3`
	sqlListEveryonesEndpoints = endpointColumns + `WHERE ?1 = 0 AND id < ?2 ORDER BY id DESC LIMIT ?3`
)

// ListEndpoints implements store.Endpoints. Each way to ask has its index.
func (db *DB) ListEndpoints(ctx context.Context, p store.ListEndpointsParams) ([]store.EndpointRow, error) {
	query := map[[2]bool]string{ // all tenants, deleted ones too
		{false, false}: sqlListEndpoints, {false, true}: sqlListEveryEndpoint,
		{true, false}: sqlListTenantsEndpoints, {true, true}: sqlListEveryonesEndpoints,
	}[[2]bool{p.Tenant == 0, p.Deleted}]
	var out []store.EndpointRow
	err := db.read(ctx, "list endpoints", func(c *conn) error {
		return c.snapshot(func() (err error) {
			out, err = readEndpoints(c, query, p.Tenant, below(p.Before), p.Limit)
			for _, row := range out {
				err = errors.Join(err, row.Unusable)
			}
			return err
		})
	})
	return out, err
}

// below is the exclusive upper bound of a page: the cursor, or the end of all ids.
func below(cursor posthaste.ID) posthaste.ID {
	if cursor.IsZero() {
		for i := range cursor {
			cursor[i] = 0xff
		}
	}
	return cursor
}

const (
	sqlLivingRouting  = endpointColumns + `WHERE tenant = ?1 AND deleted_at = 0 AND no > ?2 ORDER BY no LIMIT ?3`
	sqlChangedRouting = endpointColumns + `WHERE tenant = ?1 AND (routing_version, no) > (?2, ?3) ORDER BY routing_version, no LIMIT ?4`
	sqlStamped        = `SELECT no, version FROM endpoints WHERE tenant = ?1 AND routing_version = ?2 ORDER BY no LIMIT 1`
	sqlStampOf        = `SELECT routing_version FROM endpoints WHERE no = ?1`
	sqlKnownStamp     = `SELECT 1 WHERE EXISTS (SELECT 1 FROM endpoints WHERE no = ?2 AND tenant = ?1 AND version = ?3 AND routing_version = ?4)
OR EXISTS (SELECT 1 FROM endpoint_versions WHERE endpoint = ?2 AND version = ?3 AND routing_version = ?4)`
)

// Routing implements store.Endpoints. Each of its two orders has an index, so a page
// never walks over what an earlier one has read.
func (db *DB) Routing(ctx context.Context, p store.RoutingParams) (store.Routing, error) {
	var out store.Routing
	err := db.readOn(ctx, db.lookups, "read routing", func(c *conn) error {
		return c.snapshot(func() (err error) {
			out, err = readRouting(c, p)
			return err
		})
	})
	if err != nil {
		return store.Routing{}, err
	}
	return out, nil
}

func readRouting(c *conn, p store.RoutingParams) (out store.Routing, err error) {
	owner, err := readTenant(c, sqlTenantByNo, p.Tenant)
	if err != nil {
		return out, fmt.Errorf("tenant %d: %w", p.Tenant, err)
	}
	out.Mark.Version, out.Name, out.DeletedAt = owner.RoutingVersion, owner.Name, owner.DeletedAt
	_, err = c.get(sqlStamped, func(r row) {
		out.Mark.Endpoint, out.Mark.EndpointVersion = r.endpoint(0), r.ColumnInt(1)
	}, p.Tenant, owner.RoutingVersion)
	if err != nil {
		return out, err
	}
	whole := p.Since == (store.RoutingMark{})
	switch {
	case whole:
		out.Endpoints, err = readEndpoints(c, sqlLivingRouting, p.Tenant, p.After.Endpoint, p.Limit)
	case p.Since.Version != owner.RoutingVersion:
		known, err := c.get(sqlKnownStamp, func(row) {}, p.Tenant, p.Since.Endpoint, p.Since.EndpointVersion, p.Since.Version)
		if err != nil || !known {
			out.Unknown = true
			return out, err
		}
	}
	if err != nil {
		return out, err
	}
	if !whole {
		after := p.After
		if after == (store.RoutingCursor{}) { // all that the mark's own change stamped is known
			after = store.RoutingCursor{Version: p.Since.Version, Endpoint: math.MaxInt32}
		}
		if out.Endpoints, err = readEndpoints(c, sqlChangedRouting, p.Tenant, after.Version, after.Endpoint, p.Limit); err != nil {
			return out, err
		}
	}
	if len(out.Endpoints) < p.Limit {
		return out, nil
	}
	out.Next.Endpoint = out.Endpoints[len(out.Endpoints)-1].No
	if !whole {
		_, err = c.get(sqlStampOf, func(r row) { out.Next.Version = r.ColumnInt64(0) }, out.Next.Endpoint)
	}
	return out, err
}

const sqlDefinition = `SELECT definition FROM endpoint_versions WHERE endpoint = ?1 AND version = ?2`

// Definition implements store.Endpoints.
func (db *DB) Definition(ctx context.Context, endpoint store.EndpointNo, version int) (posthaste.Definition, error) {
	var out posthaste.Definition
	err := db.read(ctx, "read definition", func(c *conn) error {
		var stored string
		found, err := c.get(sqlDefinition, func(r row) { stored = r.ColumnText(0) }, endpoint, version)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(stored), &out)
	})
	return out, err
}

package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	sqlTakenSourceUID = `SELECT 1 FROM sources WHERE uid = ?1 AND uid <> '' AND tenant = ?2 AND no <> ?3`
	sqlInsertSource   = `INSERT INTO sources (tenant, id, version, definition, uid, metadata, sealed, key_id, created_at, updated_at)
VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?8) ON CONFLICT DO NOTHING`
)

// CreateSource implements store.Sources.
func (db *DB) CreateSource(ctx context.Context, p store.CreateSourceParams) (store.SourceRow, error) {
	var out store.SourceRow
	s := &p.Source
	definition, metadata, err := encodeSource(s)
	if err != nil {
		return out, fmt.Errorf("create source: %w", err)
	}
	err = db.write(ctx, "create source", func(c *conn) error {
		if _, err := tenantAt(c, p.Tenant, 0); err != nil {
			return err
		}
		if err := freeUID(c, sqlTakenSourceUID, s.UID, p.Tenant, 0); err != nil {
			return err
		}
		n, err := c.exec(sqlInsertSource, p.Tenant, s.ID, definition, s.UID, metadata, p.Secrets.Sealed, p.Secrets.KeyID, s.CreatedAt)
		if err == nil && n == 0 {
			err = store.ErrConflict
		}
		if err != nil {
			return err
		}
		out, err = readSource(c, sqlSource, p.Tenant, s.ID)
		return err
	})
	if err != nil {
		return store.SourceRow{}, err
	}
	return out, nil
}

func encodeSource(s *posthaste.Source) (definition, metadata string, err error) {
	raw, err := json.Marshal(s.SourceDefinition)
	if err == nil {
		metadata, err = metadataJSON(s.Metadata)
	}
	return string(raw), metadata, err
}

// sourceAt reads a source that is about to change. Version 0 is any.
func sourceAt(c *conn, tenant store.TenantNo, id posthaste.ID, version int) (store.SourceRow, error) {
	row, err := readSource(c, sqlSource, tenant, id)
	switch {
	case err != nil:
		return row, err
	case row.Tenant != tenant:
		return row, store.ErrNotFound
	case version != 0 && row.Version != version:
		return row, store.ErrConflict
	}
	return row, nil
}

const sqlUpdateSource = `UPDATE sources SET version = version + 1, definition = ?2, uid = ?3, metadata = ?4, sealed = ?5, key_id = ?6, updated_at = ?7 WHERE no = ?1`

// UpdateSource implements store.Sources.
func (db *DB) UpdateSource(ctx context.Context, p store.UpdateSourceParams) (store.SourceRow, error) {
	var out store.SourceRow
	s := &p.Source
	definition, metadata, err := encodeSource(s)
	if err != nil {
		return out, fmt.Errorf("update source: %w", err)
	}
	err = db.write(ctx, "update source", func(c *conn) error {
		old, err := sourceAt(c, p.Tenant, s.ID, p.FromVersion)
		switch {
		case err != nil:
			return err
		case old.Version != p.FromVersion: // here, 0 is no version
			return store.ErrConflict
		}
		if err := freeUID(c, sqlTakenSourceUID, s.UID, p.Tenant, int64(old.No)); err != nil {
			return err
		}
		if _, err := c.exec(sqlUpdateSource, int64(old.No), definition, s.UID, metadata, p.Secrets.Sealed, p.Secrets.KeyID, s.UpdatedAt); err != nil {
			return err
		}
		out, err = readSource(c, sqlSource, p.Tenant, s.ID)
		return err
	})
	if err != nil {
		return store.SourceRow{}, err
	}
	return out, nil
}

const (
	sqlDeleteSource           = `DELETE FROM sources WHERE no = ?1`
	sqlDeleteSourceRejections = `DELETE FROM rejections WHERE source = ?1`
	sqlDeleteTenantRejections = `DELETE FROM rejections WHERE source IN (SELECT no FROM sources WHERE tenant = ?1)`
	sqlDeleteTenantSources    = `DELETE FROM sources WHERE tenant = ?1`
)

// DeleteSource implements store.Sources.
func (db *DB) DeleteSource(ctx context.Context, p store.DeleteSourceParams) error {
	return db.write(ctx, "delete source", func(c *conn) error {
		old, err := sourceAt(c, p.Tenant, p.ID, p.FromVersion)
		if err != nil {
			return err
		}
		if _, err := c.exec(sqlDeleteSourceRejections, int64(old.No)); err != nil {
			return err
		}
		_, err = c.exec(sqlDeleteSource, int64(old.No))
		return err
	})
}

// deleteSources deletes what a deleted tenant leaves: secrets must not outlive their owner.
func deleteSources(c *conn, tenant store.TenantNo) error {
	if _, err := c.exec(sqlDeleteTenantRejections, tenant); err != nil {
		return err
	}
	_, err := c.exec(sqlDeleteTenantSources, tenant)
	return err
}

const (
	sourceColumns   = `SELECT no, tenant, id, version, definition, uid, metadata, sealed, key_id, rejected, created_at, updated_at FROM sources `
	sqlSource       = sourceColumns + `WHERE (?1 = 0 OR tenant = ?1) AND id = ?2`
	sqlSourceByUID  = sourceColumns + `WHERE tenant = ?1 AND uid = ?2 AND uid <> ''`
	sqlListSources  = sourceColumns + `WHERE tenant = ?1 AND no < ?2 ORDER BY no DESC LIMIT ?3`
	maxSourceNumber = int64(1) << 32
)

// Source implements store.Sources.
func (db *DB) Source(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (store.SourceRow, error) {
	return db.source(ctx, sqlSource, tenant, id)
}

// SourceByUID implements store.Sources.
func (db *DB) SourceByUID(ctx context.Context, tenant store.TenantNo, uid string) (store.SourceRow, error) {
	return db.source(ctx, sqlSourceByUID, tenant, uid)
}

func (db *DB) source(ctx context.Context, query string, args ...any) (out store.SourceRow, err error) {
	err = db.readOn(ctx, db.lookups, "read source", func(c *conn) (err error) {
		out, err = readSource(c, query, args...)
		return err
	})
	return out, err
}

// ListSources implements store.Sources.
func (db *DB) ListSources(ctx context.Context, p store.ListSourcesParams) (out []store.SourceRow, err error) {
	before := int64(p.Before)
	if before == 0 {
		before = maxSourceNumber
	}
	err = db.read(ctx, "list sources", func(c *conn) (err error) {
		out, err = readSources(c, sqlListSources, p.Tenant, before, p.Limit)
		return err
	})
	return out, err
}

func readSource(c *conn, query string, args ...any) (store.SourceRow, error) {
	out, err := readSources(c, query, args...)
	if err == nil && len(out) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.SourceRow{}, err
	}
	return out[0], nil
}

// readSources runs one of the queries that begin with sourceColumns.
func readSources(c *conn, query string, args ...any) (out []store.SourceRow, err error) {
	for r, err := range c.rows(query, args...) {
		if err != nil {
			return nil, err
		}
		s := store.SourceRow{
			No: store.SourceNo(r.ColumnInt64(0)), Tenant: r.tenant(1), Rejected: r.ColumnInt(9),
			Source: posthaste.Source{
				ID: r.id(2), Version: r.ColumnInt(3), UID: r.ColumnText(5), CreatedAt: r.at(10), UpdatedAt: r.at(11),
			},
			Secrets: store.SealedSecret{Sealed: r.bytes(7), KeyID: r.ColumnText(8)},
		}
		if err := json.Unmarshal([]byte(r.ColumnText(4)), &s.SourceDefinition); err != nil {
			return nil, fmt.Errorf("read definition of source %d: %w", s.No, err)
		}
		if err := json.Unmarshal([]byte(r.ColumnText(6)), &s.Metadata); err != nil {
			return nil, fmt.Errorf("read metadata of source %d: %w", s.No, err)
		}
		out = append(out, s)
	}
	return out, nil
}

const (
	sqlCountRejection  = `UPDATE sources SET rejected = rejected + ?2 WHERE no = ?1 RETURNING rejected`
	sqlInsertRejection = `INSERT INTO rejections (source, id, reason, detail, hint, method, headers, body, body_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`
	// The table is bounded for each source, so its keys are few.
	sqlDropRejections = `DELETE FROM rejections WHERE source = ?1 AND id <= (
  SELECT id FROM rejections WHERE source = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`
	sqlListRejections = `SELECT id, reason, detail, hint, method, headers, body, body_bytes FROM rejections WHERE source = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3`
	sqlEndRejections  = `UPDATE sources SET rejected = 0 WHERE no = ?1 AND rejected <> 0`
)

// AddRejection implements store.Sources.
func (db *DB) AddRejection(ctx context.Context, p store.AddRejectionParams) (inARow int, err error) {
	r := &p.Rejection
	err = db.write(ctx, "keep rejection", func(c *conn) error {
		found := false
		for r, err := range c.rows(sqlCountRejection, int64(p.Source), p.Count) {
			if err != nil {
				return err
			}
			inARow, found = r.ColumnInt(0), true
		}
		if !found {
			return store.ErrNotFound
		}
		c.wrote = true
		if _, err := c.exec(sqlInsertRejection, int64(p.Source), r.ID, []byte(r.Reason), []byte(r.Detail), []byte(r.Hint), []byte(r.Method),
			encodeHeaders(r.Headers), r.Body, r.BodyBytes); err != nil {
			return err
		}
		_, err := c.exec(sqlDropRejections, int64(p.Source), p.Keep)
		return err
	})
	return inARow, err
}

// ListRejections implements store.Sources.
func (db *DB) ListRejections(ctx context.Context, p store.ListRejectionsParams) (out []posthaste.Rejection, err error) {
	err = db.read(ctx, "list rejections", func(c *conn) error {
		for r, err := range c.rows(sqlListRejections, int64(p.Source), below(p.Before), p.Limit) {
			if err != nil {
				return err
			}
			headers, err := decodeHeaders(r.bytes(5))
			if err != nil {
				return err
			}
			out = append(out, posthaste.Rejection{
				ID: r.id(0), Reason: string(r.bytes(1)), Detail: string(r.bytes(2)), Hint: string(r.bytes(3)), Method: string(r.bytes(4)),
				Headers: headers, Body: r.bytes(6), BodyBytes: r.ColumnInt(7),
			})
		}
		return nil
	})
	return out, err
}

// EndRejections implements store.Sources.
func (db *DB) EndRejections(ctx context.Context, source store.SourceNo) error {
	return db.write(ctx, "end rejections", func(c *conn) error {
		_, err := c.exec(sqlEndRejections, int64(source))
		return err
	})
}

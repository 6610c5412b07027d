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

const sourceColumns = `no, tenant, id, version, definition, uid, metadata, sealed, key_id, rejected, created_at, updated_at`

// The tenant's row is locked to the end, so that a deletion of the tenant, which
// waits for it, finds the source and deletes it too.
const createSourceSQL = `
with owner as materialized (
	select no from tenants where no = $1 and deleted_at = 0 for share)
insert into sources (id, tenant, definition, uid, metadata, sealed, key_id, created_at, updated_at)
select $2, no, $3, $4, $5, $6, $7, $8, $8 from owner
returning ` + sourceColumns

// CreateSource implements store.Sources.
func (db *DB) CreateSource(ctx context.Context, p store.CreateSourceParams) (store.SourceRow, error) {
	s := p.Source
	definition, metadata, err := encodeSource(s)
	if err != nil {
		return store.SourceRow{}, err
	}
	row, err := db.source(ctx, createSourceSQL, int32(p.Tenant), [16]byte(s.ID), definition, s.UID, metadata,
		p.Secrets.Sealed, p.Secrets.KeyID, micros(s.CreatedAt))
	if hasState(err, stateUniqueViolation) {
		err = sourceTaken(err)
	}
	if err != nil {
		return store.SourceRow{}, fail("create a source", err)
	}
	return row, nil
}

func encodeSource(s posthaste.Source) (definition, metadata string, err error) {
	raw, err := json.Marshal(s.SourceDefinition)
	if err == nil {
		metadata, err = metadataJSON(s.Metadata)
	}
	if err != nil {
		return "", "", fmt.Errorf("encode the definition of a source: %w", err)
	}
	return string(raw), metadata, nil
}

// sourceTaken tells a uid that another source has from an id that another has.
func sourceTaken(err error) error {
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok && answer.ConstraintName == "sources_by_uid" {
		return store.ErrTaken
	}
	return store.ErrConflict
}

const updateSourceSQL = `
update sources set version = version + 1, definition = $4, uid = $5, metadata = $6, sealed = $7, key_id = $8, updated_at = $9
where tenant = $1 and id = $2 and version = $3
returning ` + sourceColumns

// UpdateSource implements store.Sources.
func (db *DB) UpdateSource(ctx context.Context, p store.UpdateSourceParams) (store.SourceRow, error) {
	s := p.Source
	definition, metadata, err := encodeSource(s)
	if err != nil {
		return store.SourceRow{}, err
	}
	row, err := db.source(ctx, updateSourceSQL, int32(p.Tenant), [16]byte(s.ID), p.FromVersion, definition, s.UID, metadata,
		p.Secrets.Sealed, p.Secrets.KeyID, micros(s.UpdatedAt))
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = db.whySourceUnchanged(ctx, p.Tenant, s.ID)
	case hasState(err, stateUniqueViolation):
		err = sourceTaken(err)
	}
	if err != nil {
		return store.SourceRow{}, fail("change a source", err)
	}
	return row, nil
}

// whySourceUnchanged says why no source stood at the expected version.
func (db *DB) whySourceUnchanged(ctx context.Context, tenant store.TenantNo, id posthaste.ID) error {
	row, err := db.Source(ctx, tenant, id)
	switch {
	case err != nil:
		return err
	case row.Tenant != tenant:
		return store.ErrNotFound
	default:
		return store.ErrConflict
	}
}

// The rejections of a deleted source go with it. The source's row is locked by a
// statement of its own, so that the one that deletes has a snapshot with all of
// them; one that is added later finds the source gone.
const (
	lockSourcesSQL  = `select no from sources where tenant = $1 and ($2::uuid is null or id = $2) order by no for update`
	deleteSourceSQL = `
with gone as (
	delete from sources where tenant = $1 and id = $2 and ($3 = 0 or version = $3)
	returning no),
swept as (
	delete from rejections where source in (select no from gone))
select no from gone`
)

// DeleteSource implements store.Sources.
func (db *DB) DeleteSource(ctx context.Context, p store.DeleteSourceParams) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	batch, deleted := &pgx.Batch{}, false
	batch.Queue(lockSourcesSQL, int32(p.Tenant), [16]byte(p.ID))
	batch.Queue(deleteSourceSQL, int32(p.Tenant), [16]byte(p.ID), p.FromVersion).Exec(func(tag pgconn.CommandTag) error {
		deleted = tag.RowsAffected() == 1
		return nil
	})
	err := db.side.Run(ctx, batch)
	if err == nil && !deleted {
		err = db.whySourceUnchanged(ctx, p.Tenant, p.ID)
	}
	if err != nil {
		return fail("delete a source", err)
	}
	return nil
}

// deleteSourcesSQL deletes what a deleted tenant leaves: secrets must not outlive their owner.
const deleteSourcesSQL = `
with gone as (
	delete from sources s using tenants t
	where t.no = $1 and t.deleted_at <> 0 and s.tenant = $1
	returning s.no)
delete from rejections where source in (select no from gone)`

const (
	sourceSQL      = `select ` + sourceColumns + ` from sources where ($1 = 0 or tenant = $1) and id = $2`
	sourceByUIDSQL = `select ` + sourceColumns + ` from sources where tenant = $1 and uid = $2 and uid <> ''`
	listSourcesSQL = `select ` + sourceColumns + ` from sources where tenant = $1 and ($2 = 0 or no < $2) order by no desc limit $3`
)

// Source implements store.Sources.
func (db *DB) Source(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (store.SourceRow, error) {
	row, err := db.source(ctx, sourceSQL, int32(tenant), [16]byte(id))
	if err != nil {
		return row, fail("look up a source", err)
	}
	return row, nil
}

// SourceByUID implements store.Sources.
func (db *DB) SourceByUID(ctx context.Context, tenant store.TenantNo, uid string) (store.SourceRow, error) {
	row, err := db.source(ctx, sourceByUIDSQL, int32(tenant), uid)
	if err != nil {
		return row, fail("look up a source", err)
	}
	return row, nil
}

// ListSources implements store.Sources.
func (db *DB) ListSources(ctx context.Context, p store.ListSourcesParams) ([]store.SourceRow, error) {
	rows, err := db.sources(ctx, db.side, listSourcesSQL, int32(p.Tenant), int32(p.Before), p.Limit)
	if err != nil {
		return nil, fail("list sources", err)
	}
	return rows, nil
}

func (db *DB) source(ctx context.Context, sql string, args ...any) (store.SourceRow, error) {
	rows, err := db.sources(ctx, db.lookups, sql, args...)
	if err == nil && len(rows) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.SourceRow{}, err
	}
	return rows[0], nil
}

func (db *DB) sources(ctx context.Context, on *pool, sql string, args ...any) ([]store.SourceRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := on.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, readSource)
}

func readSource(row pgx.CollectableRow) (store.SourceRow, error) {
	var s store.SourceRow
	var id [16]byte
	var definition, metadata []byte
	var created, updated int64
	err := row.Scan(&s.No, &s.Tenant, &id, &s.Version, &definition, &s.UID, &metadata, &s.Secrets.Sealed, &s.Secrets.KeyID, &s.Rejected, &created, &updated)
	if err != nil {
		return s, err
	}
	s.ID, s.CreatedAt, s.UpdatedAt = id, timeAt(created), timeAt(updated)
	if err := json.Unmarshal(definition, &s.SourceDefinition); err != nil {
		return s, undecodable(fmt.Sprintf("the definition of source %d", s.No), err)
	}
	if err := json.Unmarshal(metadata, &s.Metadata); err != nil {
		return s, undecodable(fmt.Sprintf("the metadata of source %d", s.No), err)
	}
	return s, nil
}

// The source's row is locked first, by the count: of two replicas that keep a
// rejection, the second waits, and what it deletes is seen by neither twice.
const (
	addRejectionSQL = `
with counted as (
	update sources set rejected = rejected + $2 where no = $1
	returning no, rejected),
added as (
	insert into rejections (source, id, reason, detail, hint, method, headers, body, body_bytes)
	select no, $3, $4, $5, $6, $7, $8, $9, $10 from counted)
select rejected from counted`
	dropRejectionsSQL = `
delete from rejections where source = $1 and id <= (
	select id from rejections where source = $1 order by id desc offset $2 limit 1)`
	listRejectionsSQL = `
select id, reason, detail, hint, method, headers, body, body_bytes
from rejections where source = $1 and id < $2
order by id desc limit $3`
	endRejectionsSQL = `update sources set rejected = 0 where no = $1 and rejected <> 0`
)

// AddRejection implements store.Sources.
func (db *DB) AddRejection(ctx context.Context, p store.AddRejectionParams) (inARow int, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	r, found := p.Rejection, false
	batch := &pgx.Batch{}
	batch.Queue(addRejectionSQL, int32(p.Source), p.Count, [16]byte(r.ID), []byte(r.Reason), []byte(r.Detail), []byte(r.Hint), []byte(r.Method),
		appendHeaders(r.Headers), r.Body, r.BodyBytes).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&inARow)
		if found = err == nil; errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return err
	})
	batch.Queue(dropRejectionsSQL, int32(p.Source), p.Keep)
	if err = db.side.Run(ctx, batch); err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return 0, fail("keep a rejection", err)
	}
	return inARow, nil
}

// ListRejections implements store.Sources.
func (db *DB) ListRejections(ctx context.Context, p store.ListRejectionsParams) ([]posthaste.Rejection, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := db.side.Query(ctx, listRejectionsSQL, int32(p.Source), before(p.Before), p.Limit)
	if err != nil {
		return nil, fail("list rejections", err)
	}
	out, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (r posthaste.Rejection, err error) {
		var id [16]byte
		var reason, detail, hint, method, headers []byte
		err = row.Scan(&id, &reason, &detail, &hint, &method, &headers, &r.Body, &r.BodyBytes)
		r.ID, r.Reason, r.Detail, r.Hint = id, string(reason), string(detail), string(hint)
		r.Method, r.Headers = string(method), readHeaders(headers)
		return r, err
	})
	if err != nil {
		return nil, fail("list rejections", err)
	}
	return out, nil
}

// EndRejections implements store.Sources.
func (db *DB) EndRejections(ctx context.Context, source store.SourceNo) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if _, err := db.side.Exec(ctx, endRejectionsSQL, int32(source)); err != nil {
		return fail("end the rejections of a source", err)
	}
	return nil
}

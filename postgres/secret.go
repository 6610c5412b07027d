package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// The secrets that stay and those that go are told apart by what they were
// before: one statement can't change a row twice.
const rotateSecretSQL = `
with present as materialized (
	select no from endpoints
	where tenant = $1 and id = $2 and version = $3 and deleted_at = 0
	for update),
routed as (
	update tenants set routing_version = greatest(routing_version + 1, ` + clockSQL + `)
	where no = $1 and exists (select from present)
	returning routing_version),
changed as (
	update endpoints p
	set version = p.version + 1, routing_version = r.routing_version, updated_at = $4
	from routed r, present c where p.no = c.no
	returning p.no, p.version, p.definition, p.routing_version),
versioned as (
	insert into endpoint_versions (endpoint, version, created_at, definition, routing_version)
	select no, version, $4, definition, routing_version from changed),
dropped as (
	delete from endpoint_secrets s using changed c
	where s.endpoint = c.no and (least(nullif(s.expires_at, 0), $5) <= $4)),
expiring as (
	update endpoint_secrets s set expires_at = $5 from changed c
	where s.endpoint = c.no and $5 > $4 and (s.expires_at = 0 or s.expires_at > $5)),
added as (
	insert into endpoint_secrets (endpoint, no, sealed, key_id, expires_at)
	select no, $6, $7, $8, $9 from changed)
select no from changed`

// RotateSecret implements store.Endpoints.
func (db *DB) RotateSecret(ctx context.Context, p store.RotateSecretParams) (store.EndpointRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var no int32
	err := db.side.QueryRow(ctx, rotateSecretSQL, int32(p.Tenant), [16]byte(p.ID), p.FromVersion, micros(p.Now), micros(p.ExpireAt),
		p.Secret.No, p.Secret.Sealed, p.Secret.KeyID, micros(p.Secret.ExpiresAt)).Scan(&no)
	if errors.Is(err, pgx.ErrNoRows) {
		err = db.whyUnchanged(ctx, p.Tenant, p.ID)
	}
	if err != nil {
		return store.EndpointRow{}, fail("rotate a secret", err)
	}
	return db.EndpointByNo(ctx, store.EndpointNo(no))
}

const dropSecretsSQL = `
delete from endpoint_secrets where ctid = any (array (
	select ctid from endpoint_secrets where expires_at <> 0 and expires_at <= $1 order by expires_at limit $2))`

// dropSecrets deletes secrets that have expired; see Retain.
func (db *DB) dropSecrets(ctx context.Context, now time.Time, limit int) (int, error) {
	tag, err := db.chores.Exec(ctx, dropSecretsSQL, micros(now), limit)
	return int(tag.RowsAffected()), err
}

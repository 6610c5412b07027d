package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// endpointColumns are what readEndpoint reads of a row p of endpoints. The
// secrets come along as arrays, so that an endpoint and its secrets are of one snapshot.
const endpointColumns = `p.no, p.tenant, p.id, p.version, p.definition, p.paused, p.disabled, p.disabled_reason,
	p.created_at, p.updated_at, p.deleted_at, p.uid, p.metadata,
	array(select s.no from endpoint_secrets s where s.endpoint = p.no order by s.no),
	array(select s.sealed from endpoint_secrets s where s.endpoint = p.no order by s.no),
	array(select s.key_id from endpoint_secrets s where s.endpoint = p.no order by s.no),
	array(select s.expires_at from endpoint_secrets s where s.endpoint = p.no order by s.no)`

// The tenant's row is locked to the end, so the routing versions of a tenant
// rise in the order of the commits: a loader that asks for what is newer than it
// has misses nothing.
const createEndpointSQL = `
with routed as (
	update tenants set routing_version = greatest(routing_version + 1, ` + clockSQL + `) where no = $1 and deleted_at = 0
	returning routing_version),
made as (
	insert into endpoints (id, tenant, routing_version, paused, disabled, disabled_reason, created_at, updated_at, definition, uid, metadata)
	select $2, $1, routing_version, $3, $4, $5, $6, $6, $7, $12, $13 from routed
	returning no, routing_version),
versioned as (
	insert into endpoint_versions (endpoint, version, created_at, definition, routing_version)
	select no, 1, $6, $7, routing_version from made),
secrets as (
	insert into endpoint_secrets (endpoint, no, sealed, key_id, expires_at)
	select made.no, s.no, s.sealed, s.key_id, s.expires_at
	from made, unnest($8::int4[], $9::bytea[], $10::text[], $11::int8[]) s (no, sealed, key_id, expires_at))
select no from made`

// CreateEndpoint implements store.Endpoints.
func (db *DB) CreateEndpoint(ctx context.Context, p store.CreateEndpointParams) (store.EndpointRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	e := p.Endpoint
	definition, metadata, err := encodeEndpoint(e)
	if err != nil {
		return store.EndpointRow{}, err
	}
	n := len(p.Secrets)
	no, sealed, keyID, expires := int4Column(n), byteColumn(n, 128), textColumn(n), int8Column(n)
	for _, s := range p.Secrets {
		no.int4(int32(s.No))
		sealed.bytes(s.Sealed)
		keyID.text(s.KeyID)
		expires.time(s.ExpiresAt)
	}
	var made int32
	err = db.side.QueryRow(ctx, createEndpointSQL, int32(p.Tenant), [16]byte(e.ID), e.Paused, e.Disabled, e.DisabledReason,
		micros(e.CreatedAt), definition, no, sealed, keyID, expires, e.UID, metadata).Scan(&made)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = store.ErrNotFound // no such tenant
	case isUIDTaken(err):
		err = store.ErrTaken
	case hasState(err, stateUniqueViolation):
		err = store.ErrConflict
	}
	if err != nil {
		return store.EndpointRow{}, fail("create an endpoint", err)
	}
	return db.EndpointByNo(ctx, store.EndpointNo(made))
}

func encodeEndpoint(e posthaste.Endpoint) (definition, metadata string, err error) {
	raw, err := json.Marshal(e.Definition)
	if err == nil {
		metadata, err = metadataJSON(e.Metadata)
	}
	if err != nil {
		return "", "", fmt.Errorf("encode the definition of an endpoint: %w", err)
	}
	return string(raw), metadata, nil
}

// isUIDTaken reports whether another living endpoint of the tenant has the uid.
func isUIDTaken(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == stateUniqueViolation && answer.ConstraintName == "endpoints_by_uid"
}

// The endpoint is locked before the tenant, and the tenant only if the endpoint
// stands at the expected version: a refused change leaves no trace.
const updateEndpointSQL = `
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
	set version = p.version + 1, routing_version = r.routing_version, paused = $4, disabled = $5, disabled_reason = $6,
		updated_at = $7, definition = $8, uid = $9, metadata = $10
	from routed r, present c where p.no = c.no
	returning p.no, p.version, p.routing_version),
versioned as (
	insert into endpoint_versions (endpoint, version, created_at, definition, routing_version)
	select no, version, $7, $8, routing_version from changed)
select no from changed`

// UpdateEndpoint implements store.Endpoints.
func (db *DB) UpdateEndpoint(ctx context.Context, p store.UpdateEndpointParams) (store.EndpointRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	e := p.Endpoint
	definition, metadata, err := encodeEndpoint(e)
	if err != nil {
		return store.EndpointRow{}, err
	}
	var no int32
	err = db.side.QueryRow(ctx, updateEndpointSQL, int32(p.Tenant), [16]byte(e.ID), p.FromVersion,
		e.Paused, e.Disabled, e.DisabledReason, micros(e.UpdatedAt), definition, e.UID, metadata).Scan(&no)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = db.whyUnchanged(ctx, p.Tenant, e.ID)
	case isUIDTaken(err):
		err = store.ErrTaken
	}
	if err != nil {
		return store.EndpointRow{}, fail("change an endpoint", err)
	}
	return db.EndpointByNo(ctx, store.EndpointNo(no))
}

// whyUnchanged says why no endpoint stood at the expected version.
func (db *DB) whyUnchanged(ctx context.Context, tenant store.TenantNo, id posthaste.ID) error {
	row, err := db.Endpoint(ctx, tenant, id)
	switch {
	case err != nil:
		return err
	case row.Tenant != tenant || !row.DeletedAt.IsZero():
		return store.ErrNotFound
	default:
		return store.ErrConflict
	}
}

const deleteEndpointSQL = `
with present as materialized (
	select no from endpoints
	where tenant = $1 and id = $2 and deleted_at = 0 and ($4 = 0 or version = $4)
	for update),
routed as (
	update tenants set routing_version = greatest(routing_version + 1, ` + clockSQL + `)
	where no = $1 and exists (select from present)
	returning routing_version)
update endpoints p set version = p.version + 1, deleted_at = $3, updated_at = $3, routing_version = r.routing_version
from routed r, present c where p.no = c.no
returning p.no`

// DeleteEndpoint implements store.Endpoints.
func (db *DB) DeleteEndpoint(ctx context.Context, p store.DeleteEndpointParams) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var no int32
	err := db.side.QueryRow(ctx, deleteEndpointSQL, int32(p.Tenant), [16]byte(p.ID), micros(p.Now), p.FromVersion).Scan(&no)
	if errors.Is(err, pgx.ErrNoRows) {
		err = db.whyUnchanged(ctx, p.Tenant, p.ID)
	}
	if err != nil {
		return fail("delete an endpoint", err)
	}
	return nil
}

const (
	endpointSQL      = `select ` + endpointColumns + ` from endpoints p where ($1 = 0 or p.tenant = $1) and p.id = $2`
	endpointByUIDSQL = `
select ` + endpointColumns + ` from endpoints p
where p.tenant = $1 and p.uid = $2 and p.uid <> '' and p.deleted_at = 0`
	endpointByNoSQL = `select ` + endpointColumns + ` from endpoints p where p.no = $1`

	listEndpointsTail = ` order by p.id desc limit $3`
	listEndpointsSQL  = `
select ` + endpointColumns + ` from endpoints p
where p.tenant = $1 and p.id < $2 and p.deleted_at = 0` + listEndpointsTail
	listEveryEndpointSQL = `
select ` + endpointColumns + ` from endpoints p
where p.tenant = $1 and p.id < $2` + listEndpointsTail
	listTenantsEndpointsSQL = `
select ` + endpointColumns + ` from endpoints p
where $1::int4 = 0 and p.id < $2 and p.deleted_at = 0` + listEndpointsTail
	listEveryonesEndpointsSQL = `
select ` + endpointColumns + ` from endpoints p
where $1::int4 = 0 and p.id < $2` + listEndpointsTail
)

// Endpoint implements store.Endpoints.
func (db *DB) Endpoint(ctx context.Context, tenant store.TenantNo, id posthaste.ID) (store.EndpointRow, error) {
	return usable(db.endpoint(ctx, endpointSQL, int32(tenant), [16]byte(id)))
}

// EndpointByUID implements store.Endpoints.
func (db *DB) EndpointByUID(ctx context.Context, tenant store.TenantNo, uid string) (store.EndpointRow, error) {
	return usable(db.endpoint(ctx, endpointByUIDSQL, int32(tenant), uid))
}

// EndpointByNo implements store.Endpoints.
func (db *DB) EndpointByNo(ctx context.Context, no store.EndpointNo) (store.EndpointRow, error) {
	return db.endpoint(ctx, endpointByNoSQL, int32(no))
}

// usable makes an error of an endpoint that can't be read.
func usable(row store.EndpointRow, err error) (store.EndpointRow, error) {
	if err == nil && row.Unusable != nil {
		return store.EndpointRow{}, fail("look up an endpoint", row.Unusable)
	}
	return row, err
}

func (db *DB) endpoint(ctx context.Context, sql string, args ...any) (store.EndpointRow, error) {
	rows, err := db.endpoints(ctx, db.lookups, sql, args...)
	if err == nil && len(rows) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.EndpointRow{}, fail("look up an endpoint", err)
	}
	return rows[0], nil
}

// ListEndpoints implements store.Endpoints.
func (db *DB) ListEndpoints(ctx context.Context, p store.ListEndpointsParams) ([]store.EndpointRow, error) {
	sql := map[[2]bool]string{ // all tenants, deleted ones too: each has its index
		{false, false}: listEndpointsSQL, {false, true}: listEveryEndpointSQL,
		{true, false}: listTenantsEndpointsSQL, {true, true}: listEveryonesEndpointsSQL,
	}[[2]bool{p.Tenant == 0, p.Deleted}]
	rows, err := db.endpoints(ctx, db.side, sql, int32(p.Tenant), before(p.Before), p.Limit)
	for _, row := range rows {
		err = errors.Join(err, row.Unusable)
	}
	if err != nil {
		return nil, fail("list endpoints", err)
	}
	return rows, nil
}

func (db *DB) endpoints(ctx context.Context, on *pool, sql string, args ...any) ([]store.EndpointRow, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	rows, err := on.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.EndpointRow, error) {
		var e endpointScan
		err := row.Scan(e.targets()...)
		if err != nil {
			return store.EndpointRow{}, err
		}
		return e.row(), nil
	})
}

// One statement, hence one snapshot. A tenant without endpoints to tell of is one row
// without an endpoint. Living endpoints are read by number, changes by version. The
// conditions on ranges, where equality would do, leave the planner one way: in the order
// of the index that begins with the tenant. Any other walks over other tenants' rows.
const (
	routingHead = `
select t.routing_version, t.name, t.deleted_at, coalesce(m.no, 0), coalesce(m.version, 0), coalesce(p.routing_version, 0), t.routing_version = $2 or `
	knownMark = `exists (select from endpoints k where k.no = $3 and k.tenant = $1 and k.version = $4 and k.routing_version = $2)
	or exists (select from endpoint_versions k where k.endpoint = $3 and k.version = $4 and k.routing_version = $2)`
	routingTail = `, p.no, p.tenant, p.id, p.version, p.definition, p.paused, p.disabled, p.disabled_reason,
	p.created_at, p.updated_at, p.deleted_at, p.uid, p.metadata, s.nos, s.sealed, s.key_ids, s.expiries
from tenants t
left join lateral (
	select m.no, m.version from endpoints m
	where m.tenant = t.no and m.routing_version >= t.routing_version order by m.routing_version, m.no limit 1) m on true
left join lateral (
	select * from endpoints p where p.tenant between t.no and t.no and `
	routingSecrets = `) p on true
left join lateral (
	select array_agg(s.no) as nos, array_agg(s.sealed) as sealed, array_agg(s.key_id) as key_ids, array_agg(s.expires_at) as expiries
	from (select * from endpoint_secrets s where s.endpoint = p.no order by s.endpoint, s.no) s) s on true
where t.no = $1
order by `
	livingRoutingSQL = routingHead + `true or $3::int4 = $4::int4` + routingTail + `p.deleted_at = 0 and (p.tenant, p.no) > ($1, $6) and $5::int8 = 0
	order by p.tenant, p.no limit $7` + routingSecrets + `p.no`
	changedRoutingSQL = routingHead + knownMark + routingTail + `(p.tenant, p.routing_version, p.no) > ($1, $5, $6)
	order by p.tenant, p.routing_version, p.no limit $7` + routingSecrets + `p.routing_version, p.no`
)

// Routing implements store.Endpoints.
func (db *DB) Routing(ctx context.Context, p store.RoutingParams) (store.Routing, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	sql, after := livingRoutingSQL, p.After
	if p.Since != (store.RoutingMark{}) {
		sql, after.Version = changedRoutingSQL, max(after.Version, p.Since.Version)
		if p.After == (store.RoutingCursor{}) {
			after.Endpoint = math.MaxInt32 // all that the mark's own change stamped is known
		}
	}
	var routing store.Routing
	found, known, deleted, stamped := false, false, int64(0), int64(0)
	mark := &routing.Mark
	rows, err := db.lookups.Query(ctx, sql, int32(p.Tenant), p.Since.Version, int32(p.Since.Endpoint), p.Since.EndpointVersion,
		after.Version, int32(after.Endpoint), p.Limit)
	if err == nil {
		var e endpointScan
		targets := []any{&mark.Version, &routing.Name, &deleted, (*int32)(&mark.Endpoint), &mark.EndpointVersion, &stamped, &known}
		_, err = pgx.ForEachRow(rows, append(targets, e.targets()...), func() error {
			found, routing.DeletedAt = true, timeAt(deleted)
			if e.no == nil || !known {
				return nil
			}
			routing.Endpoints = append(routing.Endpoints, e.row())
			routing.Next = store.RoutingCursor{Version: stamped, Endpoint: store.EndpointNo(*e.no)}
			return nil
		})
	}
	if err == nil && !found {
		err = store.ErrNotFound
	}
	if err != nil {
		return store.Routing{}, fail("load the routing of a tenant", err)
	}
	routing.Unknown = !known
	if len(routing.Endpoints) < p.Limit {
		routing.Next = store.RoutingCursor{}
	} else if p.Since == (store.RoutingMark{}) {
		routing.Next.Version = 0
	}
	return routing, nil
}

const definitionSQL = `select definition from endpoint_versions where endpoint = $1 and version = $2`

// Definition implements store.Endpoints.
func (db *DB) Definition(ctx context.Context, endpoint store.EndpointNo, version int) (posthaste.Definition, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var raw []byte
	var d posthaste.Definition
	err := db.side.QueryRow(ctx, definitionSQL, int32(endpoint), version).Scan(&raw)
	if errors.Is(err, pgx.ErrNoRows) {
		err = store.ErrNotFound
	}
	if err != nil {
		return d, fail("look up a definition", err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, undecodable(fmt.Sprintf("version %d of endpoint %d", version, endpoint), err)
	}
	return d, nil
}

// endpointScan takes endpointColumns in, all null where an outer join found none.
type endpointScan struct {
	no, tenant, version       *int32
	id                        *[16]byte
	definition, metadata      []byte
	paused, disabled          *bool
	reason, uid               *string
	created, updated, deleted *int64
	secretNos                 []int32
	sealed                    [][]byte
	keyIDs                    []string
	expires                   []int64
}

func (s *endpointScan) targets() []any {
	return []any{
		&s.no, &s.tenant, &s.id, &s.version, &s.definition, &s.paused, &s.disabled, &s.reason,
		&s.created, &s.updated, &s.deleted, &s.uid, &s.metadata, &s.secretNos, &s.sealed, &s.keyIDs, &s.expires,
	}
}

func (s *endpointScan) row() store.EndpointRow {
	row := store.EndpointRow{
		No: store.EndpointNo(*s.no), Tenant: store.TenantNo(*s.tenant),
		Endpoint: posthaste.Endpoint{
			ID: *s.id, Version: int(*s.version), Paused: *s.paused, Disabled: *s.disabled, DisabledReason: *s.reason,
			CreatedAt: timeAt(*s.created), UpdatedAt: timeAt(*s.updated), DeletedAt: timeAt(*s.deleted),
			UID: *s.uid,
		},
	}
	if err := errors.Join(json.Unmarshal(s.definition, &row.Definition), json.Unmarshal(s.metadata, &row.Metadata)); err != nil {
		row.Definition, row.Metadata = posthaste.Definition{}, nil
		row.Unusable = undecodable(fmt.Sprintf("the definition or the metadata of endpoint %d", row.No), err)
	}
	for i, no := range s.secretNos {
		row.Secrets = append(row.Secrets, store.SealedSecret{
			No: int(no), Sealed: s.sealed[i], KeyID: s.keyIDs[i], ExpiresAt: timeAt(s.expires[i]),
		})
	}
	return row
}

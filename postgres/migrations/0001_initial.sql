-- The tables of Posthaste on PostgreSQL 15 and newer.
--
-- events, deliveries and attempts are the truth. due and dead are indexes that
-- can be rebuilt from it, and replicas, gates and changes can be emptied: nothing is lost by it.
--
-- Times are whole microseconds since 1970 UTC, 0 for none, so that no session's
-- time zone matters. Ids are UUIDv7: a delivery's id is its event's id with the
-- last 20 bits (five hexadecimal digits) set to its number in the fan-out.
-- What a client or a receiver controls and nobody has validated is bytea, never
-- text: a stray byte must not abort the batch that it travels in.
--
-- No index holds a column that changes, so that every transition of a delivery
-- is a heap-only update. There are no foreign keys: each would lock its parent
-- once for every row of the hot path.

create table tenants (
    no              int4 generated always as identity primary key,
    name            text not null unique, -- a deleted one keeps it: its history is read by it
    version         int4 not null default 1,
    routing_version int8 not null default 0, -- rises with each change of one of its endpoints, and with its deletion
    created_at      int8 not null,
    updated_at      int8 not null default 0,
    deleted_at      int8 not null default 0,
    uid             text not null default '',
    metadata        json not null default '{}'
) with (fillfactor = 50);
create unique index tenants_by_uid on tenants (uid) where uid <> '' and deleted_at = 0;
create index tenants_living on tenants (no) where deleted_at = 0;

-- * is number 3, which the program counts on: it owns the endpoints that are of all tenants.
insert into tenants (name, created_at)
select name, (extract(epoch from clock_timestamp()) * 1000000)::int8
from unnest(array['default', 'operator', '*']) with ordinality as t (name, place)
order by place;

create table endpoints (
    no              int4 generated always as identity primary key,
    id              uuid not null unique,
    tenant          int4 not null,
    version         int4 not null default 1,
    routing_version int8 not null, -- the tenant's, when this row last changed
    paused          bool not null default false,
    disabled        bool not null default false,
    disabled_reason text not null default '',
    created_at      int8 not null,
    updated_at      int8 not null,
    deleted_at      int8 not null default 0, -- a tombstone stays while history names it
    uid             text not null default '',
    metadata        json not null default '{}',
    definition      json not null            -- json, not jsonb: kept as it was written
);
create index endpoints_by_tenant on endpoints (tenant, id);
create unique index endpoints_by_uid on endpoints (tenant, uid) where uid <> '' and deleted_at = 0;
-- For lists of the living, so that a page never walks over tombstones.
create index endpoints_living on endpoints (id) where deleted_at = 0;
create index endpoints_living_by_tenant on endpoints (tenant, id) where deleted_at = 0;
create index endpoints_by_routing on endpoints (tenant, routing_version);

create table endpoint_secrets (
    endpoint   int4 not null,
    no         int4 not null,
    expires_at int8 not null default 0,
    key_id     text not null,
    sealed     bytea not null,
    primary key (endpoint, no)
);
create index endpoint_secrets_expiring on endpoint_secrets (expires_at) where expires_at <> 0;

create table endpoint_versions ( -- append-only: an attempt names the version that it used
    endpoint   int4 not null,
    version    int4 not null,
    created_at int8 not null,
    definition json not null,
    primary key (endpoint, version)
);

create table sources (
    no         int4 generated always as identity primary key,
    id         uuid not null unique, -- random: it stands in a public URL
    tenant     int4 not null,
    version    int4 not null default 1,
    rejected   int4 not null default 0, -- deliveries rejected in a row
    created_at int8 not null,
    updated_at int8 not null,
    uid        text not null default '',
    key_id     text not null,
    sealed     bytea not null, -- all that is secret about it, JSON, as one
    metadata   json not null default '{}',
    definition json not null
) with (fillfactor = 50);
create unique index sources_by_uid on sources (tenant, uid) where uid <> '';
create index sources_by_tenant on sources (tenant, no);

create table rejections ( -- the newest of each source
    source     int4 not null,
    id         uuid not null,
    body_bytes int4 not null,
    reason     bytea not null,
    detail     bytea not null,
    hint       bytea not null,
    method     bytea not null,
    headers    bytea,
    body       bytea, -- its first bytes
    primary key (source, id)
);

create table events (
    id               uuid not null,
    tenant           int4 not null,
    fan_out          int4 not null, -- deliveries 1 … fan_out were made at acceptance
    type             text not null,
    source           text not null,
    content_type     bytea,
    content_encoding bytea,
    idempotency_key  bytea,
    order_key        bytea,
    traceparent      bytea,
    headers          bytea, -- forwarded; each name and value led by its length as a varint
    parent           uuid,
    correlation      uuid,  -- null: the event's own id
    source_headers   bytea, -- as a source received them, credentials masked; in the form of headers
    payload          bytea, -- null: erased
    primary key (tenant, id)
) partition by range (id);
alter table events alter payload set storage external; -- mostly compressed or too small to gain
create index events_by_parent on events (parent, id) where parent is not null;

-- Purged by walking the table in ranges of pages, so it needs no index on age.
create table idempotency (
    key       uuid not null, -- 16 bytes of a hash, as sum is
    sum       uuid not null,
    event     uuid not null,
    tenant    int4 not null,
    namespace int2 not null,
    primary key (namespace, tenant, key)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- Fixed width throughout: a new version of a row is never longer than the old
-- one, and finds room in its page (the leaves have fillfactor 50).
create table deliveries (
    id           uuid not null,
    run_at       int8 not null default 0, -- when the present run began
    expires_at   int8 not null default 0, -- when it is given up
    due_at       int8 not null default 0, -- names its row in due; 0: it has none
    finished_at  int8 not null default 0,
    tenant       int4 not null,
    endpoint     int4 not null,
    owner        int4 not null default 0, -- the epoch that leased it; 0: nobody
    attempts     int4 not null default 0, -- the highest number recorded
    state        int2 not null default 0, -- 0 pending, 1 delivered, 2 dead
    failures     int2 not null default 0, -- transient ones of the present run
    revoked      int2 not null default 0, -- times in a row
    last_outcome int2 not null default 0,
    reason       int2 not null default 0,
    primary key (id)
) partition by range (id);
create index deliveries_by_endpoint on deliveries (endpoint, id);

create table attempts (
    delivery         uuid not null,
    started_at       int8 not null,
    number           int4 not null,
    endpoint_version int4 not null default 0,
    outcome          int2 not null,
    cause            int2 not null default 0,
    status           int2 not null default 0,
    late             bool not null default false,
    total            int8 not null default 0, -- microseconds, like the parts below; null: did not happen
    dns              int8,
    connect          int8,
    tls              int8,
    first_byte       int8,
    replica          text not null default '',
    error            bytea,
    response_headers bytea,
    response_body    bytea,
    primary key (delivery, number)
) partition by range (delivery);

-- Work that waits: retries, replays, overflow, what was taken back. Empty in a
-- healthy system, and short-lived rows where it is not, hence the vacuuming.
create table due (
    endpoint int4 not null,
    owner    int4 not null default 0,
    due_at   int8 not null,
    delivery uuid not null,
    try_at   int8 not null default 0, -- at an ordered endpoint, where due_at is a position: not before
    primary key (endpoint, due_at, delivery)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);

create table dead (
    tenant   int4 not null,
    endpoint int4 not null,
    delivery uuid not null
) with (autovacuum_vacuum_scale_factor = 0.02);
create index dead_by_endpoint on dead (endpoint, delivery);
-- Last: of two indexes that cost the same, as on an empty table, the planner takes the younger.
alter table dead add primary key (tenant, delivery);

create table replicas (
    epoch     int4 generated always as identity primary key, -- never used twice
    name      text not null,
    busy      bool not null default true,
    delivers  bool not null default false, -- makes attempts
    beat_at   int8 not null, -- by this database's clock
    low_water uuid not null  -- every older delivery that it owns has a row in due
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

-- How the gates of endpoints stand, those that ever differed from an open way. May be
-- emptied: every gate is open then. What changes often, the slots of rate limits,
-- leaves changed_at alone, and so is a heap-only update.
create table gates (
    endpoint          int4 primary key,
    breaker           int2 not null default 0, -- 0 closed, 1 open, 2 half-open
    failures          int4 not null default 0, -- transient ones in a row
    openings          int4 not null default 0, -- since it was closed
    probe_number      int4 not null default 0,
    probe             uuid not null default '00000000-0000-0000-0000-000000000000', -- the attempt that decides while it is half-open
    open_until        int8 not null default 0,
    closed_at         int8 not null default 0,
    retry_after_until int8 not null default 0,
    failing_since     int8 not null default 0,
    failed_at         int8 not null default 0,
    slot              int8 not null default 0, -- the next regular time of an attempt
    retry_slot        int8 not null default 0, -- and of a retry
    changed_at        int8 not null default 0  -- by this database's clock; 0: never
) with (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);
create index changed_gates on gates (changed_at);

-- What became of events, for the live stream: a row for each kind of change that
-- a transaction makes, written by that transaction. Transactions are numbered as
-- they begin, and a reader compares the numbers with snapshots: see docs/adr/0010-changes.md.
create table changes (
    xid     int8 not null default pg_current_xact_id()::text::int8,
    at      int8 not null,
    kind    int2 not null, -- 1 event accepted, 2 delivery delivered, 3 delivery dead, 4 an endpoint's gate
    tenants int4[] not null,
    ids     uuid[] not null, -- of events, deliveries or endpoints, by the kind; as many as tenants
    detail  bytea,
    primary key (xid, kind)
) with (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
alter table changes alter tenants set storage external, alter ids set storage external; -- no time for compressing

-- One row: ids up to it may be gone, so no replay or resend begins there.
create table horizon (
    one bool primary key default true check (one),
    id  uuid not null
);
insert into horizon (id) values ('00000000-0000-0000-0000-000000000000');

create table settings (
    name  text primary key,
    value bytea not null
);

-- posthaste_id prints an id as the API does: prefix, "_" and 26 characters of
-- Crockford's base32 (TypeID 0.3).
create function posthaste_id(prefix text, id uuid) returns text
    language sql immutable strict parallel safe
return prefix || '_' || (
    select string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz',
        substring(b'00' || ('x' || replace(id::text, '-', ''))::bit(128) from place * 5 + 1 for 5)::bit(5)::int4 + 1, 1),
        '' order by place)
    from generate_series(0, 25) as place);

-- posthaste_uuid is its inverse: where uuid = posthaste_uuid('dlv_…') uses the index.
create function posthaste_uuid(printed text) returns uuid
    language sql immutable strict parallel safe
return (
    select string_agg(to_hex(substring(bits from 3 + place * 4 for 4)::bit(4)::int4), '' order by place)::uuid
    from generate_series(0, 31) as place,
        (select string_agg((strpos('0123456789abcdefghjkmnpqrstvwxyz', digit) - 1)::bit(5)::text, '' order by n)::bit(130) as bits
         from regexp_split_to_table(right(printed, 26), '') with ordinality as d (digit, n)) as b);

create function posthaste_time(micros int8) returns timestamptz
    language sql immutable strict parallel safe
return timestamptz 'epoch' + nullif(micros, 0) * interval '1 microsecond';

create view v_deliveries as
select posthaste_id('dlv', d.id) as id,
    posthaste_id('evt', (left(d.id::text, 31) || '00000')::uuid) as event_id,
    posthaste_id('ep', p.id) as endpoint_id,
    t.name as tenant,
    e.type,
    case when d.state = 0 and d.owner <> 0 then 'delivering'
         else (array['pending', 'delivered', 'dead'])[d.state + 1] end as status,
    (array['permanent failure', 'retries exhausted', 'expired', 'endpoint deleted', 'skipped', 'endpoint gone'])[nullif(d.reason, 0)] as reason,
    (array['delivered', 'transient', 'permanent', 'lost'])[nullif(d.last_outcome, 0)] as last_outcome,
    d.attempts, d.failures,
    posthaste_time(d.run_at) as run_at,
    posthaste_time(d.expires_at) as expires_at,
    posthaste_time(case when d.state = 0 and d.owner = 0 then greatest(d.due_at, (
        select u.try_at from due u where u.endpoint = d.endpoint and u.due_at = d.due_at and u.delivery = d.id)) end) as next_attempt_at,
    posthaste_time(d.finished_at) as finished_at,
    nullif(d.owner, 0) as owner,
    d.id as uuid
from deliveries d
join tenants t on t.no = d.tenant
left join endpoints p on p.no = d.endpoint
left join events e on e.tenant = d.tenant and e.id = (left(d.id::text, 31) || '00000')::uuid;

create view v_dead as
select v.* from dead x join v_deliveries v on v.uuid = x.delivery where v.status = 'dead';

create view v_attempts as
select posthaste_id('dlv', a.delivery) as delivery_id,
    a.number,
    posthaste_time(a.started_at) as started_at,
    a.total / 1000.0 as duration_ms,
    (array['delivered', 'transient', 'permanent', 'lost'])[a.outcome] as outcome,
    a.late,
    (array['dns', 'blocked_address', 'refused', 'connect_timeout', 'tls', 'write', 'header_timeout', 'body_timeout',
        'too_large', 'bad_response', 'status', 'handler', 'lost'])[nullif(a.cause, 0)] as cause,
    nullif(a.status, 0) as status_code,
    encode(a.error, 'escape') as error,
    a.replica,
    a.endpoint_version,
    encode(a.response_body, 'escape') as response_body,
    a.delivery as uuid
from attempts a;

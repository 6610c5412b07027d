-- The outbox of Posthaste in an application's PostgreSQL database, version 1.
--
-- An application enqueues events with posthaste.enqueue, in the transactions that make
-- the changes which the events tell of; a relay takes them to the engine. Run this in one
-- transaction, as the owner of the database or as another role that may create schemas
-- and roles. To run it again changes nothing. "posthaste outbox install" does so.

-- One installation at a time: "if not exists" alone fails when two come together.
select pg_advisory_xact_lock(1886871400, 0);

create schema if not exists posthaste;

create table if not exists posthaste.outbox_schema (
	version int primary key,
	installed_at timestamptz not null default now()
);

do $$
begin
	if (select max(version) from posthaste.outbox_schema) > 1 then
		raise 'the outbox in this database is of version %, which is newer than 1', (select max(version) from posthaste.outbox_schema);
	end if;
end $$;

-- The events that wait. A row leaves in the transaction that ends its relaying, so there
-- is nothing to clean up but what autovacuum does, which is told to come early.
--
-- The table has no checks: PostgreSQL reads the expression of each anew for every
-- statement, which costs a single insert more than all the rest. posthaste.enqueue checks,
-- and nobody else may insert.
create table if not exists posthaste.outbox (
	id bigint generated always as identity primary key,
	row_id uuid not null default gen_random_uuid(),
	enqueued_at timestamptz not null default now(),
	tenant text not null default 'default',
	type text not null,
	order_key text,
	idempotency_key text,
	content_type text not null default 'application/json',
	headers jsonb not null default '{}',
	payload bytea not null
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);

-- Rows with an order key are looked for by themselves: those of a key that has to wait
-- can be many, and others must not wait behind them. The + 0 leaves the planner no choice: on a
-- table that was empty when it looked, the primary key seems as good an order by id, and then
-- each look would pass over all rows without a key.
create index if not exists outbox_ordered on posthaste.outbox ((id + 0)) where order_key is not null;

-- What could not be accepted, with the reason, until it is retried or dropped.
create table if not exists posthaste.outbox_parked (
	id bigint primary key,
	row_id uuid not null unique,
	enqueued_at timestamptz not null,
	tenant text not null,
	type text not null,
	order_key text,
	idempotency_key text,
	content_type text not null,
	headers jsonb not null,
	payload bytea not null,
	code text not null,
	reason text not null,
	parked_at timestamptz not null default clock_timestamp()
);
create index if not exists outbox_parked_order on posthaste.outbox_parked (order_key) where order_key is not null;

-- The relays at work. The session of each holds the advisory lock (1886871402, no).
create table if not exists posthaste.outbox_relay (
	no int primary key,
	asleep boolean not null
);

-- 2 while a relay is asleep, 1 otherwise. A sequence and no row, since a sequence is read
-- as it is now: a transaction cannot overlook a relay that fell asleep after it began, and
-- no version of a row is left behind each time.
create sequence if not exists posthaste.outbox_asleep as int minvalue 1 maxvalue 2 start 1;

-- outbox_problem says what is wrong with an event, null if nothing is. What is usual is
-- compared first: a regular expression costs as much as an index entry.
create or replace function posthaste.outbox_problem(type text, payload bytea, idempotency_key text, tenant text, order_key text,
	content_type text, headers jsonb) returns text
language sql immutable as $$
	select case
		when type is null or octet_length(type) not between 1 and 128 or type collate "C" ~ '[^a-zA-Z0-9._/:-]'
			then 'type: want 1 to 128 of a-z A-Z 0-9 . _ - / :'
		when payload is null then 'payload: is null'
		when octet_length(payload) > 67108864 then 'payload: is larger than 64 MiB'
		when tenant <> 'default' and (octet_length(tenant) > 64 or tenant collate "C" !~ '^[a-zA-Z0-9]' or tenant collate "C" ~ '[^a-zA-Z0-9._-]')
			then 'tenant: want 1 to 64 of a-z A-Z 0-9 . _ -, beginning with a letter or a digit'
		when octet_length(order_key) not between 1 and 255 then 'order_key: want 1 to 255 bytes'
		when octet_length(idempotency_key) not between 1 and 255 then 'idempotency_key: want 1 to 255 bytes'
		when content_type <> 'application/json' and (octet_length(content_type) > 255 or content_type ~ '[[:cntrl:]]')
			then 'content_type: want at most 255 bytes without control characters'
		when headers <> '{}' and (jsonb_typeof(headers) <> 'object' or headers @? '$.* ? (@.type() != "string")')
			then 'headers: want an object of strings'
	end
$$;

-- enqueue stores an event with the transaction of the caller. It returns the row's id.
--
-- Enqueueing with an order_key holds a lock on it until the transaction ends, and another
-- writer of the key waits for it: so the ids of its rows are in the order of the
-- transactions.
--
-- A NOTIFY makes the transactions of the whole server commit one by one, so it is sent
-- only when a relay has to be woken by it.
create or replace function posthaste.enqueue(type text, payload bytea, idempotency_key text default null, tenant text default 'default',
	order_key text default null, content_type text default 'application/json', headers jsonb default '{}') returns uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
	made uuid := gen_random_uuid();
	problem text := posthaste.outbox_problem(type, payload, idempotency_key, tenant, order_key, content_type, headers);
begin
	if problem is not null then
		raise check_violation using message = 'posthaste.enqueue: ' || problem;
	end if;
	if order_key is not null then
		perform pg_advisory_xact_lock(1886871403, hashtext(order_key));
	end if;
	insert into posthaste.outbox (row_id, tenant, type, order_key, idempotency_key, content_type, headers, payload)
	values (made, coalesce(enqueue.tenant, 'default'), enqueue.type, enqueue.order_key, enqueue.idempotency_key,
		coalesce(enqueue.content_type, 'application/json'), coalesce(enqueue.headers, '{}'), enqueue.payload);
	if (select last_value from posthaste.outbox_asleep) = 2 then -- after the insert: the relay counts on it
		perform pg_notify('posthaste_outbox', '');
	end if;
	return made;
end $$;

-- The same for a payload that is text, such as a literal: its bytes in UTF-8.
create or replace function posthaste.enqueue(type text, payload text, idempotency_key text default null, tenant text default 'default',
	order_key text default null, content_type text default 'application/json', headers jsonb default '{}') returns uuid
language sql volatile as $$
	select posthaste.enqueue(type, pg_catalog.convert_to(payload, 'UTF8'), idempotency_key, tenant, order_key, content_type, headers)
$$;

-- The same for jsonb. PostgreSQL writes it in its own form: members sorted, numbers and
-- space as it likes.
create or replace function posthaste.enqueue(type text, payload jsonb, idempotency_key text default null, tenant text default 'default',
	order_key text default null, content_type text default 'application/json', headers jsonb default '{}') returns uuid
language sql volatile as $$
	select posthaste.enqueue(type, pg_catalog.convert_to(payload::text, 'UTF8'), idempotency_key, tenant, order_key, content_type, headers)
$$;

-- enqueue_all stores events, one for each place of the arrays, and returns their ids. An
-- array that is left out, or null at a place, means the default. Locks on order keys are
-- taken in one order, so that two such calls never wait for each other in a circle.
create or replace function posthaste.enqueue_all(types text[], payloads bytea[], idempotency_keys text[] default null, tenants text[] default null,
	order_keys text[] default null, content_types text[] default null, headers jsonb[] default null) returns uuid[]
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
	made uuid[] := array(select gen_random_uuid() from generate_subscripts(types, 1));
	problem text := (select 'event ' || e.place || ', ' || p
		from unnest(types, payloads, idempotency_keys, tenants, order_keys, content_types, enqueue_all.headers)
			with ordinality e (type, payload, idempotency_key, tenant, order_key, content_type, headers, place)
		cross join lateral posthaste.outbox_problem(e.type, e.payload, e.idempotency_key, e.tenant, e.order_key, e.content_type, e.headers) p
		where p is not null limit 1);
begin
	if problem is not null then
		raise check_violation using message = 'posthaste.enqueue_all: ' || problem;
	end if;
	if order_keys is not null then
		perform pg_advisory_xact_lock(1886871403, key)
		from (select distinct hashtext(k) as key from unnest(order_keys) k where k is not null order by 1 offset 0) keys;
	end if;
	insert into posthaste.outbox (row_id, tenant, type, order_key, idempotency_key, content_type, headers, payload)
	select e.row_id, coalesce(e.tenant, 'default'), e.type, e.order_key, e.idempotency_key,
		coalesce(e.content_type, 'application/json'), coalesce(e.headers, '{}'), e.payload
	from unnest(made, types, payloads, idempotency_keys, tenants, order_keys, content_types, enqueue_all.headers)
		with ordinality e (row_id, type, payload, idempotency_key, tenant, order_key, content_type, headers, place)
	order by e.place;
	if (select last_value from posthaste.outbox_asleep) = 2 then
		perform pg_notify('posthaste_outbox', '');
	end if;
	return made;
end $$;

-- The least that each side needs: an application may enqueue and read nothing, a relay may
-- move what is in the outbox. Grant them to the roles that log in.
do $$
begin
	if not exists (select from pg_roles where rolname = 'posthaste_outbox_app') then
		create role posthaste_outbox_app nologin;
	end if;
	if not exists (select from pg_roles where rolname = 'posthaste_outbox_relay') then
		create role posthaste_outbox_relay nologin;
	end if;
exception when duplicate_object or unique_violation then
	null; -- made at the same time from another database: roles are the server's
end $$;
revoke all on function posthaste.enqueue(text, bytea, text, text, text, text, jsonb), posthaste.enqueue(text, text, text, text, text, text, jsonb),
	posthaste.enqueue(text, jsonb, text, text, text, text, jsonb), posthaste.enqueue_all, posthaste.outbox_problem from public;
grant usage on schema posthaste to posthaste_outbox_app, posthaste_outbox_relay;
grant execute on function posthaste.enqueue(text, bytea, text, text, text, text, jsonb), posthaste.enqueue(text, text, text, text, text, text, jsonb),
	posthaste.enqueue(text, jsonb, text, text, text, text, jsonb), posthaste.enqueue_all to posthaste_outbox_app;
grant select on posthaste.outbox_schema to posthaste_outbox_relay;
grant select, insert, update, delete on posthaste.outbox, posthaste.outbox_parked, posthaste.outbox_relay to posthaste_outbox_relay;
grant select, update on sequence posthaste.outbox_asleep to posthaste_outbox_relay;

insert into posthaste.outbox_schema (version) values (1) on conflict do nothing;

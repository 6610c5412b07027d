-- A PostgreSQL database of the first schema, filled by the first version and dumped
-- after that was killed: 27 events; 60 deliveries, of which 49 delivered,
-- 3 dead, 5 due and 3 leased; endpoints with a breaker that is open, a rate limit, an
-- order; a source with an event and a rejection.
-- Master key: dXBncmFkZS11cGdyYWRlLXVwZ3JhZGUtdXBncmFkZTA=

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

CREATE FUNCTION public.posthaste_id(prefix text, id uuid) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((prefix || '_'::text) || (SELECT string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz'::text, (((SUBSTRING((('00'::"bit")::bit varying || ((('x'::text || replace((posthaste_id.id)::text, '-'::text, ''::text)))::bit(128))::bit varying) FROM ((place.place * 5) + 1) FOR 5))::bit(5))::integer + 1), 1), ''::text ORDER BY place.place) AS string_agg FROM generate_series(0, 25) place(place)));

CREATE FUNCTION public.posthaste_time(micros bigint) RETURNS timestamp with time zone
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ('1970-01-01 00:00:00+00'::timestamp with time zone + ((NULLIF(micros, 0))::double precision * '00:00:00.000001'::interval));

CREATE FUNCTION public.posthaste_uuid(printed text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN (SELECT (string_agg(to_hex(((SUBSTRING(b.bits FROM (3 + (place.place * 4)) FOR 4))::bit(4))::integer), ''::text ORDER BY place.place))::uuid AS string_agg FROM generate_series(0, 31) place(place), (SELECT (string_agg((((strpos('0123456789abcdefghjkmnpqrstvwxyz'::text, d.digit) - 1))::bit(5))::text, ''::text ORDER BY d.n))::bit(130) AS bits FROM regexp_split_to_table("right"(posthaste_uuid.printed, 26), ''::text) WITH ORDINALITY d(digit, n)) b);

SET default_tablespace = '';

CREATE TABLE public.attempts (
    delivery uuid NOT NULL,
    started_at bigint NOT NULL,
    number integer NOT NULL,
    endpoint_version integer DEFAULT 0 NOT NULL,
    outcome smallint NOT NULL,
    cause smallint DEFAULT 0 NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    late boolean DEFAULT false NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    dns bigint,
    connect bigint,
    tls bigint,
    first_byte bigint,
    replica text DEFAULT ''::text NOT NULL,
    error bytea,
    response_headers bytea,
    response_body bytea
)
PARTITION BY RANGE (delivery);

SET default_table_access_method = heap;

CREATE TABLE public.attempts_20261201 (
    delivery uuid NOT NULL,
    started_at bigint NOT NULL,
    number integer NOT NULL,
    endpoint_version integer DEFAULT 0 NOT NULL,
    outcome smallint NOT NULL,
    cause smallint DEFAULT 0 NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    late boolean DEFAULT false NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    dns bigint,
    connect bigint,
    tls bigint,
    first_byte bigint,
    replica text DEFAULT ''::text NOT NULL,
    error bytea,
    response_headers bytea,
    response_body bytea
)
WITH (autovacuum_vacuum_insert_scale_factor='0.2');

CREATE TABLE public.attempts_20261202 (
    delivery uuid NOT NULL,
    started_at bigint NOT NULL,
    number integer NOT NULL,
    endpoint_version integer DEFAULT 0 NOT NULL,
    outcome smallint NOT NULL,
    cause smallint DEFAULT 0 NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    late boolean DEFAULT false NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    dns bigint,
    connect bigint,
    tls bigint,
    first_byte bigint,
    replica text DEFAULT ''::text NOT NULL,
    error bytea,
    response_headers bytea,
    response_body bytea
)
WITH (autovacuum_vacuum_insert_scale_factor='0.2');

CREATE TABLE public.attempts_20261203 (
    delivery uuid NOT NULL,
    started_at bigint NOT NULL,
    number integer NOT NULL,
    endpoint_version integer DEFAULT 0 NOT NULL,
    outcome smallint NOT NULL,
    cause smallint DEFAULT 0 NOT NULL,
    status smallint DEFAULT 0 NOT NULL,
    late boolean DEFAULT false NOT NULL,
    total bigint DEFAULT 0 NOT NULL,
    dns bigint,
    connect bigint,
    tls bigint,
    first_byte bigint,
    replica text DEFAULT ''::text NOT NULL,
    error bytea,
    response_headers bytea,
    response_body bytea
)
WITH (autovacuum_vacuum_insert_scale_factor='0.2');

CREATE TABLE public.changes (
    xid bigint DEFAULT ((pg_current_xact_id())::text)::bigint NOT NULL,
    at bigint NOT NULL,
    kind smallint NOT NULL,
    tenants integer[] NOT NULL,
    ids uuid[] NOT NULL,
    detail bytea
)
WITH (toast_tuple_target='8160', autovacuum_vacuum_scale_factor='0.05');
ALTER TABLE ONLY public.changes ALTER COLUMN tenants SET STORAGE EXTERNAL;
ALTER TABLE ONLY public.changes ALTER COLUMN ids SET STORAGE EXTERNAL;

CREATE TABLE public.dead (
    tenant integer NOT NULL,
    endpoint integer NOT NULL,
    delivery uuid NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE public.deliveries (
    id uuid NOT NULL,
    run_at bigint DEFAULT 0 NOT NULL,
    expires_at bigint DEFAULT 0 NOT NULL,
    due_at bigint DEFAULT 0 NOT NULL,
    finished_at bigint DEFAULT 0 NOT NULL,
    tenant integer NOT NULL,
    endpoint integer NOT NULL,
    owner integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    state smallint DEFAULT 0 NOT NULL,
    failures smallint DEFAULT 0 NOT NULL,
    revoked smallint DEFAULT 0 NOT NULL,
    last_outcome smallint DEFAULT 0 NOT NULL,
    reason smallint DEFAULT 0 NOT NULL
)
PARTITION BY RANGE (id);

CREATE TABLE public.deliveries_20261201 (
    id uuid NOT NULL,
    run_at bigint DEFAULT 0 NOT NULL,
    expires_at bigint DEFAULT 0 NOT NULL,
    due_at bigint DEFAULT 0 NOT NULL,
    finished_at bigint DEFAULT 0 NOT NULL,
    tenant integer NOT NULL,
    endpoint integer NOT NULL,
    owner integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    state smallint DEFAULT 0 NOT NULL,
    failures smallint DEFAULT 0 NOT NULL,
    revoked smallint DEFAULT 0 NOT NULL,
    last_outcome smallint DEFAULT 0 NOT NULL,
    reason smallint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_insert_scale_factor='0.2');

CREATE TABLE public.deliveries_20261202 (
    id uuid NOT NULL,
    run_at bigint DEFAULT 0 NOT NULL,
    expires_at bigint DEFAULT 0 NOT NULL,
    due_at bigint DEFAULT 0 NOT NULL,
    finished_at bigint DEFAULT 0 NOT NULL,
    tenant integer NOT NULL,
    endpoint integer NOT NULL,
    owner integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    state smallint DEFAULT 0 NOT NULL,
    failures smallint DEFAULT 0 NOT NULL,
    revoked smallint DEFAULT 0 NOT NULL,
    last_outcome smallint DEFAULT 0 NOT NULL,
    reason smallint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_insert_scale_factor='0.2');

CREATE TABLE public.deliveries_20261203 (
    id uuid NOT NULL,
    run_at bigint DEFAULT 0 NOT NULL,
    expires_at bigint DEFAULT 0 NOT NULL,
    due_at bigint DEFAULT 0 NOT NULL,
    finished_at bigint DEFAULT 0 NOT NULL,
    tenant integer NOT NULL,
    endpoint integer NOT NULL,
    owner integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    state smallint DEFAULT 0 NOT NULL,
    failures smallint DEFAULT 0 NOT NULL,
    revoked smallint DEFAULT 0 NOT NULL,
    last_outcome smallint DEFAULT 0 NOT NULL,
    reason smallint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.05', autovacuum_vacuum_insert_scale_factor='0.2');

CREATE TABLE public.due (
    endpoint integer NOT NULL,
    owner integer DEFAULT 0 NOT NULL,
    due_at bigint NOT NULL,
    delivery uuid NOT NULL,
    try_at bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='70', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.05');

CREATE TABLE public.endpoint_secrets (
    endpoint integer NOT NULL,
    no integer NOT NULL,
    expires_at bigint DEFAULT 0 NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL
);

CREATE TABLE public.endpoint_versions (
    endpoint integer NOT NULL,
    version integer NOT NULL,
    created_at bigint NOT NULL,
    definition json NOT NULL
);

CREATE TABLE public.endpoints (
    no integer NOT NULL,
    id uuid NOT NULL,
    tenant integer NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    routing_version bigint NOT NULL,
    paused boolean DEFAULT false NOT NULL,
    disabled boolean DEFAULT false NOT NULL,
    disabled_reason text DEFAULT ''::text NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    deleted_at bigint DEFAULT 0 NOT NULL,
    uid text DEFAULT ''::text NOT NULL,
    metadata json DEFAULT '{}'::json NOT NULL,
    definition json NOT NULL
);

ALTER TABLE public.endpoints ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.endpoints_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.events (
    id uuid NOT NULL,
    tenant integer NOT NULL,
    fan_out integer NOT NULL,
    type text NOT NULL,
    source text NOT NULL,
    content_type bytea,
    content_encoding bytea,
    idempotency_key bytea,
    order_key bytea,
    traceparent bytea,
    headers bytea,
    parent uuid,
    correlation uuid,
    source_headers bytea,
    payload bytea
)
PARTITION BY RANGE (id);
ALTER TABLE ONLY public.events ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE public.events_20261201 (
    id uuid NOT NULL,
    tenant integer NOT NULL,
    fan_out integer NOT NULL,
    type text NOT NULL,
    source text NOT NULL,
    content_type bytea,
    content_encoding bytea,
    idempotency_key bytea,
    order_key bytea,
    traceparent bytea,
    headers bytea,
    parent uuid,
    correlation uuid,
    source_headers bytea,
    payload bytea
)
WITH (autovacuum_vacuum_insert_scale_factor='0.2');
ALTER TABLE ONLY public.events_20261201 ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE public.events_20261202 (
    id uuid NOT NULL,
    tenant integer NOT NULL,
    fan_out integer NOT NULL,
    type text NOT NULL,
    source text NOT NULL,
    content_type bytea,
    content_encoding bytea,
    idempotency_key bytea,
    order_key bytea,
    traceparent bytea,
    headers bytea,
    parent uuid,
    correlation uuid,
    source_headers bytea,
    payload bytea
)
WITH (autovacuum_vacuum_insert_scale_factor='0.2');
ALTER TABLE ONLY public.events_20261202 ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE public.events_20261203 (
    id uuid NOT NULL,
    tenant integer NOT NULL,
    fan_out integer NOT NULL,
    type text NOT NULL,
    source text NOT NULL,
    content_type bytea,
    content_encoding bytea,
    idempotency_key bytea,
    order_key bytea,
    traceparent bytea,
    headers bytea,
    parent uuid,
    correlation uuid,
    source_headers bytea,
    payload bytea
)
WITH (autovacuum_vacuum_insert_scale_factor='0.2');
ALTER TABLE ONLY public.events_20261203 ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE public.gates (
    endpoint integer NOT NULL,
    breaker smallint DEFAULT 0 NOT NULL,
    failures integer DEFAULT 0 NOT NULL,
    openings integer DEFAULT 0 NOT NULL,
    probe_number integer DEFAULT 0 NOT NULL,
    probe uuid DEFAULT '00000000-0000-0000-0000-000000000000'::uuid NOT NULL,
    open_until bigint DEFAULT 0 NOT NULL,
    closed_at bigint DEFAULT 0 NOT NULL,
    retry_after_until bigint DEFAULT 0 NOT NULL,
    failing_since bigint DEFAULT 0 NOT NULL,
    failed_at bigint DEFAULT 0 NOT NULL,
    slot bigint DEFAULT 0 NOT NULL,
    retry_slot bigint DEFAULT 0 NOT NULL,
    changed_at bigint DEFAULT 0 NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');

CREATE TABLE public.horizon (
    one boolean DEFAULT true NOT NULL,
    id uuid NOT NULL,
    CONSTRAINT horizon_one_check CHECK (one)
);

CREATE TABLE public.idempotency (
    key uuid NOT NULL,
    sum uuid NOT NULL,
    event uuid NOT NULL,
    tenant integer NOT NULL,
    namespace smallint NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.05');

CREATE TABLE public.posthaste_schema (
    name text NOT NULL,
    sha256 bytea NOT NULL,
    applied_at timestamp with time zone NOT NULL
);

CREATE TABLE public.rejections (
    source integer NOT NULL,
    id uuid NOT NULL,
    body_bytes integer NOT NULL,
    reason bytea NOT NULL,
    detail bytea NOT NULL,
    hint bytea NOT NULL,
    method bytea NOT NULL,
    headers bytea,
    body bytea
);

CREATE TABLE public.replicas (
    epoch integer NOT NULL,
    name text NOT NULL,
    busy boolean DEFAULT true NOT NULL,
    delivers boolean DEFAULT false NOT NULL,
    beat_at bigint NOT NULL,
    low_water uuid NOT NULL
)
WITH (fillfactor='50', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');

ALTER TABLE public.replicas ALTER COLUMN epoch ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.replicas_epoch_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.settings (
    name text NOT NULL,
    value bytea NOT NULL
);

CREATE TABLE public.sources (
    no integer NOT NULL,
    id uuid NOT NULL,
    tenant integer NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    rejected integer DEFAULT 0 NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    uid text DEFAULT ''::text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    metadata json DEFAULT '{}'::json NOT NULL,
    definition json NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE public.sources ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.sources_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE public.tenants (
    no integer NOT NULL,
    name text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    routing_version bigint DEFAULT 0 NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint DEFAULT 0 NOT NULL,
    deleted_at bigint DEFAULT 0 NOT NULL,
    uid text DEFAULT ''::text NOT NULL,
    metadata json DEFAULT '{}'::json NOT NULL
)
WITH (fillfactor='50');

ALTER TABLE public.tenants ALTER COLUMN no ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.tenants_no_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW public.v_attempts AS
 SELECT public.posthaste_id('dlv'::text, a.delivery) AS delivery_id,
    a.number,
    public.posthaste_time(a.started_at) AS started_at,
    ((a.total)::numeric / 1000.0) AS duration_ms,
    (ARRAY['delivered'::text, 'transient'::text, 'permanent'::text, 'lost'::text])[a.outcome] AS outcome,
    a.late,
    (ARRAY['dns'::text, 'blocked_address'::text, 'refused'::text, 'connect_timeout'::text, 'tls'::text, 'write'::text, 'header_timeout'::text, 'body_timeout'::text, 'too_large'::text, 'bad_response'::text, 'status'::text, 'handler'::text, 'lost'::text])[NULLIF(a.cause, 0)] AS cause,
    NULLIF(a.status, 0) AS status_code,
    encode(a.error, 'escape'::text) AS error,
    a.replica,
    a.endpoint_version,
    encode(a.response_body, 'escape'::text) AS response_body,
    a.delivery AS uuid
   FROM public.attempts a;

CREATE VIEW public.v_deliveries AS
 SELECT public.posthaste_id('dlv'::text, d.id) AS id,
    public.posthaste_id('evt'::text, (("left"((d.id)::text, 31) || '00000'::text))::uuid) AS event_id,
    public.posthaste_id('ep'::text, p.id) AS endpoint_id,
    t.name AS tenant,
    e.type,
        CASE
            WHEN ((d.state = 0) AND (d.owner <> 0)) THEN 'delivering'::text
            ELSE (ARRAY['pending'::text, 'delivered'::text, 'dead'::text])[(d.state + 1)]
        END AS status,
    (ARRAY['permanent failure'::text, 'retries exhausted'::text, 'expired'::text, 'endpoint deleted'::text, 'skipped'::text, 'endpoint gone'::text])[NULLIF(d.reason, 0)] AS reason,
    (ARRAY['delivered'::text, 'transient'::text, 'permanent'::text, 'lost'::text])[NULLIF(d.last_outcome, 0)] AS last_outcome,
    d.attempts,
    d.failures,
    public.posthaste_time(d.run_at) AS run_at,
    public.posthaste_time(d.expires_at) AS expires_at,
    public.posthaste_time(
        CASE
            WHEN ((d.state = 0) AND (d.owner = 0)) THEN GREATEST(d.due_at, ( SELECT u.try_at
               FROM public.due u
              WHERE ((u.endpoint = d.endpoint) AND (u.due_at = d.due_at) AND (u.delivery = d.id))))
            ELSE NULL::bigint
        END) AS next_attempt_at,
    public.posthaste_time(d.finished_at) AS finished_at,
    NULLIF(d.owner, 0) AS owner,
    d.id AS uuid
   FROM (((public.deliveries d
     JOIN public.tenants t ON ((t.no = d.tenant)))
     LEFT JOIN public.endpoints p ON ((p.no = d.endpoint)))
     LEFT JOIN public.events e ON (((e.tenant = d.tenant) AND (e.id = (("left"((d.id)::text, 31) || '00000'::text))::uuid))));

CREATE VIEW public.v_dead AS
 SELECT v.id,
    v.event_id,
    v.endpoint_id,
    v.tenant,
    v.type,
    v.status,
    v.reason,
    v.last_outcome,
    v.attempts,
    v.failures,
    v.run_at,
    v.expires_at,
    v.next_attempt_at,
    v.finished_at,
    v.owner,
    v.uuid
   FROM (public.dead x
     JOIN public.v_deliveries v ON ((v.uuid = x.delivery)))
  WHERE (v.status = 'dead'::text);

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261201 FOR VALUES FROM ('01a22ee6-b000-0000-0000-000000000000') TO ('01a2340d-0c00-0000-0000-000000000000');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261202 FOR VALUES FROM ('01a2340d-0c00-0000-0000-000000000000') TO ('01a23933-6800-0000-0000-000000000000');

ALTER TABLE ONLY public.attempts ATTACH PARTITION public.attempts_20261203 FOR VALUES FROM ('01a23933-6800-0000-0000-000000000000') TO ('01a23e59-c400-0000-0000-000000000000');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261201 FOR VALUES FROM ('01a22ee6-b000-0000-0000-000000000000') TO ('01a2340d-0c00-0000-0000-000000000000');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261202 FOR VALUES FROM ('01a2340d-0c00-0000-0000-000000000000') TO ('01a23933-6800-0000-0000-000000000000');

ALTER TABLE ONLY public.deliveries ATTACH PARTITION public.deliveries_20261203 FOR VALUES FROM ('01a23933-6800-0000-0000-000000000000') TO ('01a23e59-c400-0000-0000-000000000000');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261201 FOR VALUES FROM ('01a22ee6-b000-0000-0000-000000000000') TO ('01a2340d-0c00-0000-0000-000000000000');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261202 FOR VALUES FROM ('01a2340d-0c00-0000-0000-000000000000') TO ('01a23933-6800-0000-0000-000000000000');

ALTER TABLE ONLY public.events ATTACH PARTITION public.events_20261203 FOR VALUES FROM ('01a23933-6800-0000-0000-000000000000') TO ('01a23e59-c400-0000-0000-000000000000');

INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0a7b-7000-960b-d3e211500001', 1796089711237611, 1, 1, 1, 0, 200, false, 1368, NULL, 214, NULL, 1085, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0a7b-7000-960b-d3e211500003', 1796089711243188, 1, 1, 1, 0, 200, false, 1287, NULL, NULL, NULL, 1240, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0a7b-7000-960b-d3e211500002', 1796089711268115, 1, 1, 1, 0, 200, false, 332, NULL, NULL, NULL, 254, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0aac-7000-ae50-f362ecb00001', 1796089711277477, 1, 1, 1, 0, 200, false, 1924, NULL, NULL, NULL, 1891, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0aac-7000-ae50-f362ecb00002', 1796089711305044, 1, 1, 1, 0, 200, false, 134, NULL, NULL, NULL, 113, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0ac1-7000-b8d7-9298b6f00001', 1796089711302234, 1, 1, 1, 0, 200, false, 905, NULL, NULL, NULL, 201, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0ac1-7000-b8d7-9298b6f00002', 1796089711306462, 1, 1, 1, 0, 200, false, 191, NULL, NULL, NULL, 175, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0aac-7000-ae50-f362ecb00003', 1796089711312800, 1, 1, 1, 0, 200, false, 375, NULL, NULL, NULL, 334, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0ac1-7000-b8d7-9298b6f00003', 1796089711323455, 1, 1, 1, 0, 200, false, 372, NULL, NULL, NULL, 325, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0ae8-7000-962e-ab9be6400001', 1796089711340292, 1, 1, 1, 0, 200, false, 756, NULL, NULL, NULL, 374, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0ae8-7000-962e-ab9be6400002', 1796089711342319, 1, 1, 1, 0, 200, false, 196, NULL, NULL, NULL, 169, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0ae8-7000-962e-ab9be6400003', 1796089711342789, 1, 1, 1, 0, 200, false, 181, NULL, NULL, NULL, 161, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b05-7000-adf7-881321d00001', 1796089711366367, 1, 1, 1, 0, 200, false, 611, NULL, NULL, NULL, 134, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b05-7000-adf7-881321d00002', 1796089711368171, 1, 1, 1, 0, 200, false, 328, NULL, NULL, NULL, 136, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b05-7000-adf7-881321d00003', 1796089711369010, 1, 1, 1, 0, 200, false, 206, NULL, NULL, NULL, 180, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b1e-7000-86a4-eb6854100001', 1796089711393331, 1, 1, 1, 0, 200, false, 1025, NULL, NULL, NULL, 196, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b1e-7000-86a4-eb6854100002', 1796089711395409, 1, 1, 1, 0, 200, false, 290, NULL, NULL, NULL, 269, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b1e-7000-86a4-eb6854100003', 1796089711395097, 1, 1, 1, 0, 200, false, 219, NULL, NULL, NULL, 198, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b3d-7000-8131-3d6a70200001', 1796089711423576, 1, 1, 1, 0, 200, false, 690, NULL, NULL, NULL, 600, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b3d-7000-8131-3d6a70200002', 1796089711428673, 1, 1, 1, 0, 200, false, 1665, NULL, NULL, NULL, 1637, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b3d-7000-8131-3d6a70200003', 1796089711426056, 1, 1, 1, 0, 200, false, 464, NULL, NULL, NULL, 431, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b55-7000-967b-526666900001', 1796089711447855, 1, 1, 1, 0, 200, false, 1287, NULL, NULL, NULL, 208, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b55-7000-967b-526666900002', 1796089711451120, 1, 1, 1, 0, 200, false, 243, NULL, NULL, NULL, 217, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b55-7000-967b-526666900003', 1796089711449722, 1, 1, 1, 0, 200, false, 501, NULL, NULL, NULL, 471, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b73-7000-95e0-682673e00001', 1796089711477424, 1, 1, 1, 0, 200, false, 665, NULL, NULL, NULL, 628, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b73-7000-95e0-682673e00002', 1796089711480192, 1, 1, 1, 0, 200, false, 220, NULL, NULL, NULL, 197, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b73-7000-95e0-682673e00003', 1796089711479209, 1, 1, 1, 0, 200, false, 520, NULL, NULL, NULL, 386, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b91-7000-817f-40ddf2100001', 1796089711507045, 1, 1, 1, 0, 200, false, 2188, NULL, NULL, NULL, 2145, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b91-7000-817f-40ddf2100002', 1796089711509674, 1, 1, 1, 0, 200, false, 296, NULL, NULL, NULL, 275, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0b91-7000-817f-40ddf2100003', 1796089711508781, 1, 1, 1, 0, 200, false, 764, NULL, 114, NULL, 601, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0bab-7000-a9a3-0539be800001', 1796089711533268, 1, 1, 1, 0, 200, false, 315, NULL, NULL, NULL, 283, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0bab-7000-a9a3-0539be800002', 1796089711535145, 1, 1, 1, 0, 200, false, 220, NULL, NULL, NULL, 200, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0bab-7000-a9a3-0539be800003', 1796089711534873, 1, 1, 1, 0, 200, false, 445, NULL, NULL, NULL, 424, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0bc7-7000-92bf-eb72e7c00001', 1796089711567262, 1, 1, 1, 0, 200, false, 2554, NULL, NULL, NULL, 2511, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0bc7-7000-92bf-eb72e7c00002', 1796089711570064, 1, 1, 1, 0, 200, false, 672, NULL, NULL, NULL, 217, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0bc7-7000-92bf-eb72e7c00003', 1796089711569762, 1, 1, 1, 0, 200, false, 576, NULL, NULL, NULL, 276, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c08-7000-a026-756826900001', 1796089711626522, 1, 1, 1, 0, 200, false, 778, NULL, NULL, NULL, 689, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c08-7000-a026-756826900002', 1796089711626387, 1, 1, 3, 11, 400, false, 1560, NULL, 883, NULL, 624, 'first', '\x74686520726563656976657220616e73776572656420343030', '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c1d-7000-ae39-f6bd1ea00001', 1796089711647132, 1, 1, 1, 0, 200, false, 432, NULL, NULL, NULL, 348, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c1d-7000-ae39-f6bd1ea00002', 1796089711646959, 1, 1, 3, 11, 400, false, 1237, NULL, NULL, NULL, 826, 'first', '\x74686520726563656976657220616e73776572656420343030', '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c30-7000-8e96-d37216300001', 1796089711666009, 1, 1, 1, 0, 200, false, 379, NULL, NULL, NULL, 360, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c30-7000-8e96-d37216300002', 1796089711665887, 1, 1, 3, 11, 400, false, 390, NULL, NULL, NULL, 358, 'first', '\x74686520726563656976657220616e73776572656420343030', '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c45-7000-a36d-b3dc49000001', 1796089711686694, 1, 1, 1, 0, 200, false, 328, NULL, NULL, NULL, 305, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c45-7000-a36d-b3dc49000002', 1796089711686575, 1, 1, 2, 11, 503, false, 2149, NULL, 370, NULL, 1602, 'first', '\x74686520726563656976657220616e73776572656420353033', '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c5b-7000-bbeb-ae1d11800001', 1796089711709492, 1, 1, 1, 0, 200, false, 242, NULL, NULL, NULL, 211, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c5b-7000-bbeb-ae1d11800002', 1796089711709386, 1, 1, 2, 11, 503, false, 834, NULL, NULL, NULL, 801, 'first', '\x74686520726563656976657220616e73776572656420353033', '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c71-7000-806e-3b8453b00001', 1796089711730376, 1, 1, 1, 0, 200, false, 278, NULL, NULL, NULL, 248, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c71-7000-806e-3b8453b00002', 1796089711730229, 1, 1, 2, 11, 503, false, 718, NULL, NULL, NULL, 252, 'first', '\x74686520726563656976657220616e73776572656420353033', '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c84-7000-a2c7-67ebb0c00001', 1796089711749646, 1, 1, 1, 0, 200, false, 576, NULL, NULL, NULL, 541, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c99-7000-a3c4-25e5cff00001', 1796089711770548, 1, 1, 1, 0, 200, false, 464, NULL, NULL, NULL, 433, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0cad-7000-9a6a-8e6697a00001', 1796089711790428, 1, 1, 1, 0, 200, false, 294, NULL, NULL, NULL, 258, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0cc0-7000-8f25-d46255d00001', 1796089711809306, 1, 1, 1, 0, 200, false, 558, NULL, NULL, NULL, 510, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333120474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-0c30-7000-8e96-d37216300002', 1796089712997871, 2, 1, 3, 11, 400, false, 313, NULL, NULL, NULL, 269, 'first', '\x74686520726563656976657220616e73776572656420343030', '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333220474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-119e-7000-8860-874945100001', 1796089713056112, 1, 1, 1, 0, 200, false, 611, NULL, NULL, NULL, 581, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333320474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-11b8-7000-a8d1-e1c3d9d00001', 1796089713082041, 1, 1, 1, 0, 200, false, 212, NULL, NULL, NULL, 178, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333320474d54', NULL);
INSERT INTO public.attempts_20261201 VALUES ('01a22f4a-11d0-7000-b4e1-a83360100001', 1796089713105566, 1, 1, 1, 0, 200, false, 1080, NULL, NULL, NULL, 1044, 'first', NULL, '\x0e436f6e74656e742d4c656e677468013004446174651d5475652c2030312044656320323032362030313a34383a333320474d54', NULL);

INSERT INTO public.changes VALUES (743, 1796089711228545, 1, '{1}', '{01a22f4a-0a7b-7000-960b-d3e211500000}', NULL);
INSERT INTO public.changes VALUES (745, 1796089711244549, 2, '{1,1}', '{01a22f4a-0a7b-7000-960b-d3e211500001,01a22f4a-0a7b-7000-960b-d3e211500003}', NULL);
INSERT INTO public.changes VALUES (748, 1796089711276653, 1, '{1}', '{01a22f4a-0aac-7000-ae50-f362ecb00000}', NULL);
INSERT INTO public.changes VALUES (749, 1796089711274343, 2, '{1}', '{01a22f4a-0a7b-7000-960b-d3e211500002}', NULL);
INSERT INTO public.changes VALUES (750, 1796089711286958, 2, '{1}', '{01a22f4a-0aac-7000-ae50-f362ecb00001}', NULL);
INSERT INTO public.changes VALUES (752, 1796089711297522, 1, '{1}', '{01a22f4a-0ac1-7000-b8d7-9298b6f00000}', NULL);
INSERT INTO public.changes VALUES (755, 1796089711308862, 2, '{1,1,1}', '{01a22f4a-0aac-7000-ae50-f362ecb00002,01a22f4a-0ac1-7000-b8d7-9298b6f00001,01a22f4a-0ac1-7000-b8d7-9298b6f00002}', NULL);
INSERT INTO public.changes VALUES (756, 1796089711316434, 2, '{1}', '{01a22f4a-0aac-7000-ae50-f362ecb00003}', NULL);
INSERT INTO public.changes VALUES (758, 1796089711328011, 2, '{1}', '{01a22f4a-0ac1-7000-b8d7-9298b6f00003}', NULL);
INSERT INTO public.changes VALUES (760, 1796089711336549, 1, '{1}', '{01a22f4a-0ae8-7000-962e-ab9be6400000}', NULL);
INSERT INTO public.changes VALUES (763, 1796089711347010, 2, '{1,1,1}', '{01a22f4a-0ae8-7000-962e-ab9be6400001,01a22f4a-0ae8-7000-962e-ab9be6400002,01a22f4a-0ae8-7000-962e-ab9be6400003}', NULL);
INSERT INTO public.changes VALUES (765, 1796089711365470, 1, '{1}', '{01a22f4a-0b05-7000-adf7-881321d00000}', NULL);
INSERT INTO public.changes VALUES (768, 1796089711372465, 2, '{1,1,1}', '{01a22f4a-0b05-7000-adf7-881321d00001,01a22f4a-0b05-7000-adf7-881321d00002,01a22f4a-0b05-7000-adf7-881321d00003}', NULL);
INSERT INTO public.changes VALUES (770, 1796089711390504, 1, '{1}', '{01a22f4a-0b1e-7000-86a4-eb6854100000}', NULL);
INSERT INTO public.changes VALUES (773, 1796089711399922, 2, '{1,1,1}', '{01a22f4a-0b1e-7000-86a4-eb6854100001,01a22f4a-0b1e-7000-86a4-eb6854100002,01a22f4a-0b1e-7000-86a4-eb6854100003}', NULL);
INSERT INTO public.changes VALUES (775, 1796089711421802, 1, '{1}', '{01a22f4a-0b3d-7000-8131-3d6a70200000}', NULL);
INSERT INTO public.changes VALUES (778, 1796089711430362, 2, '{1,1,1}', '{01a22f4a-0b3d-7000-8131-3d6a70200001,01a22f4a-0b3d-7000-8131-3d6a70200002,01a22f4a-0b3d-7000-8131-3d6a70200003}', NULL);
INSERT INTO public.changes VALUES (780, 1796089711446017, 1, '{1}', '{01a22f4a-0b55-7000-967b-526666900000}', NULL);
INSERT INTO public.changes VALUES (783, 1796089711455028, 2, '{1,1,1}', '{01a22f4a-0b55-7000-967b-526666900001,01a22f4a-0b55-7000-967b-526666900002,01a22f4a-0b55-7000-967b-526666900003}', NULL);
INSERT INTO public.changes VALUES (785, 1796089711475988, 1, '{1}', '{01a22f4a-0b73-7000-95e0-682673e00000}', NULL);
INSERT INTO public.changes VALUES (788, 1796089711484240, 2, '{1,1,1}', '{01a22f4a-0b73-7000-95e0-682673e00001,01a22f4a-0b73-7000-95e0-682673e00002,01a22f4a-0b73-7000-95e0-682673e00003}', NULL);
INSERT INTO public.changes VALUES (790, 1796089711505675, 1, '{1}', '{01a22f4a-0b91-7000-817f-40ddf2100000}', NULL);
INSERT INTO public.changes VALUES (793, 1796089711515085, 2, '{1,1,1}', '{01a22f4a-0b91-7000-817f-40ddf2100001,01a22f4a-0b91-7000-817f-40ddf2100002,01a22f4a-0b91-7000-817f-40ddf2100003}', NULL);
INSERT INTO public.changes VALUES (795, 1796089711531981, 1, '{1}', '{01a22f4a-0bab-7000-a9a3-0539be800000}', NULL);
INSERT INTO public.changes VALUES (798, 1796089711539271, 2, '{1,1,1}', '{01a22f4a-0bab-7000-a9a3-0539be800001,01a22f4a-0bab-7000-a9a3-0539be800002,01a22f4a-0bab-7000-a9a3-0539be800003}', NULL);
INSERT INTO public.changes VALUES (800, 1796089711559708, 1, '{1}', '{01a22f4a-0bc7-7000-92bf-eb72e7c00000}', NULL);
INSERT INTO public.changes VALUES (803, 1796089711575563, 2, '{1,1,1}', '{01a22f4a-0bc7-7000-92bf-eb72e7c00001,01a22f4a-0bc7-7000-92bf-eb72e7c00002,01a22f4a-0bc7-7000-92bf-eb72e7c00003}', NULL);
INSERT INTO public.changes VALUES (806, 1796089711624256, 1, '{1}', '{01a22f4a-0c08-7000-a026-756826900000}', NULL);
INSERT INTO public.changes VALUES (807, 1796089711632936, 2, '{1}', '{01a22f4a-0c08-7000-a026-756826900001}', NULL);
INSERT INTO public.changes VALUES (807, 1796089711632936, 3, '{1}', '{01a22f4a-0c08-7000-a026-756826900002}', NULL);
INSERT INTO public.changes VALUES (808, 1796089711645758, 1, '{1}', '{01a22f4a-0c1d-7000-ae39-f6bd1ea00000}', NULL);
INSERT INTO public.changes VALUES (809, 1796089711653944, 2, '{1}', '{01a22f4a-0c1d-7000-ae39-f6bd1ea00001}', NULL);
INSERT INTO public.changes VALUES (809, 1796089711653944, 3, '{1}', '{01a22f4a-0c1d-7000-ae39-f6bd1ea00002}', NULL);
INSERT INTO public.changes VALUES (810, 1796089711664673, 1, '{1}', '{01a22f4a-0c30-7000-8e96-d37216300000}', NULL);
INSERT INTO public.changes VALUES (811, 1796089711671788, 2, '{1}', '{01a22f4a-0c30-7000-8e96-d37216300001}', NULL);
INSERT INTO public.changes VALUES (811, 1796089711671788, 3, '{1}', '{01a22f4a-0c30-7000-8e96-d37216300002}', NULL);
INSERT INTO public.changes VALUES (813, 1796089711685806, 1, '{1}', '{01a22f4a-0c45-7000-a36d-b3dc49000000}', NULL);
INSERT INTO public.changes VALUES (814, 1796089711693045, 2, '{1}', '{01a22f4a-0c45-7000-a36d-b3dc49000001}', NULL);
INSERT INTO public.changes VALUES (816, 1796089711707932, 1, '{1}', '{01a22f4a-0c5b-7000-bbeb-ae1d11800000}', NULL);
INSERT INTO public.changes VALUES (817, 1796089711715158, 2, '{1}', '{01a22f4a-0c5b-7000-bbeb-ae1d11800001}', NULL);
INSERT INTO public.changes VALUES (819, 1796089711729426, 1, '{1}', '{01a22f4a-0c71-7000-806e-3b8453b00000}', NULL);
INSERT INTO public.changes VALUES (820, 1796089711736515, 2, '{1}', '{01a22f4a-0c71-7000-806e-3b8453b00001}', NULL);
INSERT INTO public.changes VALUES (822, 1796089711738813, 4, '{1}', '{01a22f4a-0935-7000-b19d-af6fab700000}', '\x7b22636f6e73656375746976655f6661696c75726573223a332c2266726f6d5f7374617465223a22636c6f736564222c22746f5f7374617465223a226f70656e222c22756e74696c223a22323032362d31322d30315430313a34393a30312e3733383130345a227d');
INSERT INTO public.changes VALUES (823, 1796089711741110, 1, '{2}', '{01a22f4a-0c7d-7000-b81e-bf8bdc300000}', NULL);
INSERT INTO public.changes VALUES (824, 1796089711748757, 1, '{1}', '{01a22f4a-0c84-7000-a2c7-67ebb0c00000}', NULL);
INSERT INTO public.changes VALUES (825, 1796089711755760, 2, '{1}', '{01a22f4a-0c84-7000-a2c7-67ebb0c00001}', NULL);
INSERT INTO public.changes VALUES (826, 1796089711769523, 1, '{1}', '{01a22f4a-0c99-7000-a3c4-25e5cff00000}', NULL);
INSERT INTO public.changes VALUES (827, 1796089711776365, 2, '{1}', '{01a22f4a-0c99-7000-a3c4-25e5cff00001}', NULL);
INSERT INTO public.changes VALUES (828, 1796089711789697, 1, '{4}', '{01a22f4a-0cad-7000-9a6a-8e6697a00000}', NULL);
INSERT INTO public.changes VALUES (829, 1796089711796718, 2, '{4}', '{01a22f4a-0cad-7000-9a6a-8e6697a00001}', NULL);
INSERT INTO public.changes VALUES (830, 1796089711808629, 1, '{4}', '{01a22f4a-0cc0-7000-8f25-d46255d00000}', NULL);
INSERT INTO public.changes VALUES (831, 1796089711815361, 2, '{4}', '{01a22f4a-0cc0-7000-8f25-d46255d00001}', NULL);
INSERT INTO public.changes VALUES (835, 1796089713003542, 3, '{1}', '{01a22f4a-0c30-7000-8e96-d37216300002}', NULL);
INSERT INTO public.changes VALUES (837, 1796089713030045, 1, '{1}', '{01a22f4a-1186-7000-9883-747bb2200000}', NULL);
INSERT INTO public.changes VALUES (839, 1796089713054849, 1, '{1}', '{01a22f4a-119e-7000-8860-874945100000}', NULL);
INSERT INTO public.changes VALUES (840, 1796089713062463, 2, '{1}', '{01a22f4a-119e-7000-8860-874945100001}', NULL);
INSERT INTO public.changes VALUES (841, 1796089713080844, 1, '{1}', '{01a22f4a-11b8-7000-a8d1-e1c3d9d00000}', NULL);
INSERT INTO public.changes VALUES (842, 1796089713087660, 2, '{1}', '{01a22f4a-11b8-7000-a8d1-e1c3d9d00001}', NULL);
INSERT INTO public.changes VALUES (843, 1796089713104373, 1, '{1}', '{01a22f4a-11d0-7000-b4e1-a83360100000}', NULL);
INSERT INTO public.changes VALUES (844, 1796089713112640, 2, '{1}', '{01a22f4a-11d0-7000-b4e1-a83360100001}', NULL);

INSERT INTO public.dead VALUES (1, 4, '01a22f4a-0c08-7000-a026-756826900002');
INSERT INTO public.dead VALUES (1, 4, '01a22f4a-0c1d-7000-ae39-f6bd1ea00002');
INSERT INTO public.dead VALUES (1, 4, '01a22f4a-0c30-7000-8e96-d37216300002');

INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0a7b-7000-960b-d3e211500001', 1796089711228545, 1796435311228545, 0, 1796089711244549, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0a7b-7000-960b-d3e211500003', 1796089711228545, 1796435311228545, 0, 1796089711244549, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0a7b-7000-960b-d3e211500002', 1796089711228545, 1796435311228545, 0, 1796089711274343, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0aac-7000-ae50-f362ecb00001', 1796089711276653, 1796435311276653, 0, 1796089711286958, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0aac-7000-ae50-f362ecb00002', 1796089711276653, 1796435311276653, 0, 1796089711308862, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0ac1-7000-b8d7-9298b6f00001', 1796089711297522, 1796435311297522, 0, 1796089711308862, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0ac1-7000-b8d7-9298b6f00002', 1796089711297522, 1796435311297522, 0, 1796089711308862, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0aac-7000-ae50-f362ecb00003', 1796089711276653, 1796435311276653, 0, 1796089711316434, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0ac1-7000-b8d7-9298b6f00003', 1796089711297522, 1796435311297522, 0, 1796089711328011, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0ae8-7000-962e-ab9be6400001', 1796089711336549, 1796435311336549, 0, 1796089711347010, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0ae8-7000-962e-ab9be6400002', 1796089711336549, 1796435311336549, 0, 1796089711347010, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0ae8-7000-962e-ab9be6400003', 1796089711336549, 1796435311336549, 0, 1796089711347010, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b05-7000-adf7-881321d00001', 1796089711365470, 1796435311365470, 0, 1796089711372465, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b05-7000-adf7-881321d00002', 1796089711365470, 1796435311365470, 0, 1796089711372465, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b05-7000-adf7-881321d00003', 1796089711365470, 1796435311365470, 0, 1796089711372465, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b1e-7000-86a4-eb6854100001', 1796089711390504, 1796435311390504, 0, 1796089711399922, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b1e-7000-86a4-eb6854100002', 1796089711390504, 1796435311390504, 0, 1796089711399922, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b1e-7000-86a4-eb6854100003', 1796089711390504, 1796435311390504, 0, 1796089711399922, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b55-7000-967b-526666900001', 1796089711446017, 1796435311446017, 0, 1796089711455028, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b55-7000-967b-526666900002', 1796089711446017, 1796435311446017, 0, 1796089711455028, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b55-7000-967b-526666900003', 1796089711446017, 1796435311446017, 0, 1796089711455028, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b91-7000-817f-40ddf2100001', 1796089711505675, 1796435311505675, 0, 1796089711515085, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b91-7000-817f-40ddf2100002', 1796089711505675, 1796435311505675, 0, 1796089711515085, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b91-7000-817f-40ddf2100003', 1796089711505675, 1796435311505675, 0, 1796089711515085, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0bc7-7000-92bf-eb72e7c00001', 1796089711559708, 1796435311559708, 0, 1796089711575563, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0bc7-7000-92bf-eb72e7c00002', 1796089711559708, 1796435311559708, 0, 1796089711575563, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0bc7-7000-92bf-eb72e7c00003', 1796089711559708, 1796435311559708, 0, 1796089711575563, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b3d-7000-8131-3d6a70200001', 1796089711421802, 1796435311421802, 0, 1796089711430362, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b3d-7000-8131-3d6a70200002', 1796089711421802, 1796435311421802, 0, 1796089711430362, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b3d-7000-8131-3d6a70200003', 1796089711421802, 1796435311421802, 0, 1796089711430362, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c30-7000-8e96-d37216300002', 1796089712991791, 1796435312991791, 0, 1796089713003542, 1, 4, 0, 2, 2, 0, 0, 3, 1);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b73-7000-95e0-682673e00001', 1796089711475988, 1796435311475988, 0, 1796089711484240, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b73-7000-95e0-682673e00002', 1796089711475988, 1796435311475988, 0, 1796089711484240, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0b73-7000-95e0-682673e00003', 1796089711475988, 1796435311475988, 0, 1796089711484240, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0bab-7000-a9a3-0539be800001', 1796089711531981, 1796435311531981, 0, 1796089711539271, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0bab-7000-a9a3-0539be800002', 1796089711531981, 1796435311531981, 0, 1796089711539271, 1, 2, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0bab-7000-a9a3-0539be800003', 1796089711531981, 1796435311531981, 0, 1796089711539271, 1, 3, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c08-7000-a026-756826900001', 1796089711624256, 1796435311624256, 0, 1796089711632936, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c08-7000-a026-756826900002', 1796089711624256, 1796435311624256, 0, 1796089711632936, 1, 4, 0, 1, 2, 0, 0, 3, 1);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c1d-7000-ae39-f6bd1ea00001', 1796089711645758, 1796435311645758, 0, 1796089711653944, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c1d-7000-ae39-f6bd1ea00002', 1796089711645758, 1796435311645758, 0, 1796089711653944, 1, 4, 0, 1, 2, 0, 0, 3, 1);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c30-7000-8e96-d37216300001', 1796089711664673, 1796435311664673, 0, 1796089711671788, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c45-7000-a36d-b3dc49000001', 1796089711685806, 1796435311685806, 0, 1796089711693045, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c45-7000-a36d-b3dc49000002', 1796089711685806, 1796435311685806, 1796089717438380, 0, 1, 5, 0, 1, 0, 1, 0, 2, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c5b-7000-bbeb-ae1d11800001', 1796089711707932, 1796435311707932, 0, 1796089711715158, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c5b-7000-bbeb-ae1d11800002', 1796089711707932, 1796435311707932, 1796089717190688, 0, 1, 5, 0, 1, 0, 1, 0, 2, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c71-7000-806e-3b8453b00001', 1796089711729426, 1796435311729426, 0, 1796089711736515, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c71-7000-806e-3b8453b00002', 1796089711729426, 1796435311729426, 1796089715763969, 0, 1, 5, 0, 1, 0, 1, 0, 2, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c84-7000-a2c7-67ebb0c00002', 1796089711748757, 1796435311748757, 1796089711748757, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c84-7000-a2c7-67ebb0c00001', 1796089711748757, 1796435311748757, 0, 1796089711755760, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c99-7000-a3c4-25e5cff00002', 1796089711769523, 1796435311769523, 1796089711769523, 0, 1, 5, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0c99-7000-a3c4-25e5cff00001', 1796089711769523, 1796435311769523, 0, 1796089711776365, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0cad-7000-9a6a-8e6697a00001', 1796089711789697, 1796435311789697, 0, 1796089711796718, 4, 7, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-0cc0-7000-8f25-d46255d00001', 1796089711808629, 1796435311808629, 0, 1796089711815361, 4, 7, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-119e-7000-8860-874945100002', 1796089713054849, 1796435313054849, 0, 0, 1, 6, 1, 0, 0, 0, 0, 0, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-119e-7000-8860-874945100001', 1796089713054849, 1796435313054849, 0, 1796089713062463, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-11b8-7000-a8d1-e1c3d9d00002', 1796089713080844, 1796435313080844, 0, 0, 1, 6, 1, 0, 0, 0, 0, 0, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-11b8-7000-a8d1-e1c3d9d00001', 1796089713080844, 1796435313080844, 0, 1796089713087660, 1, 1, 0, 1, 1, 0, 0, 1, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-11d0-7000-b4e1-a83360100002', 1796089713104373, 1796435313104373, 0, 0, 1, 6, 1, 0, 0, 0, 0, 0, 0);
INSERT INTO public.deliveries_20261201 VALUES ('01a22f4a-11d0-7000-b4e1-a83360100001', 1796089713104373, 1796435313104373, 0, 1796089713112640, 1, 1, 0, 1, 1, 0, 0, 1, 0);

INSERT INTO public.due VALUES (5, 0, 1796089717438380, '01a22f4a-0c45-7000-a36d-b3dc49000002', 1796089717438380);
INSERT INTO public.due VALUES (5, 0, 1796089717190688, '01a22f4a-0c5b-7000-bbeb-ae1d11800002', 1796089717190688);
INSERT INTO public.due VALUES (5, 0, 1796089715763969, '01a22f4a-0c71-7000-806e-3b8453b00002', 1796089715763969);
INSERT INTO public.due VALUES (5, 0, 1796089711748757, '01a22f4a-0c84-7000-a2c7-67ebb0c00002', 0);
INSERT INTO public.due VALUES (5, 0, 1796089711769523, '01a22f4a-0c99-7000-a3c4-25e5cff00002', 0);

INSERT INTO public.endpoint_secrets VALUES (1, 1, 0, '8d46c536e6c0b8b9', '\x695c74232eca18f664862ce507bd4fc240ef006798dfdb4178af2222a56ffeaa6f030c27028157af0ac6b8b5f3d8aa2dad47e4b5e6abbd84f3f2bb5e83d5eac94331081fdac803ef243775838517fdf90098');
INSERT INTO public.endpoint_secrets VALUES (2, 1, 0, '8d46c536e6c0b8b9', '\x2a4a4a6cf6283b9301ddcc721dfd99a9a7f944367e4c85eb762d85a72e57ff120487b47469755d49197ad7fddbaec608126d3413a994b2b7a70ccdd35f2ff55aa5028ffaa5167653dd7f3b14b9e3');
INSERT INTO public.endpoint_secrets VALUES (3, 1, 0, '8d46c536e6c0b8b9', '\x90534e95aae81ce6b430c1e2c095f984b367880d7355b89c5b5ce789d30e1b3b310d076f7d088714e818df6d3f8014d8165978cce09432a665d573d45f44a467b1a2d921e79255cc543af9557f9e');
INSERT INTO public.endpoint_secrets VALUES (4, 1, 0, '8d46c536e6c0b8b9', '\xc45223d8f97136c0409282c5655a9bb0100a496fcd4e6680d3e8675a8db884a8b48701796227dc4fb8116438a3f26ad52407e88b9fa2b0acb6281012e6f94cdcc973223b35636d6f455cf67f4e78');
INSERT INTO public.endpoint_secrets VALUES (5, 1, 0, '8d46c536e6c0b8b9', '\x8b7f82738cf82e8fdf9326988f1a5761beef0cefcf39d695751422dff8168567d16958f94eb8ced5971bb6eedce38d83df2e1de61106463985cebfaac3846db924af0e2a7a7fed9715c17a1d8488');
INSERT INTO public.endpoint_secrets VALUES (6, 1, 0, '8d46c536e6c0b8b9', '\xf670196e337e2c0962b94d3b4d6d07ef5b0422804974c6513e5ce67e2f4247761cd48b7a0f2a05b05efa810d54d45636e2dec04b884996cd0bb212572f05f69b6787f3476333f1ed2a8e7ecf001e');
INSERT INTO public.endpoint_secrets VALUES (7, 1, 0, '8d46c536e6c0b8b9', '\x3701a30c1be71cd1a458cafed5e5c8a1350ddd06a1b5e27157e7441685d15269f9d42b634f588000cfafb2e777890c2c3ee6ad89a94a6220106a2a144e4d1c31c8270742517a328993e8fdbb40d1');

INSERT INTO public.endpoint_versions VALUES (1, 1, 1796089710810025, '{"url":"http://127.0.0.1:18251/","description":"","event_types":["order.*"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoint_versions VALUES (2, 1, 1796089710838725, '{"url":"http://127.0.0.1:18251/limited","description":"","event_types":["order.paid"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":{"rps":50},"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoint_versions VALUES (3, 1, 1796089710857318, '{"url":"http://127.0.0.1:18251/ordered","description":"","event_types":["order.paid"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":"endpoint","breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoint_versions VALUES (4, 1, 1796089710877043, '{"url":"http://127.0.0.1:18252/","description":"","event_types":["order.refused"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoint_versions VALUES (5, 1, 1796089710901333, '{"url":"http://127.0.0.1:18253/","description":"","event_types":["order.late"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":3,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoint_versions VALUES (6, 1, 1796089710928251, '{"url":"http://127.0.0.1:18254/","description":"","event_types":["order.slow"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoint_versions VALUES (7, 1, 1796089710953039, '{"url":"http://127.0.0.1:18251/acme","description":"","event_types":["*"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');

INSERT INTO public.endpoints OVERRIDING SYSTEM VALUE VALUES (1, '01a22f4a-08da-7000-bfc8-483622100000', 1, 1, 1, false, false, '', 1796089710810025, 1796089710810025, 0, 'good', '{"team":"a"}', '{"url":"http://127.0.0.1:18251/","description":"","event_types":["order.*"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoints OVERRIDING SYSTEM VALUE VALUES (2, '01a22f4a-08f6-7000-933f-b3d122900000', 1, 1, 2, false, false, '', 1796089710838725, 1796089710838725, 0, 'limited', '{}', '{"url":"http://127.0.0.1:18251/limited","description":"","event_types":["order.paid"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":{"rps":50},"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoints OVERRIDING SYSTEM VALUE VALUES (3, '01a22f4a-0909-7000-8faf-b28e41100000', 1, 1, 3, false, false, '', 1796089710857318, 1796089710857318, 0, 'ordered', '{}', '{"url":"http://127.0.0.1:18251/ordered","description":"","event_types":["order.paid"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":"endpoint","breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoints OVERRIDING SYSTEM VALUE VALUES (4, '01a22f4a-091d-7000-a3f9-3004af300000', 1, 1, 4, false, false, '', 1796089710877043, 1796089710877043, 0, 'bad', '{}', '{"url":"http://127.0.0.1:18252/","description":"","event_types":["order.refused"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoints OVERRIDING SYSTEM VALUE VALUES (5, '01a22f4a-0935-7000-b19d-af6fab700000', 1, 1, 5, false, false, '', 1796089710901333, 1796089710901333, 0, 'failing', '{}', '{"url":"http://127.0.0.1:18253/","description":"","event_types":["order.late"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":3,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoints OVERRIDING SYSTEM VALUE VALUES (6, '01a22f4a-0950-7000-9060-4155a5d00000', 1, 1, 6, false, false, '', 1796089710928251, 1796089710928251, 0, 'hanging', '{}', '{"url":"http://127.0.0.1:18254/","description":"","event_types":["order.slow"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');
INSERT INTO public.endpoints OVERRIDING SYSTEM VALUE VALUES (7, '01a22f4a-0969-7000-8f63-80b0fb700000', 4, 1, 1, false, false, '', 1796089710953039, 1796089710953039, 0, 'acme', '{}', '{"url":"http://127.0.0.1:18251/acme","description":"","event_types":["*"],"sources":[],"headers":{},"signature":{"scheme":"standard","headers":{}},"retry":{"schedule":["5s","5m","30m","2h","5h","10h","14h","20h","24h"],"jitter":0.2,"timeout":"15s","deadline":"96h","transient":["3xx","408","425","429","5xx"],"rps":null},"max_in_flight":16,"rate_limit":null,"ordered":false,"breaker":{"threshold":10,"reset":"30s","reset_max":"5m"}}');

INSERT INTO public.events_20261201 VALUES ('01a22f4a-0a7b-7000-960b-d3e211500000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d31', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a317d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0aac-7000-ae50-f362ecb00000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d32', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a327d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0ac1-7000-b8d7-9298b6f00000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d33', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a337d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0ae8-7000-962e-ab9be6400000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d34', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a347d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0b05-7000-adf7-881321d00000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d35', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a357d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0b1e-7000-86a4-eb6854100000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d36', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a367d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0b3d-7000-8131-3d6a70200000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d37', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a377d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0b55-7000-967b-526666900000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d38', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a387d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0b73-7000-95e0-682673e00000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d39', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a397d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0b91-7000-817f-40ddf2100000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d3130', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a31307d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0bab-7000-a9a3-0539be800000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d3131', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a31317d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0bc7-7000-92bf-eb72e7c00000', 1, 3, 'order.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x706169642d3132', NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a31327d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c08-7000-a026-756826900000', 1, 2, 'order.refused', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a317d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c1d-7000-ae39-f6bd1ea00000', 1, 2, 'order.refused', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a327d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c30-7000-8e96-d37216300000', 1, 2, 'order.refused', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a337d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c45-7000-a36d-b3dc49000000', 1, 2, 'order.late', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a317d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c5b-7000-bbeb-ae1d11800000', 1, 2, 'order.late', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a327d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c71-7000-806e-3b8453b00000', 1, 2, 'order.late', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a337d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c7d-7000-b81e-bf8bdc300000', 2, 0, 'endpoint.gate', 'engine', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226174223a22323032362d31322d30315430313a34383a33312e3734303034395a222c22636f6e73656375746976655f6661696c75726573223a332c22656e64706f696e745f6964223a2265705f30316d38716d6d32396e653030623337646664796e7130303030222c2266726f6d5f7374617465223a22636c6f736564222c2274656e616e74223a2264656661756c74222c22746f5f7374617465223a226f70656e222c22756e74696c223a22323032362d31322d30315430313a34393a30312e3733383130345a222c2275726c223a22687474703a2f2f3132372e302e302e313a31383235332f227d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c84-7000-a2c7-67ebb0c00000', 1, 2, 'order.late', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a347d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0c99-7000-a3c4-25e5cff00000', 1, 2, 'order.late', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a357d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0cad-7000-9a6a-8e6697a00000', 4, 1, 'invoice.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b22696e766f696365223a317d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-0cc0-7000-8f25-d46255d00000', 4, 1, 'invoice.paid', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b22696e766f696365223a327d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-1186-7000-9883-747bb2200000', 1, 0, 'github.push.opened', 'src_3vrkg8yg809xxsa8280kqn6v7k', '\x6170706c69636174696f6e2f6a736f6e', NULL, '\x37326433313632652d636337382d313165332d383161622d346339333637646330393538', NULL, NULL, '\x11582d4769746875622d44656c69766572792437326433313632652d636337382d313165332d383161622d3463393336376463303935380e582d4769746875622d4576656e74047075736813582d4875622d5369676e61747572652d323536477368613235363d30373538623134666237623561393837313936353337326162313039383536373135376432323432333363373432613631663061343639323535303538666336', NULL, NULL, '\x06416363657074032a2f2a0e436f6e74656e742d4c656e6774680231390c436f6e74656e742d54797065106170706c69636174696f6e2f6a736f6e0a557365722d4167656e740b6375726c2f372e38382e3111582d4769746875622d44656c69766572792437326433313632652d636337382d313165332d383161622d3463393336376463303935380e582d4769746875622d4576656e74047075736813582d4875622d5369676e61747572652d323536477368613235363d30373538623134666237623561393837313936353337326162313039383536373135376432323432333363373432613631663061343639323535303538666336', '\x7b22616374696f6e223a226f70656e6564227d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-119e-7000-8860-874945100000', 1, 2, 'order.slow', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a317d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-11b8-7000-a8d1-e1c3d9d00000', 1, 2, 'order.slow', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a327d');
INSERT INTO public.events_20261201 VALUES ('01a22f4a-11d0-7000-b4e1-a83360100000', 1, 2, 'order.slow', 'api', '\x6170706c69636174696f6e2f6a736f6e', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '\x7b226f72646572223a337d');

INSERT INTO public.gates VALUES (3, 0, 0, 0, 0, '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 0, 0, 0, 0);
INSERT INTO public.gates VALUES (2, 0, 0, 0, 0, '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 0, 1796089711590237, 0, 0);
INSERT INTO public.gates VALUES (5, 1, 3, 1, 0, '00000000-0000-0000-0000-000000000000', 1796089741738104, 0, 0, 1796089711693921, 1796089711693921, 0, 0, 1796089711738685);

INSERT INTO public.horizon VALUES (true, '00000000-0000-0000-0000-000000000000');

INSERT INTO public.idempotency VALUES ('1906ef84-df6c-6279-32a0-ed0ad6766109', '550e1455-66c2-a444-d6f5-ea42a1b109e3', '01a22f4a-0a7b-7000-960b-d3e211500000', 1, 1);
INSERT INTO public.idempotency VALUES ('c867641e-cedc-383c-d551-67dfe04d861a', '8e17e6d9-3ad4-63fc-2909-8dd31d25cc18', '01a22f4a-0aac-7000-ae50-f362ecb00000', 1, 1);
INSERT INTO public.idempotency VALUES ('6384a96b-740b-88cc-815c-4d6b3c0401b7', '984d45bd-6a9d-2731-e106-3d0371e31601', '01a22f4a-0ac1-7000-b8d7-9298b6f00000', 1, 1);
INSERT INTO public.idempotency VALUES ('b710d03d-a332-240b-cb3f-ee662d86f404', '37f2296b-9705-320e-448e-90b4f43030d2', '01a22f4a-0ae8-7000-962e-ab9be6400000', 1, 1);
INSERT INTO public.idempotency VALUES ('3e3708e8-1761-279d-8f96-44acda5e7718', '413dbded-bd7a-09c6-51f2-2887aaa60dcc', '01a22f4a-0b05-7000-adf7-881321d00000', 1, 1);
INSERT INTO public.idempotency VALUES ('0237f13b-3ff9-5f84-9cf7-67be78d1337a', '60885c9a-15d9-8610-b092-9fa4e71fa2a2', '01a22f4a-0b1e-7000-86a4-eb6854100000', 1, 1);
INSERT INTO public.idempotency VALUES ('23057db3-d62f-c2c8-9a4b-bfcf0eb1595f', '3f194550-0b42-567d-cb46-b48fb35b7fa8', '01a22f4a-0b3d-7000-8131-3d6a70200000', 1, 1);
INSERT INTO public.idempotency VALUES ('6c2919cf-cfff-9094-0cac-82baa4b73866', 'e3354f47-17e0-5b73-4b06-35a27daae965', '01a22f4a-0b55-7000-967b-526666900000', 1, 1);
INSERT INTO public.idempotency VALUES ('89688722-1ddd-e181-216f-ea1987390e41', '9dd63234-51ba-3a51-5ae1-e8d3524ffa90', '01a22f4a-0b73-7000-95e0-682673e00000', 1, 1);
INSERT INTO public.idempotency VALUES ('85585b1a-8be5-9c61-c56a-1de2518dcd6a', 'c6a0ede0-13e9-28de-e362-e219d85218ec', '01a22f4a-0b91-7000-817f-40ddf2100000', 1, 1);
INSERT INTO public.idempotency VALUES ('335edf38-d662-5c5e-1306-01aab8b0f09d', 'f298875f-e234-1839-f05b-36b5ff78aca8', '01a22f4a-0bab-7000-a9a3-0539be800000', 1, 1);
INSERT INTO public.idempotency VALUES ('8bb52962-b383-92d9-ca91-51a4bc1f03b0', '77583eae-d557-6f11-6991-c5a5dd76fe99', '01a22f4a-0bc7-7000-92bf-eb72e7c00000', 1, 1);
INSERT INTO public.idempotency VALUES ('9ab3c6df-2962-a960-4c74-74fa3113d3ad', 'cc852f50-f87c-c1bd-85fe-a242a759de7f', '01a22f4a-1186-7000-9883-747bb2200000', 1, 2);

INSERT INTO public.posthaste_schema VALUES ('0001_initial', '\x553b3fbb40782bc2894bf1ac49ed9ca2a333e1c9e884310b6a08cfc7436a7793', '2026-12-01 01:48:30.563162+00');

INSERT INTO public.rejections VALUES (1, '01a22f4a-1170-7000-aa81-131526e00000', 15, '\x6d616c666f726d65645f686561646572', '\x746865207369676e617475726520696e20582d4875622d5369676e61747572652d32353620686173206e6f7420746865206c656e677468206f6620484d41432d534841323536207772697474656e20696e20686578', '\x69742073686f756c642072656164207368613235363d484558', '\x504f5354', '\x06416363657074032a2f2a0e436f6e74656e742d4c656e6774680231350c436f6e74656e742d54797065216170706c69636174696f6e2f782d7777772d666f726d2d75726c656e636f6465640a557365722d4167656e740b6375726c2f372e38382e310e582d4769746875622d4576656e74047075736813582d4875622d5369676e61747572652d323536097368613235363d3030', '\x7b22666f72676564223a747275657d');

INSERT INTO public.replicas OVERRIDING SYSTEM VALUE VALUES (1, 'first', true, true, 1796089713680160, '01a22f4a-119e-7000-8860-874945100000');

INSERT INTO public.settings VALUES ('master_key_id', '\x38643436633533366536633062386239');

INSERT INTO public.sources OVERRIDING SYSTEM VALUE VALUES (1, '7bc4e08f-4100-4f7b-9520-4804ef536cf3', 1, 1, 0, 1796089710984191, 1796089710984191, 'hook', '8d46c536e6c0b8b9', '\x6f5e62712a2472052066f4daabe34137c8a3df4a53a3d99f77f700a27cd9e666585f5222954bd190289aa6502c8e6323c8e73a142fe86cb9798673cb7836378168f40a2cc73acc7775fc319f59628ac0', '{}', '{"name":"","provider":"github","settings":{},"max_body_bytes":8388608}');

INSERT INTO public.tenants OVERRIDING SYSTEM VALUE VALUES (2, 'operator', 1, 0, 1796089710475952, 0, 0, '', '{}');
INSERT INTO public.tenants OVERRIDING SYSTEM VALUE VALUES (3, '*', 1, 0, 1796089710475970, 0, 0, '', '{}');
INSERT INTO public.tenants OVERRIDING SYSTEM VALUE VALUES (1, 'default', 1, 6, 1796089710475470, 0, 0, '', '{}');
INSERT INTO public.tenants OVERRIDING SYSTEM VALUE VALUES (4, 'acme', 1, 1, 1796089710786375, 1796089710786375, 0, 'acme', '{}');

SELECT pg_catalog.setval('public.endpoints_no_seq', 7, true);

SELECT pg_catalog.setval('public.replicas_epoch_seq', 1, true);

SELECT pg_catalog.setval('public.sources_no_seq', 1, true);

SELECT pg_catalog.setval('public.tenants_no_seq', 4, true);

ALTER TABLE ONLY public.attempts
    ADD CONSTRAINT attempts_pkey PRIMARY KEY (delivery, number);

ALTER TABLE ONLY public.attempts_20261201
    ADD CONSTRAINT attempts_20261201_pkey PRIMARY KEY (delivery, number);

ALTER TABLE ONLY public.attempts_20261202
    ADD CONSTRAINT attempts_20261202_pkey PRIMARY KEY (delivery, number);

ALTER TABLE ONLY public.attempts_20261203
    ADD CONSTRAINT attempts_20261203_pkey PRIMARY KEY (delivery, number);

ALTER TABLE ONLY public.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (xid, kind);

ALTER TABLE ONLY public.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (tenant, delivery);

ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.deliveries_20261201
    ADD CONSTRAINT deliveries_20261201_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.deliveries_20261202
    ADD CONSTRAINT deliveries_20261202_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.deliveries_20261203
    ADD CONSTRAINT deliveries_20261203_pkey PRIMARY KEY (id);

ALTER TABLE ONLY public.due
    ADD CONSTRAINT due_pkey PRIMARY KEY (endpoint, due_at, delivery);

ALTER TABLE ONLY public.endpoint_secrets
    ADD CONSTRAINT endpoint_secrets_pkey PRIMARY KEY (endpoint, no);

ALTER TABLE ONLY public.endpoint_versions
    ADD CONSTRAINT endpoint_versions_pkey PRIMARY KEY (endpoint, version);

ALTER TABLE ONLY public.endpoints
    ADD CONSTRAINT endpoints_id_key UNIQUE (id);

ALTER TABLE ONLY public.endpoints
    ADD CONSTRAINT endpoints_pkey PRIMARY KEY (no);

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY public.events_20261201
    ADD CONSTRAINT events_20261201_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY public.events_20261202
    ADD CONSTRAINT events_20261202_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY public.events_20261203
    ADD CONSTRAINT events_20261203_pkey PRIMARY KEY (tenant, id);

ALTER TABLE ONLY public.gates
    ADD CONSTRAINT gates_pkey PRIMARY KEY (endpoint);

ALTER TABLE ONLY public.horizon
    ADD CONSTRAINT horizon_pkey PRIMARY KEY (one);

ALTER TABLE ONLY public.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (namespace, tenant, key);

ALTER TABLE ONLY public.posthaste_schema
    ADD CONSTRAINT posthaste_schema_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.rejections
    ADD CONSTRAINT rejections_pkey PRIMARY KEY (source, id);

ALTER TABLE ONLY public.replicas
    ADD CONSTRAINT replicas_pkey PRIMARY KEY (epoch);

ALTER TABLE ONLY public.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (name);

ALTER TABLE ONLY public.sources
    ADD CONSTRAINT sources_id_key UNIQUE (id);

ALTER TABLE ONLY public.sources
    ADD CONSTRAINT sources_pkey PRIMARY KEY (no);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_name_key UNIQUE (name);

ALTER TABLE ONLY public.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (no);

CREATE INDEX changed_gates ON public.gates USING btree (changed_at);

CREATE INDEX dead_by_endpoint ON public.dead USING btree (endpoint, delivery);

CREATE INDEX deliveries_by_endpoint ON ONLY public.deliveries USING btree (endpoint, id);

CREATE INDEX deliveries_20261201_endpoint_id_idx ON public.deliveries_20261201 USING btree (endpoint, id);

CREATE INDEX deliveries_20261202_endpoint_id_idx ON public.deliveries_20261202 USING btree (endpoint, id);

CREATE INDEX deliveries_20261203_endpoint_id_idx ON public.deliveries_20261203 USING btree (endpoint, id);

CREATE INDEX endpoint_secrets_expiring ON public.endpoint_secrets USING btree (expires_at) WHERE (expires_at <> 0);

CREATE INDEX endpoints_by_routing ON public.endpoints USING btree (tenant, routing_version);

CREATE INDEX endpoints_by_tenant ON public.endpoints USING btree (tenant, id);

CREATE UNIQUE INDEX endpoints_by_uid ON public.endpoints USING btree (tenant, uid) WHERE ((uid <> ''::text) AND (deleted_at = 0));

CREATE INDEX endpoints_living ON public.endpoints USING btree (id) WHERE (deleted_at = 0);

CREATE INDEX endpoints_living_by_tenant ON public.endpoints USING btree (tenant, id) WHERE (deleted_at = 0);

CREATE INDEX events_by_parent ON ONLY public.events USING btree (parent, id) WHERE (parent IS NOT NULL);

CREATE INDEX events_20261201_parent_id_idx ON public.events_20261201 USING btree (parent, id) WHERE (parent IS NOT NULL);

CREATE INDEX events_20261202_parent_id_idx ON public.events_20261202 USING btree (parent, id) WHERE (parent IS NOT NULL);

CREATE INDEX events_20261203_parent_id_idx ON public.events_20261203 USING btree (parent, id) WHERE (parent IS NOT NULL);

CREATE INDEX sources_by_tenant ON public.sources USING btree (tenant, no);

CREATE UNIQUE INDEX sources_by_uid ON public.sources USING btree (tenant, uid) WHERE (uid <> ''::text);

CREATE UNIQUE INDEX tenants_by_uid ON public.tenants USING btree (uid) WHERE ((uid <> ''::text) AND (deleted_at = 0));

CREATE INDEX tenants_living ON public.tenants USING btree (no) WHERE (deleted_at = 0);

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261201_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261202_pkey;

ALTER INDEX public.attempts_pkey ATTACH PARTITION public.attempts_20261203_pkey;

ALTER INDEX public.deliveries_by_endpoint ATTACH PARTITION public.deliveries_20261201_endpoint_id_idx;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261201_pkey;

ALTER INDEX public.deliveries_by_endpoint ATTACH PARTITION public.deliveries_20261202_endpoint_id_idx;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261202_pkey;

ALTER INDEX public.deliveries_by_endpoint ATTACH PARTITION public.deliveries_20261203_endpoint_id_idx;

ALTER INDEX public.deliveries_pkey ATTACH PARTITION public.deliveries_20261203_pkey;

ALTER INDEX public.events_by_parent ATTACH PARTITION public.events_20261201_parent_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261201_pkey;

ALTER INDEX public.events_by_parent ATTACH PARTITION public.events_20261202_parent_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261202_pkey;

ALTER INDEX public.events_by_parent ATTACH PARTITION public.events_20261203_parent_id_idx;

ALTER INDEX public.events_pkey ATTACH PARTITION public.events_20261203_pkey;

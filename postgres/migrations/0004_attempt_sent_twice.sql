-- sent_twice: the request was sent again over a new connection, because a reused one
-- broke before an answer. The view also knows the cause 14, local.
alter table attempts add column sent_twice bool not null default false;

create or replace view v_attempts as
select posthaste_id('dlv', a.delivery) as delivery_id,
    a.number,
    t.name as tenant,
    posthaste_time(a.started_at) as started_at,
    a.total / 1000.0 as duration_ms,
    (array['delivered', 'transient', 'permanent', 'lost'])[a.outcome] as outcome,
    a.late,
    (array['dns', 'blocked_address', 'refused', 'connect_timeout', 'tls', 'write', 'header_timeout', 'body_timeout',
        'too_large', 'bad_response', 'status', 'handler', 'lost', 'local'])[nullif(a.cause, 0)] as cause,
    nullif(a.status, 0) as status_code,
    encode(a.error, 'escape') as error,
    a.replica,
    nullif(a.endpoint_version, 0) as endpoint_version,
    encode(a.response_body, 'escape') as response_body,
    a.delivery as uuid,
    a.sent_twice
from attempts a
left join deliveries d on d.id = a.delivery
left join tenants t on t.no = d.tenant;

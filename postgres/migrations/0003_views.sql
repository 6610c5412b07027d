-- The views have the same names and columns on both databases, named as the API names
-- them. uuid is the id in the form of a UUID.
drop view v_dead;
drop view v_attempts;

create view v_dead as
select v.*, nullif(a.status, 0) as last_status_code, encode(a.error, 'escape') as last_error
from dead x
join v_deliveries v on v.uuid = x.delivery
left join attempts a on a.delivery = x.delivery and a.number = v.attempts
where v.status = 'dead';

create view v_attempts as
select posthaste_id('dlv', a.delivery) as delivery_id,
    a.number,
    t.name as tenant,
    posthaste_time(a.started_at) as started_at,
    a.total / 1000.0 as duration_ms,
    (array['delivered', 'transient', 'permanent', 'lost'])[a.outcome] as outcome,
    a.late,
    (array['dns', 'blocked_address', 'refused', 'connect_timeout', 'tls', 'write', 'header_timeout', 'body_timeout',
        'too_large', 'bad_response', 'status', 'handler', 'lost'])[nullif(a.cause, 0)] as cause,
    nullif(a.status, 0) as status_code,
    encode(a.error, 'escape') as error,
    a.replica,
    nullif(a.endpoint_version, 0) as endpoint_version,
    encode(a.response_body, 'escape') as response_body,
    a.delivery as uuid
from attempts a
left join deliveries d on d.id = a.delivery
left join tenants t on t.no = d.tenant;

-- The views have the same names and columns on both databases, named as the API names
-- them. Times are RFC 3339 in UTC. uuid is the id in the form of a UUID.
DROP VIEW v_dead;
DROP VIEW v_attempts;
DROP VIEW v_deliveries;

CREATE VIEW v_deliveries AS
SELECT
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'dlv_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(d.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(d.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS id,
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'evt_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(e.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(e.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS event_id,
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'ep_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(p.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(p.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS endpoint_id,
  t.name AS tenant,
  e.type AS type,
  CASE d.state WHEN 0 THEN CASE WHEN d.owner = 0 THEN 'pending' ELSE 'delivering' END WHEN 1 THEN 'delivered' WHEN 2 THEN 'dead' END AS status,
  CASE d.reason WHEN 1 THEN 'permanent failure' WHEN 2 THEN 'retries exhausted' WHEN 3 THEN 'expired' WHEN 4 THEN 'endpoint deleted' WHEN 5 THEN 'skipped' WHEN 6 THEN 'endpoint gone' END AS reason,
  CASE d.outcome WHEN 1 THEN 'delivered' WHEN 2 THEN 'transient' WHEN 3 THEN 'permanent' WHEN 4 THEN 'lost' END AS last_outcome,
  d.attempts AS attempts,
  d.failures AS failures,
  CASE WHEN d.run_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.run_at/1000 / 1000.0, 'unixepoch') END AS run_at,
  CASE WHEN d.expires_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.expires_at/1000 / 1000.0, 'unixepoch') END AS expires_at,
  CASE WHEN d.state = 0 AND d.owner = 0 AND d.due_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', max(d.due_at, coalesce((
    SELECT u.try_at FROM due u WHERE u.endpoint = d.endpoint AND u.due_at = d.due_at AND u.delivery = d.id), 0))/1000 / 1000.0, 'unixepoch') END AS next_attempt_at,
  CASE WHEN d.state <> 0 AND d.finished_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.finished_at/1000 / 1000.0, 'unixepoch') END AS finished_at,
  nullif(d.owner, 0) AS owner,
  lower(substr(hex(d.id), 1, 8) || '-' || substr(hex(d.id), 9, 4) || '-' || substr(hex(d.id), 13, 4) || '-' || substr(hex(d.id), 17, 4) || '-' || substr(hex(d.id), 21)) AS uuid
FROM deliveries d
LEFT JOIN tenants t ON t.no = d.tenant
LEFT JOIN endpoints p ON p.no = d.endpoint
LEFT JOIN events e ON e.tenant = d.tenant AND e.id = (SELECT max(f.id) FROM events f WHERE f.tenant = d.tenant AND f.id < d.id AND f.id >= substr(d.id, 1, 13) || x'000000');

CREATE VIEW v_dead AS
SELECT
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'dlv_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(d.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(d.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS id,
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'evt_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(e.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(e.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS event_id,
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'ep_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(p.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(p.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS endpoint_id,
  t.name AS tenant,
  e.type AS type,
  CASE d.state WHEN 0 THEN CASE WHEN d.owner = 0 THEN 'pending' ELSE 'delivering' END WHEN 1 THEN 'delivered' WHEN 2 THEN 'dead' END AS status,
  CASE d.reason WHEN 1 THEN 'permanent failure' WHEN 2 THEN 'retries exhausted' WHEN 3 THEN 'expired' WHEN 4 THEN 'endpoint deleted' WHEN 5 THEN 'skipped' WHEN 6 THEN 'endpoint gone' END AS reason,
  CASE d.outcome WHEN 1 THEN 'delivered' WHEN 2 THEN 'transient' WHEN 3 THEN 'permanent' WHEN 4 THEN 'lost' END AS last_outcome,
  d.attempts AS attempts,
  d.failures AS failures,
  CASE WHEN d.run_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.run_at/1000 / 1000.0, 'unixepoch') END AS run_at,
  CASE WHEN d.expires_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.expires_at/1000 / 1000.0, 'unixepoch') END AS expires_at,
  CASE WHEN d.state = 0 AND d.owner = 0 AND d.due_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', max(d.due_at, coalesce((
    SELECT u.try_at FROM due u WHERE u.endpoint = d.endpoint AND u.due_at = d.due_at AND u.delivery = d.id), 0))/1000 / 1000.0, 'unixepoch') END AS next_attempt_at,
  CASE WHEN d.state <> 0 AND d.finished_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', d.finished_at/1000 / 1000.0, 'unixepoch') END AS finished_at,
  nullif(d.owner, 0) AS owner,
  lower(substr(hex(d.id), 1, 8) || '-' || substr(hex(d.id), 9, 4) || '-' || substr(hex(d.id), 13, 4) || '-' || substr(hex(d.id), 17, 4) || '-' || substr(hex(d.id), 21)) AS uuid,
  nullif((SELECT a.status_code FROM attempts a WHERE a.delivery = d.id AND a.number = d.attempts), 0) AS last_status_code,
  CAST((SELECT a.error FROM attempts a WHERE a.delivery = d.id AND a.number = d.attempts) AS TEXT) AS last_error
FROM dead x
JOIN deliveries d ON d.id = x.delivery AND d.state = 2
LEFT JOIN tenants t ON t.no = d.tenant
LEFT JOIN endpoints p ON p.no = d.endpoint
LEFT JOIN events e ON e.tenant = d.tenant AND e.id = (SELECT max(f.id) FROM events f WHERE f.tenant = d.tenant AND f.id < d.id AND f.id >= substr(d.id, 1, 13) || x'000000');

CREATE VIEW v_attempts AS
SELECT
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'dlv_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(a.delivery), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(a.delivery), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS delivery_id,
  a.number AS number,
  t.name AS tenant,
  CASE WHEN a.started_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', a.started_at/1000 / 1000.0, 'unixepoch') END AS started_at,
  a.total_us / 1000.0 AS duration_ms,
  CASE a.outcome WHEN 1 THEN 'delivered' WHEN 2 THEN 'transient' WHEN 3 THEN 'permanent' WHEN 4 THEN 'lost' END AS outcome,
  a.late AS late,
  CASE a.cause WHEN 1 THEN 'dns' WHEN 2 THEN 'blocked_address' WHEN 3 THEN 'refused' WHEN 4 THEN 'connect_timeout' WHEN 5 THEN 'tls' WHEN 6 THEN 'write' WHEN 7 THEN 'header_timeout' WHEN 8 THEN 'body_timeout' WHEN 9 THEN 'too_large' WHEN 10 THEN 'bad_response' WHEN 11 THEN 'status' WHEN 12 THEN 'handler' WHEN 13 THEN 'lost' END AS cause,
  nullif(a.status_code, 0) AS status_code,
  CAST(a.error AS TEXT) AS error,
  a.replica AS replica,
  nullif(a.endpoint_version, 0) AS endpoint_version,
  CAST(a.response_body AS TEXT) AS response_body,
  lower(substr(hex(a.delivery), 1, 8) || '-' || substr(hex(a.delivery), 9, 4) || '-' || substr(hex(a.delivery), 13, 4) || '-' || substr(hex(a.delivery), 17, 4) || '-' || substr(hex(a.delivery), 21)) AS uuid
FROM attempts a
LEFT JOIN deliveries d ON d.id = a.delivery
LEFT JOIN tenants t ON t.no = d.tenant;

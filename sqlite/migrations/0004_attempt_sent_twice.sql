-- sent_twice: the request was sent again over a new connection, because a reused one
-- broke before an answer. The view also knows the cause 14, local.
ALTER TABLE attempts ADD COLUMN sent_twice INTEGER NOT NULL DEFAULT 0;

DROP VIEW v_attempts;
CREATE VIEW v_attempts AS
SELECT
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'dlv_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(a.delivery), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(a.delivery), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS delivery_id,
  a.number AS number,
  t.name AS tenant,
  CASE WHEN a.started_at <> 0 THEN strftime('%Y-%m-%dT%H:%M:%fZ', a.started_at/1000 / 1000.0, 'unixepoch') END AS started_at,
  a.total_us / 1000.0 AS duration_ms,
  CASE a.outcome WHEN 1 THEN 'delivered' WHEN 2 THEN 'transient' WHEN 3 THEN 'permanent' WHEN 4 THEN 'lost' END AS outcome,
  a.late AS late,
  CASE a.cause WHEN 1 THEN 'dns' WHEN 2 THEN 'blocked_address' WHEN 3 THEN 'refused' WHEN 4 THEN 'connect_timeout' WHEN 5 THEN 'tls' WHEN 6 THEN 'write' WHEN 7 THEN 'header_timeout' WHEN 8 THEN 'body_timeout' WHEN 9 THEN 'too_large' WHEN 10 THEN 'bad_response' WHEN 11 THEN 'status' WHEN 12 THEN 'handler' WHEN 13 THEN 'lost' WHEN 14 THEN 'local' END AS cause,
  nullif(a.status_code, 0) AS status_code,
  CAST(a.error AS TEXT) AS error,
  a.replica AS replica,
  nullif(a.endpoint_version, 0) AS endpoint_version,
  CAST(a.response_body AS TEXT) AS response_body,
  lower(substr(hex(a.delivery), 1, 8) || '-' || substr(hex(a.delivery), 9, 4) || '-' || substr(hex(a.delivery), 13, 4) || '-' || substr(hex(a.delivery), 17, 4) || '-' || substr(hex(a.delivery), 21)) AS uuid,
  a.sent_twice AS sent_twice
FROM attempts a
LEFT JOIN deliveries d ON d.id = a.delivery
LEFT JOIN tenants t ON t.no = d.tenant;

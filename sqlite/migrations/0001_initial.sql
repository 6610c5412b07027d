-- The tables of Posthaste on SQLite.
--
-- events, deliveries and attempts are the truth; due and dead are indexes of it
-- that can be rebuilt, and replicas, gates and changes can be emptied: nothing is lost by it.
--
-- Ids are 16 bytes, times whole microseconds since 1970 in UTC, 0 for none.
-- states:   0 pending, 1 delivered, 2 dead
-- outcomes: 1 delivered, 2 transient, 3 permanent, 4 lost
-- The views at the end show all of it in words.

CREATE TABLE tenants (
  no              INTEGER PRIMARY KEY AUTOINCREMENT,
  name            TEXT    NOT NULL UNIQUE, -- a deleted one keeps it: its history is read by it
  uid             TEXT    NOT NULL DEFAULT '',
  metadata        TEXT    NOT NULL DEFAULT '{}', -- JSON
  version         INTEGER NOT NULL DEFAULT 1,
  routing_version INTEGER NOT NULL DEFAULT 0, -- rises with each change of an endpoint of it, and with its deletion
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL DEFAULT 0,
  deleted_at      INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX tenants_uid ON tenants (uid) WHERE uid <> '' AND deleted_at = 0;
CREATE INDEX tenants_living ON tenants (no) WHERE deleted_at = 0;

CREATE TABLE endpoints (
  no              INTEGER PRIMARY KEY AUTOINCREMENT, -- a deleted one's number must never mean another
  tenant          INTEGER NOT NULL,
  id              BLOB    NOT NULL,
  version         INTEGER NOT NULL,
  definition      TEXT    NOT NULL, -- JSON
  uid             TEXT    NOT NULL,
  metadata        TEXT    NOT NULL, -- JSON
  paused          INTEGER NOT NULL,
  disabled        INTEGER NOT NULL,
  disabled_reason TEXT    NOT NULL,
  created_at      INTEGER NOT NULL,
  updated_at      INTEGER NOT NULL,
  deleted_at      INTEGER NOT NULL DEFAULT 0,
  routing_version INTEGER NOT NULL, -- of the tenant, when this endpoint last changed
  UNIQUE (tenant, id)
);
CREATE INDEX endpoints_routing ON endpoints (tenant, routing_version);
CREATE UNIQUE INDEX endpoints_uid ON endpoints (tenant, uid) WHERE uid <> '' AND deleted_at = 0;
-- For lists: of all tenants, and of the living, so that a page never walks over tombstones.
CREATE UNIQUE INDEX endpoints_id ON endpoints (id);
CREATE INDEX endpoints_living ON endpoints (id) WHERE deleted_at = 0;
CREATE INDEX endpoints_living_tenant ON endpoints (tenant, id) WHERE deleted_at = 0;

CREATE TABLE endpoint_secrets (
  endpoint   INTEGER NOT NULL,
  no         INTEGER NOT NULL,
  sealed     BLOB    NOT NULL,
  key_id     TEXT    NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (endpoint, no)
) WITHOUT ROWID;
CREATE INDEX endpoint_secrets_expiring ON endpoint_secrets (expires_at) WHERE expires_at <> 0;

CREATE TABLE endpoint_versions (
  endpoint   INTEGER NOT NULL,
  version    INTEGER NOT NULL,
  definition TEXT    NOT NULL,
  PRIMARY KEY (endpoint, version)
) WITHOUT ROWID;

CREATE TABLE sources (
  no         INTEGER PRIMARY KEY AUTOINCREMENT,
  id         BLOB    NOT NULL UNIQUE, -- random: it stands in a public URL
  tenant     INTEGER NOT NULL,
  version    INTEGER NOT NULL,
  definition TEXT    NOT NULL, -- JSON
  uid        TEXT    NOT NULL,
  metadata   TEXT    NOT NULL, -- JSON
  sealed     BLOB    NOT NULL, -- all that is secret about it, JSON, as one
  key_id     TEXT    NOT NULL,
  rejected   INTEGER NOT NULL DEFAULT 0, -- deliveries rejected in a row
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX sources_uid ON sources (tenant, uid) WHERE uid <> '';
CREATE INDEX sources_tenant ON sources (tenant, no);

-- The newest of each source. What a sender controls is stored as bytes.
CREATE TABLE rejections (
  source     INTEGER NOT NULL,
  id         BLOB    NOT NULL,
  reason     BLOB    NOT NULL,
  detail     BLOB    NOT NULL,
  hint       BLOB    NOT NULL,
  method     BLOB    NOT NULL,
  headers    BLOB,
  body       BLOB, -- its first bytes
  body_bytes INTEGER NOT NULL,
  PRIMARY KEY (source, id)
) WITHOUT ROWID;

-- A rowid table: rows with payloads are appended, and only the small key goes
-- into a tree. The payload stands last, so that reading the other columns does
-- not walk its overflow pages.
CREATE TABLE events (
  tenant           INTEGER NOT NULL,
  id               BLOB    NOT NULL,
  type             TEXT    NOT NULL,
  source           TEXT    NOT NULL,
  content_type     TEXT    NOT NULL,
  content_encoding TEXT    NOT NULL,
  headers          BLOB,             -- length and bytes of each name and value: they need not be text
  fan_out          INTEGER NOT NULL, -- deliveries made at acceptance, 1 … fan_out
  idempotency_key  TEXT    NOT NULL,
  parent           BLOB,
  correlation_id   BLOB,             -- NULL: its own id
  order_key        TEXT    NOT NULL,
  traceparent      TEXT    NOT NULL,
  source_headers   BLOB,             -- as a source received them, credentials masked; as headers
  sum              BLOB    NOT NULL, -- of type and payload, to tell a repetition from a mismatch
  payload          BLOB,             -- NULL: erased
  PRIMARY KEY (tenant, id)
);
CREATE INDEX events_parent ON events (parent, id) WHERE parent IS NOT NULL;

-- The hash stands first: one comparison finds the place in the tree.
CREATE TABLE idempotency (
  key       BLOB    NOT NULL,
  namespace INTEGER NOT NULL,
  tenant    INTEGER NOT NULL,
  event     BLOB    NOT NULL,
  PRIMARY KEY (key, namespace, tenant)
) WITHOUT ROWID;

CREATE TABLE deliveries (
  id          BLOB    NOT NULL PRIMARY KEY, -- its event's id plus its number
  tenant      INTEGER NOT NULL,
  endpoint    INTEGER NOT NULL,
  owner       INTEGER NOT NULL, -- the epoch that leases it; 0: nobody
  state       INTEGER NOT NULL,
  attempts    INTEGER NOT NULL, -- the highest number recorded
  failures    INTEGER NOT NULL, -- of the present run
  due_at      INTEGER NOT NULL, -- names its own row in due; 0: it has none
  run_at      INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  outcome     INTEGER NOT NULL, -- of the last attempt
  reason      INTEGER NOT NULL, -- why it is dead
  finished_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX deliveries_endpoint ON deliveries (endpoint, id);

CREATE TABLE due (
  endpoint INTEGER NOT NULL,
  due_at   INTEGER NOT NULL,
  delivery BLOB    NOT NULL,
  owner    INTEGER NOT NULL DEFAULT 0,
  try_at   INTEGER NOT NULL DEFAULT 0, -- at an ordered endpoint, where due_at is a position: not before
  PRIMARY KEY (endpoint, due_at, delivery)
) WITHOUT ROWID;

CREATE TABLE dead (
  tenant   INTEGER NOT NULL,
  delivery BLOB    NOT NULL,
  endpoint INTEGER NOT NULL,
  PRIMARY KEY (tenant, delivery)
) WITHOUT ROWID;
CREATE INDEX dead_endpoint ON dead (endpoint, delivery);

-- What became of events, for the live stream: a row for each kind of change of a
-- job of the writer, in the order of the commits.
CREATE TABLE changes (
  seq     INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  kind    INTEGER NOT NULL, -- 1 event accepted, 2 delivery delivered, 3 delivery dead, 4 an endpoint's gate
  entries BLOB    NOT NULL, -- of each 20 bytes: the tenant's number, and the id of the event, delivery or endpoint
  detail  BLOB
);

CREATE TABLE attempts (
  delivery         BLOB    NOT NULL,
  number           INTEGER NOT NULL,
  started_at       INTEGER NOT NULL,
  dns_us           INTEGER NOT NULL,
  connect_us       INTEGER NOT NULL,
  tls_us           INTEGER NOT NULL,
  first_byte_us    INTEGER NOT NULL,
  total_us         INTEGER NOT NULL,
  outcome          INTEGER NOT NULL,
  late             INTEGER NOT NULL,
  cause            INTEGER NOT NULL,
  status_code      INTEGER NOT NULL,
  error            BLOB,             -- what a receiver controls is kept as bytes
  endpoint_version INTEGER NOT NULL,
  replica          TEXT    NOT NULL,
  response_headers BLOB,
  response_body    BLOB,
  PRIMARY KEY (delivery, number)
) WITHOUT ROWID;

CREATE TABLE replicas (
  epoch     INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again
  name      TEXT    NOT NULL,
  busy      INTEGER NOT NULL,
  delivers  INTEGER NOT NULL DEFAULT 0, -- makes attempts
  beat_at   INTEGER NOT NULL,
  low_water BLOB    NOT NULL
);

-- How the gates of endpoints stand, those that ever differed from an open way. May be
-- emptied: every gate is open then. breaker: 0 closed, 1 open, 2 half-open
CREATE TABLE gates (
  endpoint          INTEGER PRIMARY KEY,
  breaker           INTEGER NOT NULL,
  failures          INTEGER NOT NULL, -- transient ones in a row
  openings          INTEGER NOT NULL, -- since it was closed
  open_until        INTEGER NOT NULL,
  probe             BLOB    NOT NULL, -- the attempt that decides while it is half-open
  probe_number      INTEGER NOT NULL,
  closed_at         INTEGER NOT NULL,
  retry_after_until INTEGER NOT NULL,
  failing_since     INTEGER NOT NULL,
  failed_at         INTEGER NOT NULL,
  slot              INTEGER NOT NULL, -- the next regular time of an attempt
  retry_slot        INTEGER NOT NULL, -- and of a retry
  changed_at        INTEGER NOT NULL
);
CREATE INDEX gates_changed ON gates (changed_at);

-- Replays and resends of events at or below it are refused, so that retention
-- can delete what it found finished.
CREATE TABLE horizon (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id  BLOB NOT NULL
);

CREATE TABLE settings (
  name  TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) WITHOUT ROWID;

-- * is number 3, which the program counts on: it owns the endpoints that are of all tenants.
INSERT INTO tenants (name, created_at) VALUES
  ('default',  CAST(strftime('%s', 'now') AS INTEGER) * 1000000),
  ('operator', CAST(strftime('%s', 'now') AS INTEGER) * 1000000),
  ('*',        CAST(strftime('%s', 'now') AS INTEGER) * 1000000);
INSERT INTO horizon (one, id) VALUES (1, zeroblob(16));

-- For the sqlite3 shell. An id is printed as its kind, "_", and 26 characters of
-- base32: four zero bits and the 128 bits of the id are 33 hex digits, and
-- character k is the five bits from bit 5k+2 of them.
CREATE VIEW v_deliveries AS
SELECT
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'dlv_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(d.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(d.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS id,
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'evt_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(e.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(e.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS event,
  t.name AS tenant,
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'ep_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(p.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(p.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS endpoint,
  e.type AS type,
  CASE d.state WHEN 0 THEN CASE WHEN d.owner = 0 THEN 'pending' ELSE 'delivering' END WHEN 1 THEN 'delivered' WHEN 2 THEN 'dead' END AS status,
  d.attempts AS attempts,
  d.failures AS failures,
  CASE d.outcome WHEN 1 THEN 'delivered' WHEN 2 THEN 'transient' WHEN 3 THEN 'permanent' WHEN 4 THEN 'lost' END AS last_outcome,
  CASE d.reason WHEN 1 THEN 'permanent failure' WHEN 2 THEN 'retries exhausted' WHEN 3 THEN 'expired' WHEN 4 THEN 'endpoint deleted' WHEN 5 THEN 'skipped' WHEN 6 THEN 'endpoint gone' END AS reason,
  CASE WHEN d.run_at <> 0 THEN strftime('%Y-%m-%d %H:%M:%f', d.run_at/1000 / 1000.0, 'unixepoch') END AS run_at,
  CASE WHEN d.expires_at <> 0 THEN strftime('%Y-%m-%d %H:%M:%f', d.expires_at/1000 / 1000.0, 'unixepoch') END AS expires_at,
  CASE WHEN d.state = 0 AND d.owner = 0 AND d.due_at <> 0 THEN strftime('%Y-%m-%d %H:%M:%f', max(d.due_at, coalesce((
    SELECT u.try_at FROM due u WHERE u.endpoint = d.endpoint AND u.due_at = d.due_at AND u.delivery = d.id), 0))/1000 / 1000.0, 'unixepoch') END AS next_attempt_at,
  CASE WHEN d.state <> 0 AND d.finished_at <> 0 THEN strftime('%Y-%m-%d %H:%M:%f', d.finished_at/1000 / 1000.0, 'unixepoch') END AS finished_at
FROM deliveries d
LEFT JOIN tenants t ON t.no = d.tenant
LEFT JOIN endpoints p ON p.no = d.endpoint
LEFT JOIN events e ON e.tenant = d.tenant AND e.id = (SELECT max(f.id) FROM events f WHERE f.tenant = d.tenant AND f.id < d.id AND f.id >= substr(d.id, 1, 13) || x'000000');

CREATE VIEW v_dead AS
SELECT
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'dlv_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(d.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(d.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS id,
  t.name AS tenant,
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'ep_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(p.id), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(p.id), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS endpoint,
  e.type AS type,
  CASE d.reason WHEN 1 THEN 'permanent failure' WHEN 2 THEN 'retries exhausted' WHEN 3 THEN 'expired' WHEN 4 THEN 'endpoint deleted' WHEN 5 THEN 'skipped' WHEN 6 THEN 'endpoint gone' END AS reason,
  d.attempts AS attempts,
  CASE WHEN a.status_code <> 0 THEN a.status_code END AS last_status_code,
  CAST(a.error AS TEXT) AS last_error,
  CASE WHEN d.finished_at <> 0 THEN strftime('%Y-%m-%d %H:%M:%f', d.finished_at/1000 / 1000.0, 'unixepoch') END AS finished_at
FROM dead x
JOIN deliveries d ON d.id = x.delivery
LEFT JOIN tenants t ON t.no = d.tenant
LEFT JOIN endpoints p ON p.no = d.endpoint
LEFT JOIN events e ON e.tenant = d.tenant AND e.id = (SELECT max(f.id) FROM events f WHERE f.tenant = d.tenant AND f.id < d.id AND f.id >= substr(d.id, 1, 13) || x'000000')
LEFT JOIN attempts a ON a.delivery = d.id AND a.number = d.attempts;

CREATE VIEW v_attempts AS
SELECT
  (WITH RECURSIVE b(k, s) AS (SELECT 0, 'dlv_' UNION ALL SELECT k + 1, s || substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + (((instr('0123456789ABCDEF', substr('0' || hex(a.delivery), (5*k + 2)/4 + 1, 1)) - 1) * 16 + instr('0123456789ABCDEF', substr('0' || hex(a.delivery), (5*k + 2)/4 + 2, 1)) - 1 >> 3 - (5*k + 2) % 4) & 31), 1) FROM b WHERE k < 26) SELECT s FROM b WHERE k = 26) AS delivery,
  a.number AS number,
  t.name AS tenant,
  CASE WHEN a.started_at <> 0 THEN strftime('%Y-%m-%d %H:%M:%f', a.started_at/1000 / 1000.0, 'unixepoch') END AS started_at,
  a.total_us / 1000.0 AS duration_ms,
  CASE a.outcome WHEN 1 THEN 'delivered' WHEN 2 THEN 'transient' WHEN 3 THEN 'permanent' WHEN 4 THEN 'lost' END AS outcome,
  a.late AS late,
  CASE a.cause WHEN 1 THEN 'dns' WHEN 2 THEN 'blocked_address' WHEN 3 THEN 'refused' WHEN 4 THEN 'connect_timeout' WHEN 5 THEN 'tls' WHEN 6 THEN 'write' WHEN 7 THEN 'header_timeout' WHEN 8 THEN 'body_timeout' WHEN 9 THEN 'too_large' WHEN 10 THEN 'bad_response' WHEN 11 THEN 'status' WHEN 12 THEN 'handler' WHEN 13 THEN 'lost' END AS cause,
  CASE WHEN a.status_code <> 0 THEN a.status_code END AS status_code,
  CAST(a.error AS TEXT) AS error,
  CASE WHEN a.endpoint_version <> 0 THEN a.endpoint_version END AS endpoint_version,
  a.replica AS replica
FROM attempts a
LEFT JOIN deliveries d ON d.id = a.delivery
LEFT JOIN tenants t ON t.no = d.tenant;

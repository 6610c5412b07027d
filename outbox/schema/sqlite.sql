-- The outbox of Posthaste in an application's SQLite database, version 1.
--
-- An application enqueues an event by inserting a row, in the transaction that makes the
-- change which the event tells of:
--
--	INSERT INTO posthaste_outbox (type, payload) VALUES ('invoice.paid', '{"invoice":42}');
--
-- A relay takes the rows to the engine. Run this in one transaction; to run it again
-- changes nothing. "posthaste outbox install" does so.

CREATE TABLE IF NOT EXISTS posthaste_outbox_schema (
  version INTEGER PRIMARY KEY,
  installed_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000)
);

-- The events that wait, in the order of their transactions, which SQLite writes one by
-- one. Times are microseconds since 1970.
CREATE TABLE IF NOT EXISTS posthaste_outbox (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  row_id BLOB NOT NULL DEFAULT (randomblob(16)),
  enqueued_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000),
  tenant TEXT NOT NULL DEFAULT 'default',
  type TEXT NOT NULL,
  order_key TEXT,
  idempotency_key TEXT,
  content_type TEXT NOT NULL DEFAULT 'application/json',
  headers TEXT NOT NULL DEFAULT '{}',
  payload BLOB NOT NULL,
  CONSTRAINT "row_id: 16 random bytes" CHECK (typeof(row_id) = 'blob' AND length(row_id) = 16),
  CONSTRAINT "tenant: 1 to 64 of a-z A-Z 0-9 . _ -, a letter or digit first"
    CHECK (length(tenant) BETWEEN 1 AND 64 AND tenant GLOB '[a-zA-Z0-9]*' AND tenant NOT GLOB '*[^a-zA-Z0-9._-]*'),
  CONSTRAINT "type: 1 to 128 of a-z A-Z 0-9 . _ - / :"
    CHECK (length(type) BETWEEN 1 AND 128 AND type NOT GLOB '*[^a-zA-Z0-9._/:-]*'),
  CONSTRAINT "order_key: 1 to 255 bytes" CHECK (length(CAST(order_key AS BLOB)) BETWEEN 1 AND 255),
  CONSTRAINT "idempotency_key: 1 to 255 bytes" CHECK (length(CAST(idempotency_key AS BLOB)) BETWEEN 1 AND 255),
  CONSTRAINT "content_type: at most 255 bytes" CHECK (length(CAST(content_type AS BLOB)) <= 255),
  CONSTRAINT "headers: an object of strings" CHECK (headers = '{}' OR json_valid(headers) AND json_type(headers) = 'object'),
  CONSTRAINT "payload: at most 64 MiB" CHECK (length(payload) <= 67108864)
);

-- What could not be accepted, with the reason, until it is retried or dropped.
CREATE TABLE IF NOT EXISTS posthaste_outbox_parked (
  id INTEGER PRIMARY KEY,
  row_id BLOB NOT NULL UNIQUE,
  enqueued_at INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  type TEXT NOT NULL,
  order_key TEXT,
  idempotency_key TEXT,
  content_type TEXT NOT NULL,
  headers TEXT NOT NULL,
  payload BLOB NOT NULL,
  code TEXT NOT NULL,
  reason TEXT NOT NULL,
  parked_at INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000)
);
CREATE INDEX IF NOT EXISTS posthaste_outbox_parked_order ON posthaste_outbox_parked (order_key) WHERE order_key IS NOT NULL;

INSERT INTO posthaste_outbox_schema (version) VALUES (1) ON CONFLICT DO NOTHING;

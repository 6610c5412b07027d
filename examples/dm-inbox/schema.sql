-- The inbox's own tables, for SQLite and for PostgreSQL alike. Times are milliseconds
-- since 1970 and 0 where something has not happened; nothing is NULL.
--
-- event_id and correlation_id tell which event of the engine made a row, so that
-- one id leads from the webhook through the rows to what a browser was told.

-- The connected Instagram and Facebook accounts. A webhook names the account by
-- the id of its entry, and that decides whose customer wrote.
CREATE TABLE IF NOT EXISTS accounts (
	id         TEXT PRIMARY KEY,
	tenant     TEXT NOT NULL,
	platform   TEXT NOT NULL,
	name       TEXT NOT NULL,
	token      TEXT NOT NULL,                -- for the Graph API
	owner_id   TEXT NOT NULL,                -- the person at Meta who connected it
	state      TEXT NOT NULL DEFAULT 'active', -- or paused: nothing is sent
	reason     TEXT NOT NULL DEFAULT '',     -- why it is paused
	wait_until BIGINT NOT NULL DEFAULT 0     -- Meta's rate limit
);

CREATE TABLE IF NOT EXISTS agents (
	name   TEXT PRIMARY KEY,
	tenant TEXT NOT NULL
);

CREATE TABLE IF NOT EXISTS sessions (
	token_hash TEXT PRIMARY KEY,
	agent      TEXT NOT NULL REFERENCES agents (name),
	expires_at BIGINT NOT NULL
);

-- A lead is a customer of an account, and the conversation with them. Whatever
-- handles a conversation locks its lead first: one row orders all that happens in it.
CREATE TABLE IF NOT EXISTS leads (
	id             TEXT PRIMARY KEY,
	account_id     TEXT NOT NULL REFERENCES accounts (id),
	user_id        TEXT NOT NULL,            -- as this account knows the customer
	tenant         TEXT NOT NULL,
	status         TEXT NOT NULL DEFAULT 'open', -- or closed
	unread         BIGINT NOT NULL DEFAULT 0,
	reopened       BIGINT NOT NULL DEFAULT 0, -- how often a message opened it again
	intent         TEXT NOT NULL DEFAULT '',
	last_at        BIGINT NOT NULL DEFAULT 0, -- of the newest message
	event_id       TEXT NOT NULL,
	correlation_id TEXT NOT NULL,
	UNIQUE (account_id, user_id)
);
CREATE INDEX IF NOT EXISTS leads_of_tenant ON leads (tenant, last_at);

CREATE TABLE IF NOT EXISTS messages (
	account_id     TEXT NOT NULL,
	mid            TEXT NOT NULL,            -- the platform's id of the message
	lead_id        TEXT NOT NULL REFERENCES leads (id),
	direction      TEXT NOT NULL,            -- in or out
	kind           TEXT NOT NULL,            -- message, echo, story_mention, story_reply, postback, reply, unsupported
	text           TEXT NOT NULL,            -- as last edited; '' once unsent
	attachments    TEXT NOT NULL,            -- JSON: [{"type":…,"url":…}]
	reply_to       TEXT NOT NULL,            -- a mid, or story:ID
	at             BIGINT NOT NULL,
	edit_number    BIGINT NOT NULL DEFAULT 0, -- of the edit that text is from …
	edited_at      BIGINT NOT NULL DEFAULT 0, -- … and its time
	unsent_at      BIGINT NOT NULL DEFAULT 0,
	read_at        BIGINT NOT NULL DEFAULT 0, -- by the customer
	intent         TEXT NOT NULL DEFAULT '',
	event_id       TEXT NOT NULL,
	correlation_id TEXT NOT NULL,
	PRIMARY KEY (account_id, mid)
);
CREATE INDEX IF NOT EXISTS messages_of_lead ON messages (lead_id, at);

-- What happens to messages. Meta promises no order, so each of these may come before
-- its message: the row waits here, and is applied when the message is stored.
CREATE TABLE IF NOT EXISTS edits (
	account_id TEXT NOT NULL, mid TEXT NOT NULL, number BIGINT NOT NULL, at BIGINT NOT NULL,
	lead_id TEXT NOT NULL REFERENCES leads (id),
	text TEXT NOT NULL,
	event_id TEXT NOT NULL, correlation_id TEXT NOT NULL,
	PRIMARY KEY (account_id, mid, number, at)
);
CREATE TABLE IF NOT EXISTS reactions (
	account_id TEXT NOT NULL, mid TEXT NOT NULL, sender_id TEXT NOT NULL, -- one a person and message
	lead_id TEXT NOT NULL REFERENCES leads (id),
	emoji TEXT NOT NULL, name TEXT NOT NULL, removed BIGINT NOT NULL, at BIGINT NOT NULL,
	event_id TEXT NOT NULL, correlation_id TEXT NOT NULL,
	PRIMARY KEY (account_id, mid, sender_id)
);
CREATE TABLE IF NOT EXISTS reads (
	account_id TEXT NOT NULL, user_id TEXT NOT NULL, mid TEXT NOT NULL, up_to BIGINT NOT NULL, -- one of the two
	lead_id TEXT NOT NULL REFERENCES leads (id),
	at BIGINT NOT NULL,
	event_id TEXT NOT NULL, correlation_id TEXT NOT NULL,
	PRIMARY KEY (account_id, user_id, mid, up_to)
);
CREATE TABLE IF NOT EXISTS unsends (
	account_id TEXT NOT NULL, mid TEXT NOT NULL,
	lead_id TEXT NOT NULL REFERENCES leads (id),
	at BIGINT NOT NULL,
	event_id TEXT NOT NULL, correlation_id TEXT NOT NULL,
	PRIMARY KEY (account_id, mid)
);
CREATE TABLE IF NOT EXISTS story_mentions (
	account_id TEXT NOT NULL, mid TEXT NOT NULL,
	lead_id TEXT NOT NULL REFERENCES leads (id),
	url TEXT NOT NULL, at BIGINT NOT NULL,
	event_id TEXT NOT NULL, correlation_id TEXT NOT NULL,
	PRIMARY KEY (account_id, mid)
);

-- The answers of agents, on their way to Meta.
CREATE TABLE IF NOT EXISTS replies (
	id         TEXT PRIMARY KEY,             -- made by the page: the same form sent twice is one reply
	tenant     TEXT NOT NULL,
	account_id TEXT NOT NULL REFERENCES accounts (id),
	lead_id    TEXT NOT NULL REFERENCES leads (id),
	agent      TEXT NOT NULL,
	text       TEXT NOT NULL,
	state      TEXT NOT NULL DEFAULT 'queued', -- held (account paused), sent, failed
	reason     TEXT NOT NULL DEFAULT '',
	round      BIGINT NOT NULL DEFAULT 0,    -- how often it was queued anew
	mid        TEXT NOT NULL DEFAULT '',
	at         BIGINT NOT NULL,
	correlation_id TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS replies_of_lead ON replies (lead_id, at);
CREATE INDEX IF NOT EXISTS replies_of_account ON replies (account_id, state);

-- What browsers are to be told, written in the transaction of the change itself
-- and sent right after it: see live.go. handled_by is the event whose handler sends.
CREATE TABLE IF NOT EXISTS live_events (
	handled_by     TEXT NOT NULL,
	number         BIGINT NOT NULL,
	tenant         TEXT NOT NULL,
	lead_id        TEXT NOT NULL,
	type           TEXT NOT NULL,
	data           TEXT NOT NULL,            -- JSON
	event_id       TEXT NOT NULL,
	correlation_id TEXT NOT NULL,
	live_event_id  TEXT NOT NULL DEFAULT '', -- '' until the engine has it
	PRIMARY KEY (handled_by, number)
);

-- Requests for deletion, which Meta passes on and lets people look up.
CREATE TABLE IF NOT EXISTS deletions (
	user_id TEXT PRIMARY KEY,
	code    TEXT NOT NULL UNIQUE,
	at      BIGINT NOT NULL
);

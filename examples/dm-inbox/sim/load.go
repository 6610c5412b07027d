package sim

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite" of database/sql
)

// Inbox is the database of examples/dm-inbox, to be read.
type Inbox struct{ db *sql.DB }

// OpenInbox opens the database at an address of PostgreSQL, or a file of SQLite.
func OpenInbox(address string) (*Inbox, error) {
	if !strings.HasPrefix(address, "postgres") {
		db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: address}).EscapedPath()+"?mode=ro&_pragma=busy_timeout(10000)")
		if err != nil {
			return nil, fmt.Errorf("open the inbox: %w", err)
		}
		return &Inbox{db}, nil
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("open the inbox: %w", err)
	}
	config.RuntimeParams["search_path"] = "dm_inbox"
	return &Inbox{stdlib.OpenDB(*config)}, nil
}

// Close closes the database.
func (in *Inbox) Close() error { return in.db.Close() }

const (
	selectLeads = `SELECT account_id, user_id, unread FROM leads`

	// A message without an id of Meta's is stored under that of its event. Only customers
	// react in a plan.
	selectMessages = `
		SELECT m.account_id, m.mid, m.mid = m.event_id, l.user_id, m.direction = 'in', m.at, m.text, m.edit_number,
			m.unsent_at > 0, m.read_at > 0, coalesce(r.emoji, '')
		FROM messages m JOIN leads l ON l.id = m.lead_id
		LEFT JOIN reactions r ON r.account_id = m.account_id AND r.mid = m.mid AND r.sender_id = l.user_id AND r.removed = 0`

	// Those that the engine has, each under an id of its own.
	selectTold = `
		SELECT type, count(DISTINCT live_event_id) FROM live_events
		WHERE live_event_id <> '' AND type IN ('lead.created', 'message.created') GROUP BY type`
)

// Load reads all that a plan says something about.
func (in *Inbox) Load(ctx context.Context) (Tables, error) {
	t := newTables()
	err := in.each(ctx, selectLeads, func(rows *sql.Rows) error {
		var key LeadKey
		lead := new(Lead)
		err := rows.Scan(&key.Account, &key.Customer, &lead.Unread)
		t.Leads[key] = lead
		return err
	})
	if err != nil {
		return Tables{}, fmt.Errorf("load the leads: %w", err)
	}
	err = in.each(ctx, selectMessages, func(rows *sql.Rows) error {
		m := new(Message)
		var isWithoutID bool
		var at int64
		err := rows.Scan(&m.Account, &m.MID, &isWithoutID, &m.Customer, &m.FromCustomer, &at, &m.Text, &m.Edits, &m.Unsent, &m.Read, &m.Reaction)
		if isWithoutID {
			m.MID = withoutID(m.Text)
		}
		m.SentAt = time.UnixMilli(at)
		t.Messages[MessageKey{m.Account, m.MID}] = m
		return err
	})
	if err != nil {
		return Tables{}, fmt.Errorf("load the messages: %w", err)
	}
	err = in.each(ctx, selectTold, func(rows *sql.Rows) error {
		var kind string
		var n int
		err := rows.Scan(&kind, &n)
		t.Told[kind] = n
		return err
	})
	if err != nil {
		return Tables{}, fmt.Errorf("load the live events: %w", err)
	}
	return t, nil
}

func (in *Inbox) each(ctx context.Context, query string, row func(*sql.Rows) error) error {
	rows, err := in.db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// WaitFor loads again and again until the tables are those of the plan, or stay as
// they are for that long. It returns what still differs.
func (in *Inbox) WaitFor(ctx context.Context, p *Plan, still time.Duration) (got Tables, differences []string, err error) {
	last, since := -1, time.Now()
	for {
		if got, err = in.Load(ctx); err != nil {
			return got, nil, err
		}
		differences = p.Tables.Diff(got)
		if len(differences) != last {
			last, since = len(differences), time.Now()
		}
		if last == 0 || time.Since(since) > still || ctx.Err() != nil {
			return got, differences, context.Cause(ctx)
		}
		wait(ctx, 500*time.Millisecond)
	}
}

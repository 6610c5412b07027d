package main

import (
	"context"
	"database/sql"
	"errors"
)

// Account is a connected Instagram or Facebook account.
type Account struct {
	ID, Tenant, Platform, Name, Token, OwnerID, State, Reason string
	WaitUntil                                                 int64
}

// The states of an account.
const (
	accountActive = "active"
	accountPaused = "paused"
)

const accountColumns = `id, tenant, platform, name, token, owner_id, state, reason, wait_until`

func (a *Account) fields() []any {
	return []any{&a.ID, &a.Tenant, &a.Platform, &a.Name, &a.Token, &a.OwnerID, &a.State, &a.Reason, &a.WaitUntil}
}

// account returns [sql.ErrNoRows] for one that nobody has connected.
func (s *Store) account(ctx context.Context, id string) (a Account, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT `+accountColumns+` FROM accounts WHERE id = $1`, id).Scan(a.fields()...)
	return a, err
}

// Lead is a customer of an account, and the conversation with them.
type Lead struct {
	ID, AccountID, UserID, Tenant, Status, Intent string
	Unread, Reopened, LastAt                      int64
}

// The states of a conversation.
const (
	leadOpen   = "open"
	leadClosed = "closed"
)

const leadColumns = `id, account_id, user_id, tenant, status, intent, unread, reopened, last_at`

func (l *Lead) fields() []any {
	return []any{&l.ID, &l.AccountID, &l.UserID, &l.Tenant, &l.Status, &l.Intent, &l.Unread, &l.Reopened, &l.LastAt}
}

// claimLead finds or makes the lead, and holds its row until the transaction
// ends. Of many that make the same one at once the database lets one win; the
// others wait for that and find it. Whoever got the row from the insert made it.
func (c *change) claimLead(ctx context.Context, userID string) error {
	var lead Lead
	err := c.tx.QueryRowContext(ctx, `
		INSERT INTO leads (id, account_id, user_id, tenant, event_id, correlation_id) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (account_id, user_id) DO NOTHING RETURNING `+leadColumns,
		newID("lead"), c.account.ID, userID, c.account.Tenant, c.EventID, c.CorrelationID).Scan(lead.fields()...)
	if err == nil {
		c.use(lead)
		c.log.InfoContext(ctx, "a new lead")
		return c.tell(ctx, typeLeadCreated, nil)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	err = c.tx.QueryRowContext(ctx, // an update that changes nothing takes the lock on both databases
		`UPDATE leads SET user_id = user_id WHERE account_id = $1 AND user_id = $2 RETURNING `+leadColumns, c.account.ID, userID).Scan(lead.fields()...)
	if err != nil {
		return err
	}
	c.use(lead)
	return nil
}

// holdLead is claimLead for a lead that is known.
func (c *change) holdLead(ctx context.Context, id string) error {
	var lead Lead
	err := c.tx.QueryRowContext(ctx, `UPDATE leads SET user_id = user_id WHERE id = $1 RETURNING `+leadColumns, id).Scan(lead.fields()...)
	if err != nil {
		return err
	}
	c.use(lead)
	return nil
}

func (c *change) use(lead Lead) {
	c.lead = lead
	c.log = c.log.With("lead_id", lead.ID)
}

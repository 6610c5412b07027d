package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/posthaste-dev/posthaste/engine"
)

// mostShown bounds a list and a thread: the newest count.
const mostShown = 100

// inboxView is the whole page.
type inboxView struct {
	Session
	Accounts []Account
	Leads    []leadView
	Open     string // the lead whose conversation is shown
}

// leadView is a conversation in the list.
type leadView struct {
	Lead
	Platform, AccountName, LastText string
}

// threadView is a conversation.
type threadView struct {
	leadView
	Messages []messageView
	Replies  []Reply // not sent yet, or failed
	ReplyID  string  // of the next reply: sending the form twice sends one
}

type messageView struct {
	Message
	Attached  []attachment
	Reactions []string
}

func (in *Inbox) serveInbox(w http.ResponseWriter, r *http.Request, s Session) {
	accounts, err := in.store.accountsOf(r.Context(), s.Tenant)
	var leads []leadView
	if err == nil {
		leads, err = in.store.leadsOf(r.Context(), s.Tenant, "")
	}
	if err != nil {
		in.fail(w, r, err)
		return
	}
	in.render(w, r, "inbox", inboxView{Session: s, Accounts: accounts, Leads: leads, Open: r.URL.Query().Get("lead")})
}

func (in *Inbox) serveConversations(w http.ResponseWriter, r *http.Request, s Session) {
	leads, err := in.store.leadsOf(r.Context(), s.Tenant, "")
	if err != nil {
		in.fail(w, r, err)
		return
	}
	in.render(w, r, "conversations", leads)
}

func (in *Inbox) serveAccounts(w http.ResponseWriter, r *http.Request, s Session) {
	accounts, err := in.store.accountsOf(r.Context(), s.Tenant)
	if err != nil {
		in.fail(w, r, err)
		return
	}
	in.render(w, r, "accounts", accounts)
}

func (in *Inbox) serveThread(w http.ResponseWriter, r *http.Request, s Session) {
	lead, ok := in.leadOf(w, r, s)
	if !ok {
		return
	}
	thread := threadView{leadView: lead, ReplyID: "reply_" + rand.Text()}
	var err error
	if thread.Messages, err = in.store.messagesOf(r.Context(), lead.ID); err == nil {
		thread.Replies, err = in.store.repliesOf(r.Context(), lead.ID)
	}
	if err != nil {
		in.fail(w, r, err)
		return
	}
	in.render(w, r, "thread", thread)
}

// leadOf finds the conversation that a path names, among the session's tenant's.
func (in *Inbox) leadOf(w http.ResponseWriter, r *http.Request, s Session) (leadView, bool) {
	leads, err := in.store.leadsOf(r.Context(), s.Tenant, r.PathValue("lead"))
	switch {
	case err != nil:
		in.fail(w, r, err)
	case len(leads) == 0:
		http.Error(w, "There is no such conversation.", http.StatusNotFound)
	default:
		return leads[0], true
	}
	return leadView{}, false
}

func (s *Store) accountsOf(ctx context.Context, tenant string) ([]Account, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+accountColumns+` FROM accounts WHERE tenant = $1 ORDER BY platform, id`, tenant)
	if err != nil {
		return nil, err
	}
	return collect(rows, (*Account).fields)
}

// leadsOf returns the conversations of a tenant, or the one of an id. The newest first.
func (s *Store) leadsOf(ctx context.Context, tenant, id string) ([]leadView, error) {
	rows, err := s.read.QueryContext(ctx, `
		SELECT l.id, l.account_id, l.user_id, l.tenant, l.status, l.intent, l.unread, l.reopened, l.last_at, a.platform, a.name,
			coalesce((SELECT CASE WHEN m.unsent_at > 0 THEN '(taken back)' WHEN m.text <> '' THEN m.text WHEN m.kind = 'story_mention' THEN '(a story)'
				ELSE '(an attachment)' END FROM messages m WHERE m.lead_id = l.id ORDER BY m.at DESC, m.mid DESC LIMIT 1), '')
		FROM leads l JOIN accounts a ON a.id = l.account_id
		WHERE l.tenant = $1 AND ($2 = '' OR l.id = $2) ORDER BY l.last_at DESC, l.id LIMIT $3`, tenant, id, mostShown)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(l *leadView) []any { return append(l.fields(), &l.Platform, &l.AccountName, &l.LastText) })
}

func (s *Store) messagesOf(ctx context.Context, leadID string) ([]messageView, error) {
	rows, err := s.read.QueryContext(ctx, `
		SELECT account_id, mid, direction, kind, text, attachments, reply_to, intent, at, edited_at, unsent_at, read_at FROM (
			SELECT * FROM messages WHERE lead_id = $1 ORDER BY at DESC, mid DESC LIMIT $2) AS newest
		ORDER BY at, mid`, leadID, mostShown)
	if err != nil {
		return nil, err
	}
	messages, err := collect(rows, func(m *messageView) []any {
		return []any{&m.AccountID, &m.MID, &m.Direction, &m.Kind, &m.Text, &m.Attachments, &m.ReplyTo, &m.Intent, &m.At, &m.EditedAt, &m.UnsentAt, &m.ReadAt}
	})
	if err != nil {
		return nil, err
	}
	reactions, err := s.reactionsOf(ctx, leadID)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		m := &messages[i]
		m.Reactions = reactions[m.MID]
		if err := json.Unmarshal([]byte(m.Attachments), &m.Attached); err != nil {
			return nil, fmt.Errorf("read the attachments of %s: %w", m.MID, err)
		}
	}
	return messages, nil
}

func (s *Store) reactionsOf(ctx context.Context, leadID string) (map[string][]string, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT mid, emoji, name FROM reactions WHERE lead_id = $1 AND removed = 0 ORDER BY at`, leadID)
	if err != nil {
		return nil, err
	}
	all, err := collect(rows, func(r *reactionRow) []any { return []any{&r.mid, &r.emoji, &r.name} })
	found := map[string][]string{}
	for _, r := range all {
		if r.emoji == "" {
			r.emoji = r.name // of one that is newer than this program
		}
		found[r.mid] = append(found[r.mid], r.emoji)
	}
	return found, err
}

func (s *Store) repliesOf(ctx context.Context, leadID string) ([]Reply, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+replyColumns+` FROM replies WHERE lead_id = $1 AND state <> 'sent' ORDER BY at`, leadID)
	if err != nil {
		return nil, err
	}
	return collect(rows, (*Reply).fields)
}

func (in *Inbox) reply(w http.ResponseWriter, r *http.Request, s Session) {
	lead, ok := in.leadOf(w, r, s)
	if !ok {
		return
	}
	text, id := strings.TrimSpace(r.PostFormValue("text")), r.PostFormValue("reply_id")
	if text == "" || !strings.HasPrefix(id, "reply_") || len(id) > 64 {
		http.Error(w, "Write something first.", http.StatusBadRequest)
		return
	}
	err := in.requestReply(r.Context(), Reply{
		ID: id, Tenant: s.Tenant, AccountID: lead.AccountID, LeadID: lead.ID, Agent: s.Agent, Text: text, At: millis(in.config.Now()),
	})
	in.answerChange(w, r, err)
}

// markRead and closeConversation change a lead and tell the tenant's other browsers.
func (in *Inbox) markRead(w http.ResponseWriter, r *http.Request, s Session) {
	in.changeLead(w, r, s, `UPDATE leads SET unread = 0 WHERE id = $1 AND unread > 0`)
}

func (in *Inbox) closeConversation(w http.ResponseWriter, r *http.Request, s Session) {
	in.changeLead(w, r, s, `UPDATE leads SET status = 'closed', unread = 0 WHERE id = $1 AND status = 'open'`)
}

func (in *Inbox) changeLead(w http.ResponseWriter, r *http.Request, s Session, statement string) {
	lead, ok := in.leadOf(w, r, s)
	if !ok {
		return
	}
	var isChanged bool
	err := in.store.inTx(r.Context(), func(tx *sql.Tx) (err error) {
		isChanged, err = changed(r.Context(), tx, statement, lead.ID)
		return err
	})
	if err == nil && isChanged {
		err = in.tellOthers(r.Context(), lead.Lead)
	}
	in.answerChange(w, r, err)
}

// tellOthers is for what an agent did. Unlike what Meta sends, it needs no record of what is
// to be told: if this fails the agent sees it, and repeats it or not.
func (in *Inbox) tellOthers(ctx context.Context, lead Lead) error {
	payload, err := json.Marshal(map[string]string{"lead_id": lead.ID, "account_id": lead.AccountID})
	if err != nil {
		return err
	}
	_, err = in.engine.Send(ctx, lead.Tenant, engine.Event{Type: typeLeadUpdated, ContentType: "application/json", Payload: payload})
	return err
}

func (in *Inbox) reconnectAccount(w http.ResponseWriter, r *http.Request, s Session) {
	token := r.PostFormValue("token")
	if token == "" {
		http.Error(w, "The token is missing.", http.StatusBadRequest)
		return
	}
	err := in.reconnect(r.Context(), s.Tenant, r.PathValue("account"), token)
	if errors.Is(err, sql.ErrNoRows) {
		http.Error(w, "There is no such account.", http.StatusNotFound)
		return
	}
	if err != nil {
		in.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (in *Inbox) answerChange(w http.ResponseWriter, r *http.Request, err error) {
	if err != nil {
		in.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

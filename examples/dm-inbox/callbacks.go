package main

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/url"

	"github.com/posthaste-dev/posthaste/inbound/meta"
)

// Meta tells an app in two callbacks of its own, outside the webhooks, that a person
// has removed it, and that a person wants their data deleted.

func (in *Inbox) signedRequest(w http.ResponseWriter, r *http.Request) (meta.SignedRequest, bool) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	signed, err := meta.ParseSignedRequest([]string{in.config.AppSecret}, r.PostFormValue("signed_request"))
	if err != nil {
		in.log.WarnContext(r.Context(), "refused a callback", "path", r.URL.Path, "err", err)
		http.Error(w, "signed_request refused", http.StatusForbidden)
		return signed, false
	}
	return signed, true
}

// serveDeauthorize pauses the accounts that the person had connected: their tokens are dead.
func (in *Inbox) serveDeauthorize(w http.ResponseWriter, r *http.Request) {
	signed, ok := in.signedRequest(w, r)
	if !ok {
		return
	}
	err := in.store.inTx(r.Context(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(r.Context(), `
			UPDATE accounts SET state = 'paused', reason = 'the app was removed at Meta', token = '' WHERE owner_id = $1`, signed.UserID)
		return err
	})
	if err != nil {
		in.fail(w, r, err)
		return
	}
	in.log.InfoContext(r.Context(), "a person removed the app", "user_id", signed.UserID)
}

// serveDeletion deletes at once, and answers with where that can be looked up.
func (in *Inbox) serveDeletion(w http.ResponseWriter, r *http.Request) {
	signed, ok := in.signedRequest(w, r)
	if !ok {
		return
	}
	code, err := in.store.erase(r.Context(), signed.UserID, millis(in.config.Now()))
	if err != nil {
		in.fail(w, r, err)
		return
	}
	answer, err := meta.DeletionAnswer(in.config.PublicURL+"/meta/deletion?code="+url.QueryEscape(code), code)
	if err != nil {
		in.fail(w, r, err)
		return
	}
	in.log.InfoContext(r.Context(), "deleted a person's data", "user_id", signed.UserID, "confirmation_code", code)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer)
}

// serveDeletionStatus is the page that the person is sent to.
func (in *Inbox) serveDeletionStatus(w http.ResponseWriter, r *http.Request) {
	var at int64
	err := in.store.read.QueryRowContext(r.Context(), `SELECT at FROM deletions WHERE code = $1`, r.URL.Query().Get("code")).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		http.Error(w, "There is no request of this code.", http.StatusNotFound)
		return
	}
	if err != nil {
		in.fail(w, r, err)
		return
	}
	in.render(w, r, "deletion", timeOf(at))
}

// erase deletes all of a person, as a customer of any account and as the one who
// connected some, and returns the request's code, the same one for a repeated request.
//
// What the engine keeps of events goes with its retention (-retention): shorten it
// to what you promise.
func (s *Store) erase(ctx context.Context, userID string, at int64) (code string, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO deletions (user_id, code, at) VALUES ($1, $2, $3) ON CONFLICT (user_id) DO NOTHING`, userID, newID("del"), at)
		if err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT code FROM deletions WHERE user_id = $1`, userID).Scan(&code); err != nil {
			return err
		}
		// Whoever handles an event of this person holds their lead: wait for them.
		if _, err := tx.ExecContext(ctx, `UPDATE leads SET user_id = user_id WHERE user_id = $1`, userID); err != nil {
			return err
		}
		for _, table := range []string{"live_events", "replies", "story_mentions", "unsends", "reads", "reactions", "edits", "messages"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE lead_id IN (SELECT id FROM leads WHERE user_id = $1)`, userID); err != nil {
				return err
			}
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM leads WHERE user_id = $1`, userID); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE accounts SET state = 'paused', reason = 'deleted at Meta', token = '', owner_id = '' WHERE owner_id = $1`, userID)
		return err
	})
	return code, err
}

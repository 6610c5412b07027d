package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"database/sql"
	"encoding/hex"
	"errors"
	"net/http"
	"time"
)

// Session says who asks, and for which tenant: nothing in a request can name another.
type Session struct{ Agent, Tenant string }

const (
	sessionCookie = "dm_inbox_session"
	sessionLife   = 12 * time.Hour
)

// withSession lets agents through, and sends others to the login.
func (in *Inbox) withSession(next func(http.ResponseWriter, *http.Request, Session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s, err := in.session(r)
		switch {
		case errors.Is(err, sql.ErrNoRows) && r.URL.Path == "/":
			http.Redirect(w, r, "/login", http.StatusSeeOther)
		case errors.Is(err, sql.ErrNoRows):
			http.Error(w, "Please sign in.", http.StatusUnauthorized)
		case err != nil:
			in.fail(w, r, err)
		default:
			next(w, r, s)
		}
	}
}

// session returns [sql.ErrNoRows] for a visitor.
func (in *Inbox) session(r *http.Request) (s Session, err error) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return s, sql.ErrNoRows
	}
	err = in.store.read.QueryRowContext(r.Context(), `
		SELECT agents.name, agents.tenant FROM sessions JOIN agents ON agents.name = sessions.agent
		WHERE sessions.token_hash = $1 AND sessions.expires_at > $2`, hashOf(cookie.Value), millis(in.config.Now())).Scan(&s.Agent, &s.Tenant)
	return s, err
}

// hashOf is what is stored of a token: who reads the table cannot become an agent.
func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func (in *Inbox) serveLogin(w http.ResponseWriter, r *http.Request) {
	agents, err := in.store.agents(r.Context())
	if err != nil {
		in.fail(w, r, err)
		return
	}
	in.render(w, r, "login", agents)
}

func (s *Store) agents(ctx context.Context) ([]Session, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT name, tenant FROM agents ORDER BY tenant, name`)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(a *Session) []any { return []any{&a.Agent, &a.Tenant} })
}

// login is the demo's: one password for all. Put your own in its place; what comes
// after it stays the same.
func (in *Inbox) login(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.PostFormValue("password")), []byte(in.config.Password)) != 1 {
		http.Error(w, "That is not the password.", http.StatusForbidden)
		return
	}
	token, now := rand.Text(), in.config.Now()
	err := in.store.inTx(r.Context(), func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(r.Context(), `DELETE FROM sessions WHERE expires_at <= $1`, millis(now)); err != nil {
			return err
		}
		known, err := changed(r.Context(), tx, `
			INSERT INTO sessions (token_hash, agent, expires_at) SELECT $1, name, $3 FROM agents WHERE name = $2`,
			hashOf(token), r.PostFormValue("agent"), millis(now.Add(sessionLife)))
		if err == nil && !known {
			err = sql.ErrNoRows
		}
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		http.Error(w, "There is no such agent.", http.StatusForbidden)
		return
	}
	if err != nil {
		in.fail(w, r, err)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: token, Path: "/", MaxAge: int(sessionLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (in *Inbox) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(sessionCookie); err == nil {
		err := in.store.inTx(r.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(r.Context(), `DELETE FROM sessions WHERE token_hash = $1`, hashOf(cookie.Value))
			return err
		})
		if err != nil {
			in.fail(w, r, err)
			return
		}
	}
	http.SetCookie(w, &http.Cookie{Name: sessionCookie, Path: "/", MaxAge: -1})
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}

package main

import (
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"
)

//go:embed web
var web embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{"time": timeOf, "first": firstOf}).ParseFS(web, "web/*.html"))

// webhookPath is what is entered at Meta. The engine's own path of the source has a
// random id in it, which another database would not have.
const webhookPath = "/webhooks/meta"

// routes are all that this program answers.
func (in *Inbox) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(webhookPath, in.takeMeta)
	mux.HandleFunc("POST /meta/deauthorize", in.serveDeauthorize)
	mux.HandleFunc("POST /meta/data-deletion", in.serveDeletion)
	mux.HandleFunc("GET /meta/deletion", in.serveDeletionStatus)
	if in.config.Graph == "demo" {
		mux.Handle("POST /demo-graph/{account}/messages", demoGraph{
			webhook: "http://" + in.config.Address + webhookPath, appSecret: in.config.AppSecret, http: in.graph.http, log: in.log,
		})
	}
	mux.Handle("/v1/", in.api) // for operators: it asks for the admin key
	mux.Handle("/readyz", in.api)

	mux.HandleFunc("GET /login", in.serveLogin)
	mux.HandleFunc("POST /login", in.login)
	mux.HandleFunc("POST /logout", in.logout)
	mux.Handle("GET /web/", http.FileServerFS(web))
	mux.HandleFunc("GET /{$}", in.withSession(in.serveInbox))
	mux.HandleFunc("GET /conversations", in.withSession(in.serveConversations))
	mux.HandleFunc("GET /conversations/{lead}", in.withSession(in.serveThread))
	mux.HandleFunc("POST /conversations/{lead}/reply", in.withSession(in.reply))
	mux.HandleFunc("POST /conversations/{lead}/read", in.withSession(in.markRead))
	mux.HandleFunc("POST /conversations/{lead}/close", in.withSession(in.closeConversation))
	mux.HandleFunc("GET /accounts", in.withSession(in.serveAccounts))
	mux.HandleFunc("POST /accounts/{account}/reconnect", in.withSession(in.reconnectAccount))
	mux.HandleFunc("GET /live", in.withSession(in.serveLive))
	// A form on another site must not answer in an agent's name. Meta's requests come
	// from no browser, and are signed.
	return http.NewCrossOriginProtection().Handler(mux)
}

// takeMeta hands what Meta sends to the source in the engine.
func (in *Inbox) takeMeta(w http.ResponseWriter, r *http.Request) {
	select {
	case <-in.ready:
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "starting", http.StatusServiceUnavailable) // Meta tries again
		return
	}
	r.URL.Path, r.URL.RawPath = in.source, ""
	in.api.ServeHTTP(w, r)
}

func (in *Inbox) render(w http.ResponseWriter, r *http.Request, name string, data any) {
	var page strings.Builder // whole or not at all
	if err := pages.ExecuteTemplate(&page, name+".html", data); err != nil {
		in.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'self'; img-src https:; frame-ancestors 'none'")
	_, _ = w.Write([]byte(page.String()))
}

// fail answers for an error that is not the visitor's.
func (in *Inbox) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the visitor left
	}
	in.log.ErrorContext(r.Context(), "a request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	http.Error(w, "That did not work. Please try again.", http.StatusInternalServerError)
}

func timeOf(millis int64) time.Time { return time.UnixMilli(millis).UTC() }

// firstOf shortens a text for a list.
func firstOf(n int, text string) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n]) + "…"
}

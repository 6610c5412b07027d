package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// secrets of an endpoint, each with a word of its own. sealed are those that must not
// lie in the database either; the URL is stored as its owner wrote it.
const (
	headerSecret = "SECRET-HEADER-4711"
	customSecret = "SECRET-CUSTOM-4712"
	patchSecret  = "SECRET-PATCH-4713"
	cookieSecret = "SECRET-COOKIE-4714"
	urlSecret    = "SECRET-URL-4715"
	sourceSecret = "SECRET-SOURCE-4716"
)

var (
	sealedSecrets = []string{headerSecret, customSecret, patchSecret, cookieSecret, sourceSecret}
	hiddenSecrets = append([]string{urlSecret}, sealedSecrets...)
)

// echo answers with what it got: body, credentials and all.
type echo struct {
	mu     sync.Mutex
	got    []http.Header
	status int
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got = append(e.got, r.Header.Clone())
	w.Header().Set("Set-Cookie", "sid="+cookieSecret)
	w.Header().Set("X-Echo", r.Header.Get("Authorization"))
	w.Header().Set("Location", r.URL.String())
	w.WriteHeader(e.status)
	fmt.Fprintf(w, "%v\n%s\n", r.Header, r.URL)
}

// No secret of an endpoint or a source is in any table, log line, metric or answer,
// whatever the API is asked and whatever the receiver repeats.
func TestSecretsStaySecret(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "posthaste.db")
		db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		testSecrecy(t, db, func() string {
			var all strings.Builder
			for _, suffix := range []string{"", "-wal"} {
				raw, err := os.ReadFile(path + suffix)
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				all.Write(raw)
			}
			return all.String()
		})
	})
	t.Run("postgres", func(t *testing.T) {
		url := testdb.Postgres(t)
		testSecrecy(t, connect(t, url), func() string { return dump(t, url) })
	})
}

// dump returns all rows of all tables as text. What is stored as bytes is in there as
// its characters.
func dump(t *testing.T, url string) string {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `select c.oid::regclass::text, array_agg(case when a.atttypid = 'bytea'::regtype
		then format('encode(%I, ''escape'')', a.attname) else format('%I::text', a.attname) end)
		from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
		where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace group by c.oid`)
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string][]string{}
	for rows.Next() {
		var table string
		var columns []string
		if err := rows.Scan(&table, &columns); err != nil {
			t.Fatal(err)
		}
		tables[table] = columns
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for table, columns := range tables {
		var text *string
		err := conn.QueryRow(ctx, `select string_agg(concat_ws('|', `+strings.Join(columns, ", ")+`), e'\n') from `+table).Scan(&text)
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		if text != nil {
			all.WriteString(*text)
		}
	}
	return all.String()
}

// asker asks an engine, and keeps all that it answers.
type asker struct {
	*program
	answers bytes.Buffer
}

func (a *asker) ask(route, body string, want int) map[string]any {
	a.t.Helper()
	code, raw := request(a.t, a.Engine, adminKey, route, body)
	a.answers.WriteString(raw)
	if code != want {
		a.t.Fatalf("%s: %d, want %d: %s", route, code, want, raw)
	}
	var out map[string]any
	_ = json.Unmarshal([]byte(raw), &out)
	return out
}

func testSecrecy(t *testing.T, db store.Store, stored func() string) {
	a := &asker{program: newProgramOf(t, db, func(c *engine.Config) {
		c.AllowNetworks, c.AllowHTTP = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, engine.HTTPNetworks
	})}
	stop := run(t, a.Engine)
	a.useEndpoint()
	a.useSource()
	for _, route := range []string{"GET /v1/endpoints", "GET /v1/deliveries", "GET /v1/events", "GET /v1/sources", "GET /metrics", "GET /readyz"} {
		a.ask(route, "", http.StatusOK)
	}
	a.ask("POST /v1/endpoints", `{"url":"https://user:`+headerSecret+`@example.com/"}`, http.StatusUnprocessableEntity)
	a.ask("GET /v1/events?token="+headerSecret, "", http.StatusUnprocessableEntity)
	a.ask("DELETE /v1/endpoints/uid:mine", "", http.StatusNoContent)
	stop()

	for _, secret := range hiddenSecrets {
		if at := strings.Index(a.answers.String(), secret); at >= 0 {
			t.Errorf("an answer holds %s: …%s", secret, a.answers.String()[max(0, at-200):at])
		}
		if a.log.has(secret) {
			t.Errorf("the log holds %s", secret)
		}
	}
	tables := stored()
	if !strings.Contains(tables, "Push Hook") {
		t.Error("the dump of the tables is not one")
	}
	for _, secret := range sealedSecrets {
		if at := strings.Index(tables, secret); at >= 0 {
			t.Errorf("a table holds %s: …%q", secret, tables[max(0, at-200):at])
		}
	}
}

// useEndpoint makes an endpoint with secret headers, has it fail and deliver, and changes it.
func (a *asker) useEndpoint() {
	receiver := &echo{status: http.StatusBadRequest}
	server := httptest.NewServer(receiver)
	defer server.Close()
	a.ask("POST /v1/endpoints", `{"url":"https://example.com","headers":{"Authorization":"Bearer `+headerSecret+`"}}`, http.StatusUnprocessableEntity)
	definition := fmt.Sprintf(`{"url":%q,"event_types":["a"],"retry":{"schedule":["10ms"]},"secret_headers":{"Authorization":%q,"X-Custom":%q}}`,
		server.URL+"/hook?token="+urlSecret, "Bearer "+headerSecret, customSecret)
	made := a.ask("PUT /v1/endpoints/uid:mine", definition, http.StatusCreated)
	again := a.ask("PUT /v1/endpoints/uid:mine", definition, http.StatusOK)
	if made["version"] != again["version"] {
		a.t.Errorf("the same request again made version %v of %v", again["version"], made["version"])
	}
	shown, _ := again["secret_headers"].(map[string]any)
	custom, _ := shown["X-Custom"].(map[string]any)
	if mark, _ := custom["fingerprint"].(string); len(shown) != 2 || custom["set"] != true || len(mark) != 8 {
		a.t.Errorf("secret headers are shown as %v", shown)
	}
	a.deadDelivery()

	// A patch keeps what it does not name, replaces what it names, and removes with null.
	patched := a.ask("PATCH /v1/endpoints/uid:mine", fmt.Sprintf(`{"secret_headers":{"X-Custom":%q},"description":"new"}`, patchSecret), http.StatusOK)
	now, _ := patched["secret_headers"].(map[string]any)
	if fmt.Sprint(now["Authorization"]) != fmt.Sprint(shown["Authorization"]) || fmt.Sprint(now["X-Custom"]) == fmt.Sprint(shown["X-Custom"]) {
		a.t.Errorf("after a patch: %v, before: %v", now, shown)
	}
	receiver.mu.Lock()
	receiver.status = http.StatusOK
	receiver.mu.Unlock()
	a.ask("POST /v1/endpoints/uid:mine/test", "", http.StatusAccepted)
	eventually(a.t, "the second event arrives", func() bool {
		receiver.mu.Lock()
		defer receiver.mu.Unlock()
		return len(receiver.got) == 2
	})
	receiver.mu.Lock()
	if a1, b := receiver.got[0], receiver.got[1]; a1.Get("Authorization") != "Bearer "+headerSecret || a1.Get("X-Custom") != customSecret ||
		b.Get("Authorization") != "Bearer "+headerSecret || b.Get("X-Custom") != patchSecret {
		a.t.Errorf("the receiver got %v, then %v", a1, b)
	}
	receiver.mu.Unlock()
	without := a.ask("PATCH /v1/endpoints/uid:mine", `{"secret_headers":{"X-Custom":null}}`, http.StatusOK)
	if left, _ := without["secret_headers"].(map[string]any); len(left) != 1 {
		a.t.Errorf("after one was removed: %v", left)
	}
	a.ask("PATCH /v1/endpoints/uid:mine", "{\"secret_headers\":{\"X-Custom\":\"\\u0001a.b.YQ\"}}", http.StatusUnprocessableEntity)
	a.ask("PATCH /v1/endpoints/uid:mine", `{"url":"https://example.com/?token=***"}`, http.StatusUnprocessableEntity)
}

// deadDelivery sends an event and looks at its attempt once it is dead.
func (a *asker) deadDelivery() {
	event := a.ask("POST /v1/events?type=a", `{}`, http.StatusAccepted)
	var delivery any
	eventually(a.t, "the delivery is dead", func() bool {
		list, _ := a.ask(fmt.Sprintf("GET /v1/deliveries?event_id=%v", event["id"]), "", http.StatusOK)["data"].([]any)
		first, _ := list[0].(map[string]any)
		delivery = first["id"]
		return first["status"] == "dead"
	})
	detail := fmt.Sprint(a.ask(fmt.Sprintf("GET /v1/deliveries/%v", delivery), "", http.StatusOK))
	if !strings.Contains(detail, "/hook?token=***") || !strings.Contains(detail, "name:X-Echo value:***") {
		a.t.Errorf("the attempt is shown as %s", detail)
	}
}

// useSource makes a source, and sends it a delivery that it takes and one that it rejects.
func (a *asker) useSource() {
	source := a.ask("POST /v1/sources", fmt.Sprintf(`{"name":"lab","provider":"gitlab","secrets":[%q]}`, sourceSecret), http.StatusCreated)
	for _, secret := range []string{sourceSecret, "wrong"} {
		r := httptest.NewRequest(http.MethodPost, fmt.Sprint(source["url"]), strings.NewReader(`{"a":1}`))
		r.Header.Set("X-Gitlab-Token", secret)
		r.Header.Set("X-Gitlab-Event", "Push Hook")
		r.Header.Set("Authorization", "Basic "+headerSecret)
		r.Header.Set("X-Shared-Key", customSecret)
		r.Header.Set("X-Foo", "is "+sourceSecret)
		w := httptest.NewRecorder()
		a.HTTPHandler().ServeHTTP(w, r)
		_, _ = io.Copy(&a.answers, w.Body)
	}
	a.ask(fmt.Sprintf("GET /v1/sources/%v", source["id"]), "", http.StatusOK)
	a.ask(fmt.Sprintf("GET /v1/sources/%v/rejections", source["id"]), "", http.StatusOK)
}

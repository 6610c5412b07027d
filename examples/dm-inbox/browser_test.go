package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/client"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/inbound/meta"
	"github.com/posthaste-dev/posthaste/inbound/meta/metatest"
)

// sendItem sends the event of one item past the source, and so past the engine's keys.
func (r *rig) sendItem(eventType string, item metatest.Item) {
	webhook, err := meta.Parse(metatest.Encode("instagram", metatest.Messaging(item.Recipient.ID, noon, item)))
	if err == nil {
		_, err = r.engine.Send(r.t.Context(), posthaste.TenantDefault, engine.Event{Type: eventType, Payload: webhook.Items[0].Payload})
	}
	if err != nil {
		r.t.Error(err)
	}
}

func (r *rig) leadID(customer string) string {
	r.t.Helper()
	ids := r.table(`SELECT id FROM leads WHERE user_id = $1`, customer)
	if len(ids) != 1 {
		r.t.Fatalf("leads of %s: %q", customer, ids)
	}
	return ids[0]
}

func (r *rig) clientOf(tenant string) *client.Client {
	r.t.Helper()
	c, err := client.New(client.Config{Server: r.url, Key: r.config.AdminKey, Tenant: tenant})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// resendAll has every event that the inbox handles handled once more, by a delivery of its own.
func (r *rig) resendAll() (resent int) {
	r.t.Helper()
	for _, tenant := range []string{"default", "acme"} {
		api := r.clientOf(tenant)
		for event, err := range api.Events.All(r.t.Context(), client.EventFilter{}) {
			if err != nil {
				r.t.Fatal(err)
			}
			endpoint := "uid:func:inbox"
			switch event.Type {
			case typeMessageCreated:
				endpoint = "uid:func:intent"
			case meta.TypeWebhook, typeLeadCreated, typeLeadUpdated, typeMessageEdited, typeReactionChanged, typeMessageRead:
				continue
			}
			if _, err := api.Events.Resend(r.t.Context(), event.ID, r.endpointID(endpoint)); err != nil {
				r.t.Fatal(err)
			}
			resent++
		}
	}
	return resent
}

// endpointID finds a handler's endpoint.
func (r *rig) endpointID(id string) string {
	r.t.Helper()
	for endpoint, err := range r.clientOf("*").Endpoints.All(r.t.Context(), client.EndpointFilter{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		if "uid:"+endpoint.UID == id {
			return endpoint.ID
		}
	}
	r.t.Fatalf("no endpoint %s", id)
	return ""
}

// browser is one with a session.
type browser struct {
	*rig
	http *http.Client
}

func (r *rig) browser(agent string) *browser {
	r.t.Helper()
	jar, _ := cookiejar.New(nil)
	b := &browser{r, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if agent != "" {
		b.post("/login", url.Values{"agent": {agent}, "password": {"demo"}}, 303)
	}
	return b
}

func (b *browser) do(method, path string, form url.Values, want int) string {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := b.http.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != want {
		b.t.Errorf("%s %s is answered %d %s, want %d", method, path, response.StatusCode, body, want)
	}
	return string(body)
}

func (b *browser) get(path string, want int) string {
	b.t.Helper()
	return b.do("GET", path, nil, want)
}

func (b *browser) post(path string, form url.Values, want int) string {
	b.t.Helper()
	return b.do("POST", path, form, want)
}

// live follows /live until ctx ends.
func (b *browser) live(ctx context.Context, lastID string) <-chan [2]string {
	b.t.Helper()
	request, err := http.NewRequestWithContext(ctx, "GET", b.url+"/live", nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	response, err := b.http.Do(request)
	if err != nil || response.StatusCode != 200 {
		b.t.Fatalf("%v, %v", response, err)
	}
	events := make(chan [2]string, 100) // id and type
	go func() {
		defer response.Body.Close()
		defer close(events)
		id := ""
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				id = value
			case "data":
				var data struct{ Type, Tenant string }
				_ = json.Unmarshal([]byte(value), &data)
				events <- [2]string{id, data.Tenant + " " + data.Type}
			}
		}
	}()
	return events
}

// TestLive: browsers of a tenant are told, others are not, and one that was away misses nothing.
func TestLive(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		anna, amir, gina := r.browser("anna").live(ctx, ""), r.browser("amir").live(ctx, ""), r.browser("gina").live(t.Context(), "")
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		r.items("instagram", acmeInstagram, chat.Text(at(0), "a", "hi"))
		var last string
		for _, stream := range []<-chan [2]string{anna, amir} {
			seen := map[string]int{}
			for range 4 {
				event := <-stream
				seen[event[1]]++
				last = event[0]
			}
			if seen["acme lead.created"] != 1 || seen["acme message.created"] != 1 || seen["acme lead.updated"] != 2 {
				t.Errorf("seen: %v", seen)
			}
		}
		cancel()
		r.items("instagram", acmeInstagram, chat.Text(at(1), "b", "again"), chat.React(at(2), "b", "love", "❤"))
		back := r.browser("anna").live(t.Context(), last)
		seen := map[string]int{}
		for range 3 {
			seen[(<-back)[1]]++
		}
		if seen["acme message.created"] != 1 || seen["acme lead.updated"] != 1 || seen["acme reaction.changed"] != 1 {
			t.Errorf("after coming back: %v", seen)
		}
		// The next that gina sees is her own: nothing of acme came before it.
		globex := metatest.Chat{Account: globexInstagram, Customer: "9001"}
		r.items("instagram", globexInstagram, globex.Text(at(0), "a", "hi"))
		if event := <-gina; !strings.HasPrefix(event[1], "globex ") {
			t.Errorf("gina is told %v", event)
		}
	})
}

func TestTenantsAreApart(t *testing.T) {
	r := newRig(t, "", func(*Config) {})
	r.items("instagram", acmeInstagram, metatest.Chat{Account: acmeInstagram, Customer: "9001"}.Text(at(0), "a", "a <b>secret</b> of acme"))
	lead := "/conversations/" + r.leadID("9001")
	anna, gina, visitor := r.browser("anna"), r.browser("gina"), r.browser("")
	if page := anna.get(lead, 200); !strings.Contains(page, "a &lt;b&gt;secret&lt;/b&gt; of acme") {
		t.Errorf("anna sees %s", page)
	}
	for _, path := range []string{"/", "/conversations", lead} {
		want := 200
		if path == lead {
			want = 404
		}
		if page := gina.get(path, want); strings.Contains(page, "secret") || strings.Contains(page, "9001") {
			t.Errorf("gina sees %s", page)
		}
	}
	for _, action := range []string{"/reply", "/read", "/close"} {
		gina.post(lead+action, url.Values{"text": {"x"}, "reply_id": {"reply_x"}}, 404)
		visitor.post(lead+action, nil, 401)
	}
	gina.post("/accounts/"+acmeInstagram+"/reconnect", url.Values{"token": {"stolen"}}, 303)
	r.expect(`SELECT DISTINCT token FROM accounts`, "demo-token")
	visitor.get("/live", 401)
	visitor.get("/", 303)
	visitor.get("/v1/events", 401)
	visitor.post("/login", url.Values{"agent": {"anna"}, "password": {"guess"}}, 403)
	visitor.post("/login", url.Values{"agent": {"nobody"}, "password": {"demo"}}, 403)
	anna.post("/logout", nil, 303)
	anna.get("/live", 401)
}

func TestCallbacks(t *testing.T) {
	onBoth(t, func(t *testing.T, r *rig) {
		meta := r.browser("")
		if got := meta.get(webhookPath+"?hub.mode=subscribe&hub.verify_token=mine&hub.challenge=42", 200); got != "42" {
			t.Errorf("the handshake is answered %q", got)
		}
		chat := metatest.Chat{Account: acmeInstagram, Customer: "9001"}
		other := metatest.Chat{Account: acmeInstagram, Customer: "9002"}
		r.items("instagram", acmeInstagram, chat.Text(at(0), "a", "hi"), chat.React(at(1), "a", "love", "❤"), other.Text(at(0), "b", "hi"))
		signed := url.Values{"signed_request": {metatest.SignedRequest(r.config.AppSecret, "9001", time.Now())}}
		var answer struct {
			URL  string `json:"url"`
			Code string `json:"confirmation_code"`
		}
		first := meta.post("/meta/data-deletion", signed, 200)
		if err := json.Unmarshal([]byte(first), &answer); err != nil || answer.Code == "" {
			t.Fatalf("answered %s, %v", first, err)
		}
		if again := meta.post("/meta/data-deletion", signed, 200); again != first {
			t.Errorf("then %s", again)
		}
		meta.get(strings.TrimPrefix(answer.URL, r.url), 200)
		meta.get("/meta/deletion?code=guess", 404)
		r.expect(`SELECT user_id FROM leads`, "9002")
		r.expect(`SELECT mid FROM messages`, "b")
		r.expect(`SELECT mid FROM reactions`)

		meta.post("/meta/deauthorize", url.Values{"signed_request": {metatest.SignedRequest(r.config.AppSecret, "500001", time.Now())}}, 200)
		r.expect(`SELECT id, state, token FROM accounts WHERE tenant = 'acme'`, "1000001|paused|", "17841400000000001|paused|")
		r.expect(`SELECT DISTINCT state FROM accounts WHERE tenant = 'globex'`, "active")
		for _, path := range []string{"/meta/data-deletion", "/meta/deauthorize"} {
			meta.post(path, url.Values{"signed_request": {metatest.SignedRequest("another secret", "9002", time.Now())}}, 403)
			meta.post(path, nil, 403)
		}
		r.expect(`SELECT user_id FROM leads`, "9002")
	})
}

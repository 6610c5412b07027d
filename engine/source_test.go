package engine_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/client"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/keyring"
)

// TestMetaIsTakenApart sends what Meta sends: items in one request, and later some
// of them again in another one.
func TestMetaIsTakenApart(t *testing.T) {
	const key, secret = "an-admin-key-of-a-test", "0123456789abcdef0123456789abcdef"
	c := config(open(t), keyring.Generate())
	c.AdminKey = key
	e, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	start(t, e)
	web := httptest.NewServer(e.HTTPHandler())
	defer web.Close()
	api, err := client.New(client.Config{Server: web.URL, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	source, err := api.Sources.Create(t.Context(), client.NewSource{
		Provider: "meta", Secrets: []string{secret}, Settings: map[string]string{"verify_token": "mine"},
	})
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan string, 10)
	_, err = api.Endpoints.Create(t.Context(), client.NewEndpoint{URL: receive(t, arrived), EventTypes: []string{"meta.message"}, Sources: []string{source.ID}})
	if err != nil {
		t.Fatal(err)
	}

	res, err := http.Get(web.URL + source.URL + "?hub.mode=subscribe&hub.verify_token=mine&hub.challenge=42")
	if err != nil {
		t.Fatal(err)
	}
	challenge, _ := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if res.StatusCode != 200 || string(challenge) != "42" {
		t.Errorf("the handshake is answered %d %q", res.StatusCode, challenge)
	}

	sendMeta(t, web.URL+source.URL, secret, "a", "b")
	sendMeta(t, web.URL+source.URL, secret, "b", "c") // packed anew
	for range 3 {
		if got := <-arrived; got != "meta.message" {
			t.Errorf("%s arrived", got)
		}
	}
	page, err := api.Events.List(t.Context(), client.EventFilter{Source: source.ID})
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, event := range page.Data {
		types = append(types, event.Type)
		if event.Type == "meta.message" && (event.Parent == "" || event.CorrelationID != event.Parent) {
			raw, _ := json.Marshal(event)
			t.Errorf("an item: %s", raw)
		}
	}
	slices.Sort(types)
	if strings.Join(types, " ") != "meta.message meta.message meta.message meta.webhook meta.webhook" {
		t.Errorf("events: %v", types)
	}
}

// sendMeta sends messages of the given ids in one request, signed.
func sendMeta(t *testing.T, url, secret string, mids ...string) {
	t.Helper()
	var messages []string
	for _, mid := range mids {
		messages = append(messages, `{"sender":{"id":"9001"},"recipient":{"id":"178"},"timestamp":1700000000045,"message":{"mid":"`+mid+`","text":"hi \u00fc"}}`)
	}
	body := `{"object":"instagram","entry":[{"id":"178","time":1700000000123,"messaging":[` + strings.Join(messages, ",") + `]}]}`
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("answered %d", res.StatusCode)
	}
}

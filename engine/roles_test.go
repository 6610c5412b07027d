package engine_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/keyring"
)

// TestReplicaThatDoesNotAccept refuses events, by HTTP and by Send, and does all
// the rest.
func TestReplicaThatDoesNotAccept(t *testing.T) {
	c := config(open(t), keyring.Generate())
	c.Roles = engine.Roles{Deliver: true}
	e, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	start(t, e)
	code, body := request(t, e, e.MadeAdminKey(), "POST /v1/events?type=a", "{}")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, `"code":"unavailable"`) || !strings.Contains(body, "this replica does not accept") ||
		!strings.Contains(body, "a replica with the role accept") {
		t.Errorf("POST /v1/events: %d %s", code, body)
	}
	if _, err := e.Send(t.Context(), posthaste.TenantDefault, engine.Event{Type: "a"}); posthaste.CodeOf(err) != posthaste.CodeUnavailable {
		t.Errorf("Send: %v", err)
	}
	for _, route := range []string{"GET /readyz", "GET /v1/events", "GET /v1/deliveries", "GET /v1/endpoints"} {
		if code, body := request(t, e, e.MadeAdminKey(), route, ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", route, code, body)
		}
	}
	if code, body := request(t, e, e.MadeAdminKey(), "POST /v1/endpoints", `{"url":"https://example.com/"}`); code != http.StatusCreated {
		t.Errorf("POST /v1/endpoints: %d %s", code, body)
	}
}

// TestReplicaThatDoesNotDeliver leaves what it accepts to the next one that does.
func TestReplicaThatDoesNotDeliver(t *testing.T) {
	arrived := make(chan string, 1)
	receiver := receive(t, arrived)
	db, master := open(t), keyring.Generate()
	c := config(db, master)
	c.AdminKey, c.Roles = "the-key-of-the-test", engine.Roles{Accept: true}
	first, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, first)
	if code, body := request(t, first, c.AdminKey, "POST /v1/endpoints", `{"url":"`+receiver+`"}`); code != http.StatusCreated {
		t.Fatalf("make an endpoint: %d %s", code, body)
	}
	if got, err := first.Send(t.Context(), posthaste.TenantDefault, engine.Event{Type: "a"}); err != nil || got.Deliveries != 1 {
		t.Fatalf("Send: %+v, %v", got, err)
	}
	if _, body := request(t, first, c.AdminKey, "GET /v1/deliveries", ""); !strings.Contains(body, `"status":"pending"`) {
		t.Errorf("after it was accepted: %s", body)
	}
	stop()
	select {
	case got := <-arrived:
		t.Errorf("it delivered: %s", got)
	default:
	}

	c.Roles = engine.Roles{Deliver: true}
	second, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	start(t, second)
	if got := <-arrived; got != "a" {
		t.Errorf("arrived: %s", got)
	}
}

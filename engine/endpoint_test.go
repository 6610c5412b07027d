package engine_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/keyring"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/posthastetest"
	"github.com/posthaste-dev/posthaste/signature"
	"github.com/posthaste-dev/posthaste/sqlite"
)

// kept returns the endpoint of the configuration as it is stored.
func kept(t *testing.T, db *sqlite.DB) store.EndpointRow {
	t.Helper()
	tenant, err := db.Tenant(t.Context(), posthaste.TenantDefault)
	if err != nil {
		t.Fatal(err)
	}
	row, err := db.EndpointByUID(t.Context(), tenant.No, engine.EndpointUID)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// restart makes an engine as the next start of the process would, and returns
// what it logged.
func restart(t *testing.T, c engine.Config, endpoint engine.Endpoint) (*engine.Engine, string) {
	t.Helper()
	var log bytes.Buffer
	c.Endpoint, c.Log, c.AdminKey = endpoint, slog.New(slog.NewTextHandler(&log, nil)), "the-key-of-the-test"
	e, err := engine.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return e, log.String()
}

// TestEndpointOfTheConfiguration follows the setting over starts.
func TestEndpointOfTheConfiguration(t *testing.T) {
	db := open(t)
	c := config(db, keyring.Generate())
	first := posthastetest.NewReceiver(t, posthastetest.Config{})
	setting := engine.Endpoint{URL: first.URL, Secret: first.Secret}

	e, log := restart(t, c, setting)
	row := kept(t, db)
	if !strings.Contains(log, "made the endpoint of the configuration") || row.URL != first.URL || row.Version != 1 || len(row.Secrets) != 1 {
		t.Fatalf("made %+v\n%s", row, log)
	}
	stop := run(t, e)
	if _, err := e.Send(t.Context(), posthaste.TenantDefault, engine.Event{Type: "a", Payload: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	stop()

	// The same again changes nothing, and what was changed through the API stays.
	e, log = restart(t, c, setting)
	if row = kept(t, db); log != "" || row.Version != 1 {
		t.Errorf("the same: version %d\n%s", row.Version, log)
	}
	stop = run(t, e)
	if code, body := request(t, e, "the-key-of-the-test", "PATCH /v1/endpoints/uid:env", `{"description":"by hand"}`); code != http.StatusOK {
		t.Fatalf("PATCH: %d %s", code, body)
	}
	stop()

	// Another URL with another secret: the old one signs no more.
	second := posthastetest.NewReceiver(t, posthastetest.Config{})
	e, log = restart(t, c, engine.Endpoint{URL: second.URL, Secret: second.Secret})
	after := kept(t, db)
	if after.ID != row.ID || after.URL != second.URL || after.Description != "by hand" ||
		!strings.Contains(log, "has another URL now") || !strings.Contains(log, "has another secret now") {
		t.Errorf("changed: %+v\n%s", after, log)
	}
	stop = run(t, e)
	if _, err := e.Send(t.Context(), posthaste.TenantDefault, engine.Event{Type: "b", Payload: []byte("2")}); err != nil {
		t.Fatal(err)
	}
	arrived, err := second.Wait(t.Context(), 1)
	if err != nil || strings.Contains(arrived[0].Header.Get(signature.HeaderSignature), " ") {
		t.Errorf("signed %q, %v; want one signature", arrived[0].Header.Get(signature.HeaderSignature), err)
	}
	stop()

	// Without the setting it stays, and is told of.
	if _, log = restart(t, c, engine.Endpoint{}); !strings.Contains(log, "names no endpoint any more") || kept(t, db).Version != after.Version {
		t.Errorf("without: %s", log)
	}
	// Without a secret it keeps the one it has.
	if _, log = restart(t, c, engine.Endpoint{URL: second.URL}); log != "" || kept(t, db).Version != after.Version {
		t.Errorf("without a secret: %s", log)
	}
	// A deleted one is made anew.
	if err := db.DeleteEndpoint(t.Context(), store.DeleteEndpointParams{Tenant: after.Tenant, ID: after.ID, Now: after.UpdatedAt}); err != nil {
		t.Fatal(err)
	}
	if _, log = restart(t, c, setting); !strings.Contains(log, "made the endpoint") || kept(t, db).ID == after.ID {
		t.Errorf("after it was deleted: %s", log)
	}
}

// TestEndpointOfManyReplicas: those that start together make one endpoint and
// agree on its secret.
func TestEndpointOfManyReplicas(t *testing.T) {
	db := open(t)
	c := config(db, keyring.Generate())
	c.AdminKey = "the-key-of-the-test"
	for _, secret := range []string{signature.NewSecret(), signature.NewSecret()} { // made, then changed
		c.Endpoint = engine.Endpoint{URL: "https://example.com/", Secret: secret}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := engine.New(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	row := kept(t, db)
	living := 0
	for _, s := range row.Secrets {
		if s.ExpiresAt.IsZero() {
			living++
		}
	}
	if row.Version != 2 || living != 1 {
		t.Errorf("version %d, %d secrets in force; want one endpoint, changed once", row.Version, living)
	}
}

func TestEndpointIsChecked(t *testing.T) {
	c := config(open(t), keyring.Generate())
	for want, endpoint := range map[string]engine.Endpoint{
		"url is http":                 {URL: "http://example.com/"},
		"does not begin with":         {URL: "https://example.com/", Secret: "secret-of-another-kind"},
		"address that is not public":  {URL: "https://10.0.0.1/"},
		"keep the endpoint of the co": {URL: "nonsense"},
	} {
		c.Endpoint, c.AllowHTTP = endpoint, engine.HTTPNowhere
		if _, err := engine.New(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", endpoint.URL, err, want)
		}
	}
}

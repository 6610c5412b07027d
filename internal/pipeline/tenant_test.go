package pipeline

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// TestDeletedTenantIsLearnedOf deletes a tenant as another replica would, behind
// the back of an engine that has it in memory.
func TestDeletedTenantIsLearnedOf(t *testing.T) {
	e := startEngine(t, nil)
	var owners []store.TenantRow
	for _, name := range []string{"used", "named", "sleeper"} {
		if _, err := e.CreateTenant(t.Context(), posthaste.Tenant{Name: name}); err != nil {
			t.Fatal(err)
		}
		row, err := e.Tenant(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		owners = append(owners, row)
	}
	send := func(tenant store.TenantRow) error {
		_, err := e.Accept(t.Context(), Submission{Tenant: tenant, Event: posthaste.Event{Type: "a", Source: "api"}})
		return err
	}
	if err := send(owners[0]); err != nil {
		t.Fatal(err)
	}
	for _, row := range owners[:2] {
		if err := e.store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: row.No, Now: e.clock.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	busy := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() { // the engine beats while it works
		for {
			select {
			case <-busy:
				return
			case <-t.Context().Done():
				return
			default:
				_ = send(e.tenant)
				e.pause(t.Context(), 20*time.Millisecond)
			}
		}
	})
	for _, name := range []string{"used", "named"} {
		e.eventually(2*time.Second, name+" is known to be deleted", func() bool {
			row, err := e.Tenant(t.Context(), name)
			return err == nil && !row.DeletedAt.IsZero()
		})
	}
	close(busy)
	sender.Wait()
	// Whatever is in memory, the accepting statement notices.
	if err := e.store.DeleteTenant(t.Context(), store.DeleteTenantParams{No: owners[2].No, Now: e.clock.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, row := range owners {
		if err := send(row); posthaste.CodeOf(err) != posthaste.CodeNotFound {
			t.Errorf("an event for %s: %v", row.Name, err)
		}
		if _, err := e.CreateEndpoint(t.Context(), row, posthaste.Endpoint{Definition: posthaste.DefaultDefinition()}, testSecret); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an endpoint for %s: %v", row.Name, err)
		}
	}
	if name, err := e.TenantName(t.Context(), owners[2].No); err != nil || name != "sleeper" {
		t.Errorf("%q, %v", name, err)
	}
	e.verified()
}

func TestDeletingATenantEndsItsWork(t *testing.T) {
	e := startEngine(t, nil)
	r := newReceiver(t)
	made, err := e.CreateTenant(t.Context(), posthaste.Tenant{Name: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	e.tenant = made
	row := e.endpoint(r.URL, nil)
	if _, err := e.ChangeEndpoint(t.Context(), made, row.ID, func(ep *store.EndpointRow) error { ep.Paused = true; return nil }); err != nil {
		t.Fatal(err)
	}
	event := e.send("a", "x")
	if err := e.DeleteTenant(t.Context(), made, 1); err != nil {
		t.Fatal(err)
	}
	if d, attempts := e.ended(event.ID, 1); d.Reason != posthaste.ReasonEndpointDeleted || len(attempts) != 0 || len(r.seen()) != 0 {
		t.Errorf("%+v, %d attempts", d, len(attempts))
	}
	for _, name := range []string{posthaste.TenantDefault, posthaste.TenantOperator} {
		kept, err := e.Tenant(t.Context(), name)
		if err == nil {
			err = e.DeleteTenant(t.Context(), kept, 0)
		}
		if posthaste.CodeOf(err) != posthaste.CodeConflict {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
	e.verified()
}

func TestAChangeOfNothingMakesNoVersion(t *testing.T) {
	e := startEngine(t, nil)
	row := e.endpoint("https://receiver.example/", nil)
	same, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, func(ep *store.EndpointRow) error {
		ep.Metadata = map[string]string{}
		return nil
	})
	if err != nil || same.Version != 1 {
		t.Errorf("%+v, %v", same, err)
	}
	for i, change := range []func(ep *store.EndpointRow) error{
		func(ep *store.EndpointRow) error { ep.Metadata = map[string]string{"a": ""}; return nil },
		func(ep *store.EndpointRow) error { ep.UID = "u"; return nil },
		func(ep *store.EndpointRow) error { ep.Headers = map[string]string{"X-A": "1"}; return nil },
		func(ep *store.EndpointRow) error { ep.Paused = true; return nil },
		func(ep *store.EndpointRow) error { ep.Disabled = true; return nil },
		func(ep *store.EndpointRow) error { ep.DisabledReason = "r"; return nil },
	} {
		if got, err := e.ChangeEndpoint(t.Context(), e.tenant, row.ID, change); err != nil || got.Version != i+2 {
			t.Errorf("change %d: version %d, %v", i, got.Version, err)
		}
	}
}

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/engine"
	"github.com/posthaste-dev/posthaste/internal/store"
)

// TestHandlerSends: what a handler sends belongs to the chain of what it works on,
// and is there once, however often the handler runs.
func TestHandlerSends(t *testing.T) {
	onBoth(t, func(t *testing.T, db store.Store) {
		chain := make(chan engine.Delivery, 10)
		p := newProgram(t, db, "test",
			engine.Handler{EventTypes: []string{"parent"}, Schedule: quick(2), Func: func(ctx context.Context, d engine.Delivery) error {
				for i := range 2 { // the second one differs by its place alone
					got, err := d.Send(ctx, engine.Event{Type: "child", Payload: []byte("same")})
					if err != nil || got.Duplicate != (d.Attempt > 1) || got.Deliveries != 1 {
						t.Errorf("attempt %d, child %d: %+v, %v", d.Attempt, i, got, err)
					}
				}
				got, err := d.Send(ctx, engine.Event{Type: "keyed", IdempotencyKey: "mine", Payload: d.Payload})
				if err != nil || got.Duplicate != (d.Attempt > 1) {
					t.Errorf("attempt %d, keyed: %+v, %v", d.Attempt, got, err)
				}
				if d.Attempt < 3 {
					return errors.New("again")
				}
				return nil
			}},
			engine.Handler{EventTypes: []string{"child"}, Func: func(ctx context.Context, d engine.Delivery) error {
				_, err := d.Send(ctx, engine.Event{Type: "grandchild"})
				return err
			}},
			engine.Handler{EventTypes: []string{"grandchild"}, Func: func(_ context.Context, d engine.Delivery) error { chain <- d; return nil }})
		stop := run(t, p.Engine)
		// A client's key of the same words is another key.
		p.send("default", engine.Event{Type: "keyed", IdempotencyKey: "mine"})
		parent := p.send("default", engine.Event{Type: "parent", Payload: []byte("x")})
		for range 2 {
			d := <-chain
			child, err := db.Event(t.Context(), 1, d.Parent)
			if err != nil || d.CorrelationID != parent.ID || child.Parent != parent.ID || child.Type != "child" || d.Source != "func:child" {
				t.Errorf("the chain is %+v of %+v, %v", d, child, err)
			}
		}
		if d, attempts := p.ended(parent.ID); d.State != posthaste.StateDelivered || len(attempts) != 3 {
			t.Fatalf("the parent: %+v, %+v", d, attempts)
		}
		if n := children(t, p, parent.ID); n != 3 {
			t.Errorf("%d children, want 3", n)
		}
		// A replay is the same delivery and sends nothing anew; a resend is another one.
		id := keptForAll(t, db, "func:parent").ID.Print(posthaste.KindEndpoint)
		p.api("POST /v1/events/"+parent.ID.Print(posthaste.KindEvent)+"/resend", `{"endpoint_id":"`+id+`"}`, http.StatusCreated)
		eventually(t, "the resend sent its own", func() bool { return children(t, p, parent.ID) == 6 })
		stop()
		verified(t, db)
	})
}

func children(t *testing.T, p *program, parent posthaste.ID) int {
	t.Helper()
	list := p.api("GET /v1/events?parent="+parent.Print(posthaste.KindEvent), "", 200)
	return len(list["data"].([]any))
}

// TestHandlerSendsTheUnexpected: what is wrong with a child is an error of Send, and
// one that differs from what an earlier attempt sent is not dropped without a word.
func TestHandlerSendsTheUnexpected(t *testing.T) {
	db := open(t)
	results := make(chan error, 10)
	p := newProgram(t, db, "test", engine.Handler{EventTypes: []string{"parent"}, Schedule: quick(1), Func: func(ctx context.Context, d engine.Delivery) error {
		for _, child := range []engine.Event{
			{Type: "no type"}, {Type: "child", IdempotencyKey: strings.Repeat("k", 225)},
			{Type: "child", IdempotencyKey: strings.Repeat("k", 224)},
			{Type: "child", IdempotencyKey: "varies", Payload: fmt.Append(nil, d.Attempt)},
			{Type: "child", Endpoints: []posthaste.ID{{1}}},
		} {
			_, err := d.Send(ctx, child)
			results <- err
		}
		return errors.New("again")
	}})
	start(t, p.Engine)
	p.ended(p.send("default", engine.Event{Type: "parent"}).ID)
	bad := posthaste.CodeInvalid
	for i, want := range []posthaste.Code{bad, bad, "", "", bad, bad, bad, "", posthaste.CodeIdempotencyMismatch, bad} {
		if err := <-results; posthaste.CodeOf(err) != want || want == posthaste.CodeIdempotencyMismatch && !strings.Contains(err.Error(), `"varies"`) {
			t.Errorf("result %d: %v, want %q", i, err, want)
		}
	}
}

// TestHandlerSendsWithoutTheRoleAccept: a replica that takes no events from outside
// still takes those that its own handlers cause.
func TestHandlerSendsWithoutTheRoleAccept(t *testing.T) {
	db := open(t)
	relay := engine.Handler{EventTypes: []string{"parent"}, Func: func(ctx context.Context, d engine.Delivery) error {
		_, err := d.Send(ctx, engine.Event{Type: "child"})
		return err
	}}
	p := newProgram(t, db, "first", relay)
	stop := run(t, p.Engine)
	p.api("POST /v1/endpoints/uid:func:parent/pause", "", 200)
	parent := p.send("default", engine.Event{Type: "parent"})
	stop()

	p = newProgramOf(t, db, func(c *engine.Config) { c.Roles = engine.Roles{Deliver: true} }, relay)
	start(t, p.Engine)
	p.api("POST /v1/endpoints/uid:func:parent/resume", "", 200)
	if d, attempts := p.ended(parent.ID); d.State != posthaste.StateDelivered {
		t.Errorf("%+v, %+v", d, attempts)
	}
	if n := children(t, p, parent.ID); n != 1 {
		t.Errorf("%d children", n)
	}
}

// TestHandlerSendsToAnotherTenant: the chain goes on, and the event is the other tenant's alone.
func TestHandlerSendsToAnotherTenant(t *testing.T) {
	onBoth(t, func(t *testing.T, db store.Store) {
		arrived := make(chan engine.Delivery, 10)
		results := make(chan error, 10)
		p := newProgram(t, db, "test",
			engine.Handler{EventTypes: []string{"parent"}, Schedule: quick(1), Func: func(ctx context.Context, d engine.Delivery) error {
				got, err := d.SendTo(ctx, "acme", engine.Event{Type: "child", IdempotencyKey: "one"})
				if err != nil || got.Duplicate != (d.Attempt > 1) {
					t.Errorf("attempt %d: %+v, %v", d.Attempt, got, err)
				}
				_, err = d.SendTo(ctx, "nobody", engine.Event{Type: "child"})
				results <- err
				if d.Attempt == 1 {
					return errors.New("again")
				}
				return nil
			}},
			engine.Handler{EventTypes: []string{"child"}, Func: func(_ context.Context, d engine.Delivery) error { arrived <- d; return nil }})
		stop := run(t, p.Engine)
		p.api("POST /v1/tenants", `{"name":"acme"}`, http.StatusCreated)
		parent := p.send("default", engine.Event{Type: "parent"})
		child := <-arrived
		if child.Tenant != "acme" || child.Parent != parent.ID || child.CorrelationID != parent.ID || child.Source != "func:parent" {
			t.Errorf("the child: %+v", child)
		}
		p.ended(parent.ID)
		for range 2 {
			if err := <-results; posthaste.CodeOf(err) != posthaste.CodeNotFound {
				t.Errorf("to a tenant that is not there: %v", err)
			}
		}
		if n := children(t, p, parent.ID); n != 0 {
			t.Errorf("%d children in the parent's tenant", n)
		}
		stop()
		if len(arrived) != 0 {
			t.Error("the child came twice")
		}
		verified(t, db)
	})
}

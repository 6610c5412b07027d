package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste/internal/testdb"
	"github.com/posthaste-dev/posthaste/outbox"
)

// refusePoison has the engine's database refuse events of one type, as it would one that is
// broken in a way that nobody thought of.
const refusePoison = `create function refuse() returns trigger language plpgsql as $$ begin raise 'poison'; end $$;
	create trigger refuse before insert on events for each row when (new.type = 'poison') execute function refuse()`

func TestOneRowThatTheEngineRefusesIsParked(t *testing.T) {
	for name, s := range map[string]setting{
		"apart": {testdb.Postgres(t), testdb.Postgres(t)},
		"joint": func() setting { db := testdb.Postgres(t); return setting{db, db} }(),
	} {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t)
			admin := s.install(t)
			s.start(t, r)
			exec(t, connect(t, s.engineDB), refusePoison)
			transact := s.transact(t)
			// Alone it is not parked: it may be the engine's fault.
			enqueue(t, transact, outbox.Event{Type: "poison", OrderKey: "k"})
			held := event("held")
			held.OrderKey = "k"
			enqueue(t, transact, held)
			status, err := admin.Status(t.Context())
			if err != nil || status.Parked != 0 {
				t.Errorf("%+v, %v", status, err)
			}
			var events []outbox.Event
			for i := range 40 {
				events = append(events, event(fmt.Sprint(i)))
				if i%10 == 5 {
					events = append(events, outbox.Event{Type: "poison"})
				}
			}
			enqueue(t, transact, events...)
			eventually(t, "the good ones have arrived", func() bool { return len(r.payloads()) == 40 })
			eventually(t, "the bad ones are parked", func() bool {
				parked, err := admin.Parked(t.Context(), 10)
				return err == nil && len(parked) == 5 && parked[0].Type == "poison" && strings.Contains(parked[0].Reason, "could not be stored")
			})
			if n, err := admin.Drop(t.Context(), nil); n != 5 || err != nil {
				t.Error(n, err)
			}
			eventually(t, "the one behind it arrives", func() bool { return len(r.payloads()) == 41 })
		})
	}
}

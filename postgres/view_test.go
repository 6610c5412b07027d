package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store"
	"github.com/posthaste-dev/posthaste/internal/store/storetest"
)

// TestPrintedIDs holds the SQL functions to the Go ones.
func TestPrintedIDs(t *testing.T) {
	db, _ := open(t)
	ids := []posthaste.ID{{}, highest, {0: 0x7f, 15: 1}, new(posthaste.Minter).Mint(time.Now()).Delivery(77)}
	for _, id := range ids {
		var printed string
		var back [16]byte
		err := db.side.QueryRow(t.Context(), "select posthaste_id('dlv', $1), posthaste_uuid($2)", [16]byte(id), id.Print(posthaste.KindDelivery)).
			Scan(&printed, &back)
		if err != nil || printed != id.Print(posthaste.KindDelivery) || posthaste.ID(back) != id {
			t.Errorf("%x: printed %s and read back %x, %v; want %s", id, printed, back, err, id.Print(posthaste.KindDelivery))
		}
	}
}

// TestViews asks in one line what an operator asks of psql.
func TestViews(t *testing.T) {
	db, _ := open(t)
	w := newWay(t, db, 3)
	events := w.events(3)
	at := time.Date(2026, 3, 4, 5, 6, 7, 8000, time.UTC)
	if _, err := db.Accept(t.Context(), store.AcceptParams{Epoch: w.epoch, Now: at, Routing: w.routing, Events: events}); err != nil {
		t.Fatal(err)
	}
	lease := func(i int) store.Lease {
		return store.Lease{Delivery: events[i].ID.Delivery(1), Tenant: 1, Endpoint: w.endpoint.No, Epoch: w.epoch, Number: 1}
	}
	_, err := db.Settle(t.Context(), store.SettleParams{Now: at.Add(time.Second), Settlements: []store.Settlement{
		{Lease: lease(0), State: posthaste.StateDead, Reason: posthaste.ReasonPermanent, Attempt: &posthaste.Attempt{
			Outcome: posthaste.OutcomePermanent, Cause: posthaste.CauseStatus, StatusCode: 400, Error: "bad \xff\x00", StartedAt: at,
			Timings: posthaste.Timings{Total: 1500 * time.Microsecond},
		}},
		{Lease: lease(1), DueAt: at.Add(time.Minute), Failures: 1, Attempt: &posthaste.Attempt{
			Outcome: posthaste.OutcomeTransient, Cause: posthaste.CauseConnectTimeout, StartedAt: at,
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	id := events[0].ID.Delivery(1)
	for _, c := range []struct{ sql, want string }{
		{"select string_agg(status, ',' order by uuid) from v_deliveries", "dead,pending,delivering"},
		{"select tenant || ' ' || type || ' ' || endpoint_id || ' ' || event_id from v_deliveries where uuid = posthaste_uuid('" + id.Print(posthaste.KindDelivery) + "')",
			"default invoice.paid " + w.endpoint.ID.Print(posthaste.KindEndpoint) + " " + events[0].ID.Print(posthaste.KindEvent)},
		{"select id || ' ' || reason || ' ' || last_outcome || ' ' || attempts from v_dead", id.Print(posthaste.KindDelivery) + " permanent failure permanent 1"},
		{"select to_char(next_attempt_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS.US') from v_deliveries where status = 'pending'", "2026-03-04 05:07:07.000008"},
		{"select count(*)::text from v_deliveries where finished_at is null", "2"},
		{"select outcome || ' ' || cause || ' ' || status_code || ' ' || duration_ms::float8 || ' ' || error from v_attempts where delivery_id = '" + id.Print(posthaste.KindDelivery) + "'",
			`permanent status 400 1.5 bad \377\000`},
	} {
		var got string
		if err := db.side.QueryRow(t.Context(), c.sql).Scan(&got); err != nil || got != c.want {
			t.Errorf("%s\n got  %q, %v\n want %q", c.sql, got, err, c.want)
		}
	}
}

// The columns are those of the other database.
func TestViewColumns(t *testing.T) {
	db, _ := open(t)
	for name, want := range storetest.Views {
		var got []string
		err := db.side.QueryRow(t.Context(), `select array_agg(column_name::text order by ordinal_position) from information_schema.columns
			where table_schema = current_schema() and table_name = $1`, name).Scan(&got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s has %v, %v; want %v", name, got, err, want)
		}
	}
}

// TestHeaders holds the encoding of headers to every byte, and reading to not
// failing on what is cut off.
func TestHeaders(t *testing.T) {
	headers := []posthaste.Header{{Name: "A", Value: ""}, {Name: "", Value: "\x00\xff\r\n: "}, {Name: "Long", Value: string(make([]byte, 300))}}
	raw := appendHeaders(headers)
	got := readHeaders(raw)
	for i := range headers {
		if len(got) != len(headers) || got[i] != headers[i] {
			t.Fatalf("read %q, want %q", got, headers)
		}
	}
	for n := range raw {
		if got := readHeaders(raw[:n]); len(got) >= len(headers) {
			t.Errorf("%d of %d bytes give %d headers", n, len(raw), len(got))
		}
	}
}

// TestUnavailable sorts errors of the server.
func TestUnavailable(t *testing.T) {
	db, _ := open(t)
	for sql, want := range map[string]bool{
		"select 1/0":                                    false,
		"select convert_from('\\xff', 'UTF8')":          false,
		"insert into tenants (name) values (null)":      false,
		"do $$ begin raise sqlstate '40P01'; end $$":    true,
		"do $$ begin raise sqlstate '40001'; end $$":    true,
		"do $$ begin raise sqlstate '53100'; end $$":    true,
		"do $$ begin raise sqlstate '57P01'; end $$":    true,
		"do $$ begin raise sqlstate '25006'; end $$":    true,
		"do $$ begin raise sqlstate '55P03'; end $$":    true,
		"do $$ begin raise sqlstate '58030'; end $$":    true,
		"set statement_timeout = 1; select pg_sleep(1)": true,
	} {
		conn := session(t, db)
		_, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
		if err == nil {
			t.Fatalf("%s: no error", sql)
		}
		if got := errors.Is(fail("try", err), store.ErrUnavailable); got != want {
			t.Errorf("%s: unavailable %v, want %v (%v)", sql, got, want, err)
		}
	}
}

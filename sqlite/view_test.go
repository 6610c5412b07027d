package sqlite

import (
	"bytes"
	"encoding/csv"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/posthaste-dev/posthaste"
	"github.com/posthaste-dev/posthaste/internal/store/storetest"
)

// view reads a view through the driver: its rows by column.
func view(t *testing.T, db *DB, query string) (out []map[string]string) {
	t.Helper()
	err := db.read(t.Context(), "view", func(c *conn) error {
		// A connection from before the migration learns of it here; else the columns' names
		// would be those of the schema that it remembers.
		if _, err := c.get(sqlPing, func(row) {}); err != nil {
			return err
		}
		for r, err := range c.rows(query) {
			if err != nil {
				return err
			}
			m := map[string]string{}
			for i := range r.ColumnCount() {
				m[r.ColumnName(i)] = r.ColumnText(i)
			}
			out = append(out, m)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestViews(t *testing.T) {
	db := openTest(t, Config{})
	w := newWork(t, db)
	events := w.round(t, 4)
	rows := view(t, db, `SELECT * FROM v_deliveries ORDER BY id`)
	want := []struct{ status, outcome, reason string }{
		{"delivered", "delivered", ""}, {"pending", "transient", ""}, {"dead", "permanent", "permanent failure"}, {"delivering", "", ""},
	}
	if len(rows) != len(want) {
		t.Fatalf("v_deliveries has %d rows, want %d", len(rows), len(want))
	}
	for i, r := range rows {
		for column, want := range map[string]string{
			"id":       events[i].ID.Delivery(1).Print(posthaste.KindDelivery),
			"event_id": events[i].ID.Print(posthaste.KindEvent), "endpoint_id": w.endpoint.ID.Print(posthaste.KindEndpoint),
			"tenant": "default", "type": "invoice.paid",
			"status": want[i].status, "last_outcome": want[i].outcome, "reason": want[i].reason,
			"run_at": w.now.Format("2006-01-02T15:04:05.000Z"),
		} {
			if r[column] != want {
				t.Errorf("row %d of v_deliveries: %s is %q, want %q", i, column, r[column], want)
			}
		}
		if waits := r["next_attempt_at"] != ""; waits != (want[i].status == "pending") {
			t.Errorf("row %d of v_deliveries: next_attempt_at is %q of a delivery that is %s", i, r["next_attempt_at"], want[i].status)
		}
	}
	dead := view(t, db, `SELECT * FROM v_dead`)
	if len(dead) != 1 || dead[0]["id"] != rows[2]["id"] || dead[0]["last_status_code"] != "400" || dead[0]["last_error"] != "answered 400" {
		t.Errorf("v_dead: %v", dead)
	}
	attempts := view(t, db, `SELECT * FROM v_attempts ORDER BY delivery_id`)
	if len(attempts) != 3 || attempts[1]["delivery_id"] != rows[1]["id"] || attempts[1]["outcome"] != "transient" ||
		attempts[1]["status_code"] != "503" || attempts[1]["duration_ms"] != "1.0" {
		t.Errorf("v_attempts: %v", attempts)
	}
}

// The columns are those of the other database.
func TestViewColumns(t *testing.T) {
	db := openTest(t, Config{})
	for name, want := range storetest.Views {
		var got []string
		for _, r := range view(t, db, `SELECT name FROM pragma_table_info('`+name+`') ORDER BY cid`) {
			got = append(got, r["name"])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
}

// TestViewsPrintIDs compares the ids that SQL prints with those that Go prints.
func TestViewsPrintIDs(t *testing.T) {
	db := openTest(t, Config{})
	ids := []posthaste.ID{{}, below(posthaste.ID{})}
	for i := range 128 {
		var one posthaste.ID
		one[i/8] = 0x80 >> (i % 8)
		ids = append(ids, one)
	}
	for _, id := range ids {
		change(t, db, `INSERT INTO attempts (delivery, number, started_at, dns_us, connect_us, tls_us, first_byte_us, total_us, outcome, late,
			cause, status_code, endpoint_version, replica) VALUES (?1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 200, 1, '')`, id)
	}
	printed := map[string]bool{}
	for _, r := range view(t, db, `SELECT delivery_id FROM v_attempts`) {
		printed[r["delivery_id"]] = true
	}
	for _, id := range ids {
		if !printed[id.Print(posthaste.KindDelivery)] {
			t.Errorf("%x is not printed as %s", id, id.Print(posthaste.KindDelivery))
		}
	}
}

// TestViewsInTheShell reads the views with the system's sqlite3, which may be
// years older than the SQLite inside this program. Without one there is nothing
// to compare: TestViews is the test of the views.
func TestViewsInTheShell(t *testing.T) {
	shell, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Log("this machine has no sqlite3")
		return
	}
	db := openTest(t, Config{})
	newWork(t, db).round(t, 40)
	for _, query := range []string{
		`SELECT * FROM v_deliveries ORDER BY id`, `SELECT * FROM v_dead ORDER BY id`, `SELECT * FROM v_attempts ORDER BY delivery_id, number`,
	} {
		out, err := exec.CommandContext(t.Context(), shell, "-readonly", "-csv", "-header", db.cfg.Path, query).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", query, err, out)
		}
		got, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		want := view(t, db, query)
		if len(got) != len(want)+1 {
			t.Fatalf("%s: the shell shows %d rows, want %d", query, len(got)-1, len(want))
		}
		for i, row := range got[1:] {
			for k, column := range got[0] {
				if row[k] != want[i][column] {
					t.Errorf("%s: row %d: %s is %q in the shell, want %q", strings.Fields(query)[3], i, column, row[k], want[i][column])
				}
			}
		}
	}
}

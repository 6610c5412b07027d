package main_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/posthaste-dev/posthaste/internal/testdb"
)

// TestRunsKeepTheirOrderThroughKills lets an ordered endpoint work off a backlog, so that each
// kill of the replica that sends meets a run, and lets deliveries fail in the middle of runs.
func TestRunsKeepTheirOrderThroughKills(t *testing.T) {
	for _, on := range []struct {
		name     string
		db       string
		replicas int
	}{
		{"PostgreSQL", testdb.Postgres(t), 3},
		{"SQLite", testdb.SQLite(t), 1},
	} {
		t.Run(on.name, func(t *testing.T) {
			const events, kills = 4000, 6
			inOrder := newJournal(t, func(a journalEntry) int {
				wait(t.Context(), time.Millisecond)
				if n, _ := strconv.Atoi(a.body); n%301 == 300 && a.attempt == 1 {
					return http.StatusServiceUnavailable
				}
				return http.StatusOK
			})
			replicas := make([]*replica, on.replicas)
			for i := range replicas {
				replicas[i] = newReplica(t, on.db, nil)
				replicas[i].start()
			}
			schedule := strings.TrimSuffix(strings.Repeat(`"20ms",`, 50), ",")
			id := replicas[0].makeEndpoint(fmt.Sprintf(`{"url":%q,"event_types":["ordered"],"ordered":"endpoint","retry":{"schedule":[%s],"timeout":"2s"}}`,
				inOrder.URL, schedule))
			if status, raw := replicas[0].api(http.MethodPost, "/v1/endpoints/"+id+"/pause", ""); status != http.StatusOK {
				t.Fatalf("pause: %d %s", status, raw)
			}
			replicas[0].sendMany("ordered", events)
			if status, raw := replicas[0].api(http.MethodPost, "/v1/endpoints/"+id+"/resume", ""); status != http.StatusOK {
				t.Fatalf("resume: %d %s", status, raw)
			}
			for i := range kills {
				before := inOrder.distinct()
				eventually(t, time.Minute, "it goes on", func() bool { return inOrder.distinct() >= before+events/(kills+2) })
				for _, victim := range replicas[i%len(replicas):] { // who sends is among them
					victim.kill()
				}
				for _, victim := range replicas[i%len(replicas):] {
					victim.start()
				}
			}
			eventually(t, 2*time.Minute, "all have arrived", func() bool { return inOrder.distinct() == events })
			arrivals := inOrder.seen()
			checkOrder(t, arrivals, kills)
			if len(arrivals) <= events+events/301 {
				t.Errorf("%d arrivals: no kill met a run", len(arrivals))
			}
		})
	}
}

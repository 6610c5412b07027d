//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func TestGatherTakesWhatWaits(t *testing.T) {
	in := make(chan *event, 10)
	first := &event{target: "0"}
	for i := range 5 {
		in <- &event{target: fmt.Sprint(i + 1)}
	}
	for _, tt := range []struct {
		first string
		n     int
		want  string
	}{{"0", 4, "0 1 2 3"}, {"0", 9, "0 4 5"}, {"0", 9, "0"}} {
		var got []string
		for _, e := range gather(first, in, tt.n) {
			got = append(got, e.target)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("gathered %v, want %s", got, tt.want)
		}
	}
}

func countRows(t *testing.T, file string) (n int64) {
	t.Helper()
	conn, err := sqlite.OpenConn(file, sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	err = sqlitex.ExecuteTransient(conn, "SELECT count(*) FROM event", &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { n = row.ColumnInt64(0); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWriterStoresABatchOrNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events.db")
	w, err := openWriter(file)
	if err != nil {
		t.Fatal(err)
	}
	defer w.conn.Close()
	if err := w.store([]*event{{target: "a", body: []byte("1")}, {target: "b", body: nil}}); err != nil {
		t.Fatal(err)
	}
	// The second row of this batch is one that the table refuses.
	if err := sqlitex.ExecuteTransient(w.conn, `CREATE UNIQUE INDEX one ON event (target)`, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.store([]*event{{target: "c"}, {target: "a"}}); err == nil {
		t.Error("stored a target twice")
	}
	if err := w.store([]*event{{target: "d"}}); err != nil {
		t.Errorf("after a failure: %v", err)
	}
	if n := countRows(t, file); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
	var level int64
	if err := sqlitex.ExecuteTransient(w.conn, `PRAGMA synchronous`, &sqlitex.ExecOptions{
		ResultFunc: func(row *sqlite.Stmt) error { level = row.ColumnInt64(0); return nil },
	}); err != nil || level != 2 {
		t.Errorf("synchronous is %d, %v; want 2, FULL", level, err)
	}
}

func TestEventsAreStoredAndForwarded(t *testing.T) {
	const n = 40
	var mu sync.Mutex
	got := map[string]int{}
	all := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if got[string(body)]++; len(got) == n {
			close(all)
		}
	}))
	defer target.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := config{listen: ln.Addr().String(), sqliteFile: filepath.Join(t.TempDir(), "events.db"), batch: 8, workers: 4}
	_ = ln.Close() // the address is free again for the server
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c) }()
	awaitHealth(t, c.listen)
	var senders sync.WaitGroup
	for i := range n {
		senders.Go(func() {
			req, _ := http.NewRequest(http.MethodPost, "http://"+c.listen+"/events", strings.NewReader(fmt.Sprint("event ", i)))
			req.Header.Set("X-Target", target.URL)
			res, err := http.DefaultClient.Do(req)
			if err != nil || res.StatusCode != http.StatusAccepted {
				t.Errorf("event %d: %v, %v", i, res, err)
				return
			}
			_ = res.Body.Close()
		})
	}
	senders.Wait()
	select {
	case <-all:
	case <-time.After(10 * time.Second):
		t.Fatalf("%d of %d events forwarded", len(got), n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if rows := countRows(t, c.sqliteFile); rows != n {
		t.Errorf("%d rows, want %d", rows, n)
	}
}

func awaitHealth(t *testing.T, addr string) {
	t.Helper()
	deadline, tick := time.After(10*time.Second), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		if res, err := http.Get("http://" + addr + "/health"); err == nil {
			_ = res.Body.Close()
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the server did not come up")
		}
	}
}

func TestRunWantsOneStore(t *testing.T) {
	for _, c := range []config{{}, {dsn: "postgres://127.0.0.1:1/x", sqliteFile: "x.db"}} {
		if err := run(context.Background(), c); err == nil {
			t.Errorf("ran with %+v", c)
		}
	}
}

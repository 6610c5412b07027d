//go:build linux

package main

import (
	"context"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPercentiles(t *testing.T) {
	samples := make([]int64, 1000)
	for i := range samples {
		samples[i] = int64(1000 - i) // 1 … 1000, backwards
	}
	if got, want := percentiles(samples), (latency{500, 950, 990, 1000}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := percentiles([]int64{7}), (latency{7, 7, 7, 7}); got != want {
		t.Errorf("of one sample: got %v, want %v", got, want)
	}
	if got, want := percentiles([]int64{4, 2}), (latency{2, 4, 4, 4}); got != want {
		t.Errorf("of two samples: got %v, want %v", got, want)
	}
	if got := percentiles(nil); got != (latency{}) {
		t.Errorf("of none: got %v", got)
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(tt.values); got != tt.want {
			t.Errorf("median of %v: %g, want %g", tt.values, got, tt.want)
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: %g", got)
	}
}

// TestTally has one event of each fate: delivered, delivered twice, accepted and
// lost, delivered without a 2xx, refused for good.
func TestTally(t *testing.T) {
	rec := newRecorder("flow", 5, stopwatch{time.Now().Add(-time.Hour)})
	set := func(seq int, intended, acked, arrived int64, hits int32) {
		rec.intended[seq] = intended
		rec.acked[seq].Store(acked)
		rec.arrived[seq].Store(arrived)
		rec.hits[seq].Store(hits)
		rec.last.Store(max(rec.last.Load(), arrived))
	}
	const ms = int64(time.Millisecond)
	set(0, 100*ms, 101*ms, 103*ms, 1)
	set(1, 200*ms, 202*ms, 1100*ms, 2)
	set(2, 300*ms, 301*ms, 0, 0)
	set(3, 400*ms, 0, 405*ms, 1)
	set(4, 500*ms, 0, 0, 0)
	rec.failed.Store(2)
	var r result
	r.tally(rec)
	if r.accepted != 3 || r.delivered != 2 || r.lost != 1 || r.duplicates != 1 || r.unacknowledged != 1 || r.failed != 2 {
		t.Errorf("got %+v", r)
	}
	if r.rate != 2 { // 2 in the second from the first intended send to the last arrival
		t.Errorf("rate %g, want 2", r.rate)
	}
	if r.acceptTime.p50 != time.Millisecond {
		t.Errorf("p50 to the 202 is %s", r.acceptTime.p50)
	}
	if r.arriveIn.p50 != 900*time.Millisecond || r.arriveIn.max < 59*time.Minute {
		t.Errorf("arrival in %+v: a lost event must count with its age", r.arriveIn)
	}
	for name, want := range map[string]error{"cut": r.verdict(false, 5), "not accepted": r.verdict(true, 5)} {
		if want == nil || !strings.Contains(want.Error(), name) {
			t.Errorf("verdict %v, want %q", want, name)
		}
	}
}

// sample is a clean run.
func sample(engine, phase string, round int, rate float64) result {
	return result{
		engine: engine, phase: phase, round: round, rate: rate, hotShare: 0.9, ready: 200 * time.Millisecond,
		arriveIn:    latency{p50: 2 * time.Millisecond, p95: 3 * time.Millisecond, p99: 4 * time.Millisecond},
		perEvent:    costs{engine: 60 * time.Microsecond, database: 30 * time.Microsecond, walBytes: 2000},
		engineBytes: 100 << 20, idleBytes: 20 << 20,
	}
}

func TestRatiosAreWithinARound(t *testing.T) {
	const p = "sat:50000:64"
	failed := sample("ours", p, 4, 1)
	failed.err = "cut"
	results := []result{
		sample("base", p, 1, 1000), sample("ours", p, 1, 1200), // 1.2
		sample("base", p, 2, 100), sample("ours", p, 2, 110), // 1.1: a slow moment
		sample("base", p, 3, 1000), sample("ours", p, 3, 1300), // 1.3
		sample("base", p, 4, 1000), failed,
		sample("ours", "sat:9:9", 1, 5),
	}
	groups := summarize(results, map[string]string{"ours": "base"})
	if len(groups) != 3 {
		t.Fatalf("%d groups, want 3", len(groups))
	}
	ours := groups[1]
	if ours.engine != "ours" || ours.all != 4 || len(ours.runs) != 3 {
		t.Errorf("%s with %d of %d clean runs", ours.engine, len(ours.runs), ours.all)
	}
	if got := ours.against.rate; math.Abs(got-1.2) > 1e-9 {
		t.Errorf("ratio %g, want 1.2", got)
	}
	if ours.median.rate != 1200 || ours.against.cpu != 1 {
		t.Errorf("median %g, CPU ratio %g", ours.median.rate, ours.against.cpu)
	}
	if !math.IsNaN(groups[0].against.rate) || !math.IsNaN(groups[2].against.rate) {
		t.Error("a ratio without a baseline")
	}
	table := summaryTable(groups)
	for _, want := range []string{"3 of 4", "1.20", "2.0 / 3.0 / 4.0", "60 + 30", "0.90"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	lines := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	for _, line := range lines {
		if strings.Count(line, "|") != strings.Count(lines[0], "|") {
			t.Errorf("a row of another width: %s", line)
		}
	}
}

func TestBudgets(t *testing.T) {
	short, long := sample("ours", "sat:50000:64", 1, 790), sample("ours", "sat:300000:64", 1, 1000)
	long.engineBytes = 130 << 20
	steady := sample("ours", "rate:83:10", 1, 83)
	steady.arriveIn.p50 = 20 * time.Millisecond
	groups := summarize([]result{
		sample("base", "sat:50000:64", 1, 1000), short, long,
		sample("base", "rate:83:10", 1, 83), steady,
	}, map[string]string{"ours": "base"})
	missed := map[string]bool{}
	for _, f := range checkBudgets(groups) {
		if strings.HasPrefix(f.what, "base") {
			t.Errorf("a budget for the baseline: %+v", f)
		}
		if !f.met {
			missed[f.what] = true
		}
	}
	for _, want := range []string{
		"ours sat:50000:64: delivered/s over the baseline's (goal 1.2)",
		"ours rate:83:10: p50 over the baseline's",
		"ours: memory at 300000 events over that at 50000",
	} {
		if !missed[want] {
			t.Errorf("met: %s", want)
		}
		delete(missed, want)
	}
	if len(missed) > 0 {
		t.Errorf("missed: %v", missed)
	}
}

func TestEveryRunIsKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	for range 2 { // a second command appends
		var terminal strings.Builder
		r, err := openReport(&terminal, file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := openReport(&terminal, file); err == nil {
			t.Error("two benchmarks may write at once")
		}
		bad := sample("ours", "sat:10:1", 2, 0)
		bad.err = "cut:\n3 accepted | had not arrived"
		if err := r.begin(time.Now(), []string{"-rounds", "2"}, machine{cpu: "Fast CPU", sync: time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		for _, res := range []result{sample("ours", "sat:10:1", 1, 9), bad} {
			if err := r.run(res); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.end(summarize([]result{bad}, nil), nil); err != nil {
			t.Fatal(err)
		}
		if err := r.close(); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(raw)
	for text, times := range map[string]int{"# Results\n": 1, "go run ./bench -rounds 2\n": 2, "Fast CPU": 2, "| ours | sat:10:1 |": 4,
		`**failed**: cut: 3 accepted \| had not arrived`: 2, "0 of 1": 2} {
		if n := strings.Count(got, text); n != times {
			t.Errorf("%q is there %d times, want %d, in\n%s", text, n, times, got)
		}
	}
}

func TestStepsTakeTurns(t *testing.T) {
	plan, err := steps([]block{{engines: []string{"direct", "reference-sqlite"}, phases: []string{"sat:10:1"}, rounds: 2}})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, s := range plan {
		order = append(order, s.engine.Name)
	}
	if got := strings.Join(order, " "); got != "direct reference-sqlite direct reference-sqlite" {
		t.Errorf("order %s", got)
	}
	if _, err := steps(comparison(maxRounds)); err != nil {
		t.Errorf("the longest comparison: %v", err)
	}
	for _, bad := range []block{{}, {[]string{"nobody"}, []string{"sat:1:1"}, 1}, {[]string{"direct"}, []string{"sat"}, 1},
		{[]string{"direct"}, []string{"sat:1:1"}, maxSteps + 1}} {
		if _, err := steps([]block{bad}); err == nil {
			t.Errorf("planned %+v", bad)
		}
	}
}

// TestRunDirect makes a whole run without an engine: generator to receiver.
func TestRunDirect(t *testing.T) {
	d, err := loadDescription("direct")
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePhase("sat:300:4")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{folder: t.TempDir(), binaries: map[string]string{}, warmup: 10, limit: time.Minute, idle: 10 * time.Second}
	res := b.run(context.Background(), d, p, 1)
	if res.err != "" || res.accepted != 300 || res.delivered != 300 || res.lost+res.duplicates != 0 || res.rate <= 0 {
		t.Errorf("got %+v", res)
	}
	if left, err := os.ReadDir(b.folder); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRunReportsWhatTheEngineRefuses(t *testing.T) {
	// The receiver takes only POST-able URLs below 64 KiB: a body that it cannot
	// hold makes every send fail.
	d := description{Name: "refused", Send: request{Method: http.MethodPost, URL: "${receiver}", Body: strings.Repeat("x", receivedBytes) + "${body}"}}
	p, err := parsePhase("sat:10:1")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{folder: t.TempDir(), warmup: 1, limit: time.Minute, idle: time.Second}
	if res := b.run(context.Background(), d, p, 1); !strings.Contains(res.err, "status 400") {
		t.Errorf("error %q, want the receiver's status", res.err)
	}
}

func TestRunReportsAnEngineThatDoesNotStart(t *testing.T) {
	d := description{
		Name:  "broken",
		Start: []command{{Cmd: []string{"sh", "-c", "echo cannot open ${listen}; exit 1"}}},
		Ready: "http://${listen}/readyz",
	}
	p, err := parsePhase("sat:10:1")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{folder: t.TempDir(), warmup: 1, limit: time.Minute, idle: time.Second}
	if res := b.run(context.Background(), d, p, 1); !strings.Contains(res.err, "cannot open 127.0.0.1:") {
		t.Errorf("error %q, want the engine's last words", res.err)
	}
}

func TestReceiverTellsForeignArrivals(t *testing.T) {
	rc, err := startReceiver()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.close()
	rec := newRecorder("flow", 3, newStopwatch())
	rc.open(rec)
	post := func(body []byte) int {
		res, err := http.Post(rc.url, "application/json", strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	outside := newRecorder("flow", 9, newStopwatch()).appendPayload(nil, 8)
	for _, body := range [][]byte{rec.appendPayload(nil, 1), rec.appendPayload(nil, 1), []byte("{}"), outside} {
		if status := post(body); status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	if rec.hits[1].Load() != 2 || rec.distinct.Load() != 1 || rec.arrived[1].Load() == 0 || rc.foreign.Load() != 2 {
		t.Errorf("hits %d, distinct %d, foreign %d", rec.hits[1].Load(), rec.distinct.Load(), rc.foreign.Load())
	}
	rc.closeFlow(rec)
	post(rec.appendPayload(nil, 2))
	if rec.hits[2].Load() != 0 {
		t.Error("an arrival counted after its flow was closed")
	}
}

func TestDiffering(t *testing.T) {
	before := map[string]int64{"stored": 10, "recorded": 10}
	if got := differing(before, map[string]int64{"stored": 15, "recorded": 15}, 5); got != "" {
		t.Errorf("got %q", got)
	}
	if got := differing(before, map[string]int64{"stored": 15, "recorded": 12}, 5); got != "2 recorded" {
		t.Errorf("got %q", got)
	}
}

//go:build linux

package main

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestMostAboveTheLimit(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, tt := range map[string]struct {
		arrivals []int64 // ms
		want     float64 // at 10 a second
	}{
		"one":                  {[]int64{5}, 1},
		"evenly":               {[]int64{0, 100, 200, 300}, 1},
		"a burst first":        {[]int64{0, 0, 0, 100, 200}, 3},
		"a burst in the midst": {[]int64{0, 1000, 1000, 1050, 2000}, 2.5},
		"too slow, then fast":  {[]int64{0, 500, 1000, 1050, 1100, 1150}, 2.5},
	} {
		for i := range tt.arrivals {
			tt.arrivals[i] *= ms
		}
		if got := mostAbove(tt.arrivals, 10); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, got, tt.want)
		}
	}
}

func TestSteadyRateLeavesTheBurstOut(t *testing.T) {
	var arrivals []int64
	for range 50 {
		arrivals = append(arrivals, 0)
	}
	for i := range 40 { // 20 a second
		arrivals = append(arrivals, int64(i+1)*int64(50*time.Millisecond))
	}
	if got := steadyRate(arrivals); math.Abs(got-20) > 1e-9 {
		t.Errorf("%g, want 20", got)
	}
	if got := steadyRate(arrivals[:50]); !math.IsNaN(got) {
		t.Errorf("of a burst alone: %g", got)
	}
}

func TestMeasuresAreJudgedByTheirMedian(t *testing.T) {
	var measures []measure
	for _, v := range []float64{0.5, 0.8, 0.9} {
		measures = append(measures,
			measure{where: "ours", what: "floor", value: v, budget: 0.7, floor: true},
			measure{where: "ours", what: "ceiling", value: v, budget: 0.7},
			measure{where: "ours", what: "promise", value: v, budget: 0.85, always: true},
			measure{where: "ours", what: "free", value: v, budget: math.NaN()})
	}
	findings := checkMeasures(measures)
	want := []finding{
		{"ours: floor", "0.8", "≥ 0.7", true},
		{"ours: ceiling", "0.8", "≤ 0.7", false},
		{"ours: promise", "0.9", "≤ 0.85", false},
		{"ours: free", "0.8", noBudget, true},
	}
	if len(findings) != len(want) {
		t.Fatalf("got %+v", findings)
	}
	for i := range want {
		if findings[i] != want[i] {
			t.Errorf("got %+v, want %+v", findings[i], want[i])
		}
	}
	if table, missed := budgetTable(findings); missed != 2 || strings.Count(table, "| met") != 1 {
		t.Errorf("%d missed in\n%s", missed, table)
	}
}

func TestGateStepsTakeTurns(t *testing.T) {
	plan, err := gateSteps([]string{allScenarios}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan) != 2*(10*2+4) {
		t.Errorf("%d runs", len(plan))
	}
	for i, s := range plan {
		if want := []string{"postgres", "sqlite"}[i%2]; s.engine.Database != want {
			t.Errorf("run %d is on %s, want %s", i, s.engine.Database, want)
		}
	}
	if _, err := gateSteps([]string{"nothing"}, 1); err == nil {
		t.Error("planned a scenario that does not exist")
	}
}

func TestReplicasListenApart(t *testing.T) {
	d, err := loadDescription("posthaste-postgres")
	if err != nil {
		t.Fatal(err)
	}
	three := d.replicated(3)
	names := map[string]bool{}
	for _, c := range three.Start {
		names[c.Env["POSTHASTE_REPLICA"]] = true
	}
	if len(three.Start) != 3 || len(names) != 3 || len(d.Start) != 1 {
		t.Errorf("%d processes with names %v, %d before", len(three.Start), names, len(d.Start))
	}
}

func TestReceiverOfADeadEndpoint(t *testing.T) {
	rc, err := startReceiver()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.close()
	rec := newRecorder("flow", 1, newStopwatch())
	rc.open(rec)
	body := string(rec.appendPayload(nil, 0))
	res, err := http.Post(rc.downURL, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || rec.hits[0].Load() != 0 {
		t.Errorf("status %d, %d arrivals", res.StatusCode, rec.hits[0].Load())
	}
	client := &http.Client{Timeout: 50 * time.Millisecond}
	if res, err := client.Post(rc.hangURL, "application/json", strings.NewReader(body)); err == nil {
		_ = res.Body.Close()
		t.Errorf("status %d of one that hangs", res.StatusCode)
	}
}

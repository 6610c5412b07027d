//go:build linux

package main

import (
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const line = "4242 (a (b) c) S 17 4242 4242 0 -1 4194560 900 0 0 0 150 25 7 3 20 0 5 0 100 1000000 200 18446744073709551615 1 1"
	got, err := parseStat(line)
	if err != nil {
		t.Fatal(err)
	}
	if want := (processStat{pid: 4242, parent: 17, cpu: 1850 * time.Millisecond}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, bad := range []string{"", "1", "1 (x", "1 (x) S 2", "x (y) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"} {
		if got, err := parseStat(bad); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func TestParseResident(t *testing.T) {
	const status = "Name:\tpostgres\nVmHWM:\t   99999 kB\nVmRSS:\t   50000 kB\nRssAnon:\t    4000 kB\nRssFile:\t   12000 kB\nRssShmem:\t   34000 kB\nThreads:\t1\n"
	anon, shared := parseResident(status)
	if anon != 4000 || shared != 46000 {
		t.Errorf("got %d kB and %d kB, want 4000 and 46000", anon, shared)
	}
	if anon, shared := parseResident("Name:\tkthreadd\n"); anon != 0 || shared != 0 {
		t.Errorf("a kernel thread has %d and %d kB", anon, shared)
	}
}

func TestParseBusy(t *testing.T) {
	// user nice system idle iowait irq softirq steal guest guest_nice
	const stat = "cpu  100 20 30 9000 800 4 5 6 70 80\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
	if got, want := parseBusy(stat), 1650*time.Millisecond; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTree(t *testing.T) {
	all := map[int]processStat{
		1: {pid: 1, cpu: 100}, 10: {pid: 10, parent: 1, cpu: 1}, 11: {pid: 11, parent: 10, cpu: 2},
		12: {pid: 12, parent: 11, cpu: 4}, 20: {pid: 20, parent: 1, cpu: 50},
	}
	got := tree(all, []int{10})
	slices.Sort(got)
	if !slices.Equal(got, []int{10, 11, 12}) {
		t.Errorf("got %v", got)
	}
	if cpu := cpuOf(all, []int{10}); cpu != 7 {
		t.Errorf("CPU of the tree is %d, want 7", cpu)
	}
}

func TestMeterSeesAChildsWork(t *testing.T) {
	shell := exec.Command("sh", "-c", "read go; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read end")
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	m := startMeter([]int{shell.Process.Pid}, nil)
	if _, err := stdin.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	u := m.stop()
	_ = stdin.Close()
	_ = shell.Wait() // read fails at the end of its input: the status is of no interest
	if u.cpu.engine <= 0 || u.cpu.database != 0 {
		t.Errorf("CPU %s of the process and %s of none", u.cpu.engine, u.cpu.database)
	}
	if u.engineBytes < 100<<10 || u.engineBytes > 100<<20 {
		t.Errorf("a shell of %d bytes", u.engineBytes)
	}
}

func TestMachine(t *testing.T) {
	m, err := describeMachine(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if m.cpu == "" || m.kernel == "" || m.cores < 1 || m.memoryBytes < 1<<26 || m.sync <= 0 {
		t.Errorf("got %+v", m)
	}
	if got := cpuModel("processor\t: 0\nmodel\t\t: 2\nmodel name\t: Fast CPU\nmodel name\t: Other\n"); got != "Fast CPU" {
		t.Errorf("model %q", got)
	}
}

func TestAChildThatEndsByItselfIsAnError(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo out of paper; exit 3")
	c, err := startChild("printer", cmd, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	<-c.exited
	if err := c.stop(syscall.SIGTERM, time.Second); err == nil || !strings.Contains(err.Error(), "out of paper") {
		t.Errorf("got %v, want an error with its last words", err)
	}
}

func TestAChildThatStaysIsKilled(t *testing.T) {
	cmd := exec.Command("sh", "-c", "trap '' TERM; echo up; read never")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	c, err := startChild("stubborn", cmd, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	deadline, tick := time.After(10*time.Second), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for c.tail() != "up" { // from then on it ignores the signal
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it did not come up")
		}
	}
	if err := c.stop(syscall.SIGTERM, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("got %v, want that it was killed", err)
	}
}

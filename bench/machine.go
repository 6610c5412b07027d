//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// machine is what a figure depends on beside the engine.
type machine struct {
	cpu, kernel, goVersion, revision string
	cores                            int
	memoryBytes                      uint64
	sync                             time.Duration // median cost of an fdatasync
	postgres                         string        // version and settings; "" if it is not used
}

// describeMachine looks at all that a reader needs to judge whether two tables
// can be compared. It looks at the machine. folder is where the databases will be.
func describeMachine(folder string, s *server) (machine, error) {
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return machine{}, fmt.Errorf("describe the machine: %w", err)
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return machine{}, fmt.Errorf("describe the machine: %w", err)
	}
	m := machine{
		cpu:       cpuModel(string(cpuinfo)),
		kernel:    strings.TrimSpace(string(kernel)),
		cores:     runtime.NumCPU(),
		goVersion: runtime.Version(),
		revision:  revision(),
	}
	var info syscall.Sysinfo_t
	if err := syscall.Sysinfo(&info); err != nil {
		return machine{}, fmt.Errorf("describe the machine: %w", err)
	}
	m.memoryBytes = info.Totalram * uint64(info.Unit)
	if m.sync, err = syncCost(folder); err != nil {
		return machine{}, fmt.Errorf("measure fdatasync: %w", err)
	}
	if s != nil {
		m.postgres = s.version + " (" + strings.Join(s.settings, ", ") + ")"
	}
	return m, nil
}

// cpuModel returns the first "model name" of /proc/cpuinfo.
func cpuModel(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// revision names the commit that is measured, "+" if the tree has changes.
func revision() string {
	commit, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "none"
	}
	name := strings.TrimSpace(string(commit))
	if status, err := exec.Command("git", "status", "--porcelain").Output(); err != nil || len(status) > 0 {
		name += "+"
	}
	return name
}

// syncCost appends 8 KiB, one page of WAL, to a file and syncs it, many times,
// and returns the median time that the sync took.
func syncCost(folder string) (time.Duration, error) {
	file, err := os.Create(filepath.Join(folder, "sync"))
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	page := bytes.Repeat([]byte{1}, 8192)
	took := make([]time.Duration, 200)
	for i := range took {
		if _, err := file.Write(page); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := syscall.Fdatasync(int(file.Fd())); err != nil {
			return 0, err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// String is a line of the report. A disk that syncs in no time is none: the
// figures are then worth nothing, and the line says so.
func (m machine) String() string {
	s := fmt.Sprintf("%s, %d cores, %d GiB, Linux %s; fdatasync of 8 KiB: %d µs; %s; commit %s",
		m.cpu, m.cores, (m.memoryBytes+1<<29)>>30, m.kernel, m.sync.Microseconds(), m.goVersion, m.revision)
	if m.postgres != "" {
		s += "; PostgreSQL " + m.postgres
	}
	if m.sync < 10*time.Microsecond {
		s += "; **not a disk: nothing is synced in this folder, set TMPDIR to another**"
	}
	return s
}

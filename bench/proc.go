//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, the unit of CPU times in /proc: 100 on every Linux
// architecture that Go runs on (proc(5)).
const ticksPerSecond = 100

// processStat is what /proc/PID/stat says that is of use here.
type processStat struct {
	pid, parent int
	cpu         time.Duration // user and system time, with that of reaped children
}

// parseStat reads a line of /proc/PID/stat (proc_pid_stat(5)). The command's
// name is in parentheses and may hold spaces and parentheses itself.
func parseStat(line string) (processStat, error) {
	open, end := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return processStat{}, fmt.Errorf("parse /proc/PID/stat: no command in %.60q", line)
	}
	fields := strings.Fields(line[end+1:]) // from field 3, the state, on
	if len(fields) < 15 {
		return processStat{}, fmt.Errorf("parse /proc/PID/stat: %d fields after the command", len(fields))
	}
	pid, errPid := strconv.Atoi(strings.TrimSpace(line[:open]))
	parent, errParent := strconv.Atoi(fields[1])
	err := errors.Join(errPid, errParent)
	ticks := int64(0)
	for _, f := range fields[11:15] { // utime stime cutime cstime
		n, errTicks := strconv.ParseInt(f, 10, 64)
		err = errors.Join(err, errTicks)
		ticks += n
	}
	if err != nil {
		return processStat{}, fmt.Errorf("parse /proc/PID/stat: %w", err)
	}
	return processStat{pid, parent, time.Duration(ticks) * time.Second / ticksPerSecond}, nil
}

// parseResident returns the kB of anonymous and of file and shared pages in
// /proc/PID/status (proc_pid_status(5)). A kernel thread has neither.
func parseResident(status string) (anonKB, sharedKB int) {
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		if !strings.HasPrefix(name, "Rss") {
			continue
		}
		n, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		if name == "RssAnon" {
			anonKB += n
		} else {
			sharedKB += n
		}
	}
	return anonKB, sharedKB
}

// parseBusy returns the CPU time in the first line of /proc/stat (proc_stat(5))
// that was spent on anything. Time stolen by the hypervisor counts: it was
// missing here just as if another process had had it. Guest time is in user time
// already.
func parseBusy(stat string) time.Duration {
	line, _, _ := strings.Cut(stat, "\n")
	ticks := int64(0)
	for i, f := range strings.Fields(line) {
		if i == 0 || i == 4 || i == 5 || i > 8 { // the name; idle; iowait; guest and guest_nice
			continue
		}
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// processes is a snapshot of all processes' stat lines.
func processes() map[int]processStat {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	out := make(map[int]processStat, len(files))
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue // it has ended since
		}
		if s, err := parseStat(string(raw)); err == nil {
			out[s.pid] = s
		}
	}
	return out
}

// tree lists the given processes and all their living descendants.
func tree(all map[int]processStat, roots []int) []int {
	children := map[int][]int{}
	for _, s := range all {
		children[s.parent] = append(children[s.parent], s.pid)
	}
	out := append([]int(nil), roots...)
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}

// cpuOf adds up the CPU time of process trees. A child that ends moves its time
// to its parent's, so the sum never goes back.
func cpuOf(all map[int]processStat, roots []int) (sum time.Duration) {
	for _, pid := range tree(all, roots) {
		sum += all[pid].cpu
	}
	return sum
}

// residentBytes is the memory of process trees: private pages summed, file and
// shared pages counted once per tree, as many as the process with the most has.
// PostgreSQL's processes share their buffers: summing those would count them
// once per connection.
func residentBytes(all map[int]processStat, roots []int) int64 {
	total := 0
	for _, root := range roots {
		anon, shared := 0, 0
		for _, pid := range tree(all, []int{root}) {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err != nil {
				continue
			}
			a, s := parseResident(string(raw))
			anon += a
			shared = max(shared, s)
		}
		total += anon + shared
	}
	return int64(total) << 10
}

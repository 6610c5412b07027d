//go:build linux

package main

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// meter measures what a phase costs: CPU time and peak memory of the engine and
// of its database, CPU time of this program, and what else kept the machine busy.
type meter struct {
	engine, database []int // roots of process trees
	began            time.Time
	before           cpuTimes
	done             chan struct{}
	sampler          sync.WaitGroup
	peakEngine       int64
	peakDatabase     int64
}

// cpuTimes are CPU times up to one moment.
type cpuTimes struct {
	engine, database, self, busy time.Duration
}

// usage is what a meter measured.
type usage struct {
	cpu                  cpuTimes // spent in the phase
	others               float64  // cores that everything else kept busy, on average
	engineBytes, dbBytes int64    // peak resident memory
}

// sampleEvery is how often memory is looked at. A look at all of /proc takes
// some milliseconds of CPU, which count as the load's.
const sampleEvery = 250 * time.Millisecond

func startMeter(engine, database []int) *meter {
	m := &meter{engine: engine, database: database, began: time.Now(), done: make(chan struct{})}
	m.before = m.read()
	m.sampler.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			all := processes()
			m.peakEngine = max(m.peakEngine, residentBytes(all, m.engine))
			m.peakDatabase = max(m.peakDatabase, residentBytes(all, m.database))
			select {
			case <-m.done:
				return
			case <-tick.C:
			}
		}
	})
	return m
}

func (m *meter) read() cpuTimes {
	all := processes()
	var self syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self) // it fails only for a wrong argument
	stat, _ := os.ReadFile("/proc/stat")
	return cpuTimes{
		engine:   cpuOf(all, m.engine),
		database: cpuOf(all, m.database),
		self:     time.Duration(self.Utime.Nano() + self.Stime.Nano()),
		busy:     parseBusy(string(stat)),
	}
}

// stop ends the measurement.
func (m *meter) stop() usage {
	close(m.done)
	m.sampler.Wait()
	after := m.read()
	u := usage{
		cpu: cpuTimes{
			engine:   after.engine - m.before.engine,
			database: after.database - m.before.database,
			self:     after.self - m.before.self,
			busy:     after.busy - m.before.busy,
		},
		engineBytes: m.peakEngine,
		dbBytes:     m.peakDatabase,
	}
	rest := u.cpu.busy - u.cpu.engine - u.cpu.database - u.cpu.self
	u.others = max(0, rest.Seconds()/time.Since(m.began).Seconds())
	return u
}

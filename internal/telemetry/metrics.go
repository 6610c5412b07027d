// Package telemetry holds the metrics of a running engine, in one registry, and
// the names of its log lines. Every metric begins with posthaste_.
package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Metrics are the engine's metrics. Make them with [NewMetrics]; each engine in
// a process has its own.
type Metrics struct {
	Registry *prometheus.Registry

	Accepted       *prometheus.CounterVec // by result: stored, duplicate, mismatch
	Refused        *prometheus.CounterVec // by reason: overloaded, unavailable
	AcceptBatch    prometheus.Histogram   // events a commit
	AcceptSeconds  prometheus.Histogram   // of the commit
	Inbound        *prometheus.CounterVec // requests to sources by provider and result
	InboundSeconds prometheus.Histogram   // of a delivery that was stored, from its headers to its answer
	Spilled        prometheus.Counter     // fresh deliveries born due because their lane had no room
	Attempts       *prometheus.CounterVec // by outcome and cause
	AttemptSeconds prometheus.Histogram
	LocalFailures  *prometheus.CounterVec // attempts that failed for lack of something on this server, by what
	Finished       *prometheus.CounterVec // deliveries by state and reason
	SettleBatch    prometheus.Histogram
	SettleSeconds  prometheus.Histogram
	Unrecordable   *prometheus.CounterVec // outcomes that the database refused for what is in them, by result
	StoreRefused   *prometheus.CounterVec // statements that the database refused whatever is in them, by what they were for
	Late           prometheus.Counter     // pending deliveries that a late success ended
	Claimed        prometheus.Counter
	GivenBack      *prometheus.CounterVec // leases given back unstarted, by reason
	Lost           *prometheus.CounterVec // leases revoked, by who noticed: reclaim, low_water, audit, reconcile, shutdown
	Rewinds        prometheus.Counter     // times that the database turned out to be another one, or to have gone back
	PulledBack     prometheus.Counter     // deliveries that waited for a time that a wrong clock gave them
	Repaired       prometheus.Counter     // pending deliveries that only the reconciler found
	Epochs         prometheus.Counter     // epochs taken: 1, and one more for each time this replica was reclaimed
	BeatFailures   prometheus.Counter
	Purged         *prometheus.CounterVec // by what: partition, event, key, dead

	BreakerMoves    *prometheus.CounterVec // by from_state and to_state
	GateChangesLost prometheus.Counter     // changes of gates that were not written
	GatesPassedBy   prometheus.Counter     // claims that went round a gate whose row was locked
	Unannounced     prometheus.Counter     // operational events that were not accepted

	InFlight    prometheus.Gauge
	Waiting     prometheus.Gauge
	Uncommitted prometheus.Gauge
	Unrecorded  prometheus.Gauge
	DueReady    prometheus.Gauge // endpoints with work that is due now
	Leader      prometheus.Gauge

	HandlersAbandoned prometheus.Gauge
}

// NewMetrics makes the metrics in a registry of their own, beside those of the
// Go runtime and the process.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := factory{r}
	seconds := prometheus.ExponentialBuckets(0.0005, 2, 16) // 0.5 ms … 16 s
	batch := prometheus.ExponentialBuckets(1, 2, 11)        // 1 … 1,024
	m := &Metrics{
		Registry:        r,
		Accepted:        f.counters("events_accepted_total", "Events answered with an id, by result.", "result"),
		Refused:         f.counters("events_refused_total", "Events not accepted, by reason.", "reason"),
		AcceptBatch:     f.histogram("accept_batch_events", "Events in one commit.", batch),
		AcceptSeconds:   f.histogram("accept_commit_seconds", "Duration of an accepting commit.", seconds),
		Inbound:         f.counters("inbound_requests_total", "Requests to sources, by provider and what became of them.", "provider", "result"),
		InboundSeconds:  f.histogram("inbound_stored_seconds", "Duration of a request that brought a delivery, from its headers to its answer.", seconds),
		Spilled:         f.counter("deliveries_spilled_total", "Fresh deliveries that were born due because their lane had no room."),
		Attempts:        f.counters("attempts_total", "Attempts that ended, by outcome and cause.", "outcome", "cause"),
		LocalFailures:   f.counters("local_failures_total", "Attempts that failed for lack of something on this server, by what was lacking.", "lacking"),
		AttemptSeconds:  f.histogram("attempt_seconds", "Duration of an attempt, from dialling to the end of the response.", seconds),
		Finished:        f.counters("deliveries_finished_total", "Deliveries that reached a terminal state, by state and reason.", "state", "reason"),
		SettleBatch:     f.histogram("settle_batch_outcomes", "Outcomes in one commit.", batch),
		SettleSeconds:   f.histogram("settle_commit_seconds", "Duration of a settling commit.", seconds),
		Unrecordable:    f.counters("outcomes_unrecordable_total", "Outcomes that the database refused for what is in them: stored without the receiver's answer (stripped), or waiting to be tried again (set_aside).", "result"),
		StoreRefused:    f.counters("store_refused_total", "Statements that the database refused for a reason that a person has to repair, such as a missing right.", "statement"),
		Late:            f.counter("deliveries_late_success_total", "Pending deliveries that the late success of a lost attempt ended."),
		Claimed:         f.counter("deliveries_claimed_total", "Deliveries leased from the due table."),
		GivenBack:       f.counters("leases_given_back_total", "Leases given back unstarted, by reason.", "reason"),
		Lost:            f.counters("leases_lost_total", "Leases revoked, their attempt recorded as lost, by who noticed.", "noticed_by"),
		Rewinds:         f.counter("database_rewinds_total", "Times that the database turned out to be another one, or to have gone back in time: a failover, or a restored backup."),
		PulledBack:      f.counter("deliveries_pulled_back_total", "Deliveries that waited for a time that a wrong clock gave them."),
		Repaired:        f.counter("deliveries_repaired_total", "Pending deliveries that only the reconciler found; zero in a healthy system."),
		Epochs:          f.counter("epochs_total", "Epochs taken: one at start, one more for each time others took this replica for dead."),
		BeatFailures:    f.counter("beat_failures_total", "Heartbeats that failed."),
		Purged:          f.counters("purged_total", "What retention deleted.", "what"),
		BreakerMoves:    f.counters("breaker_transitions_total", "Moves of endpoints' circuit breakers that this replica made.", "from_state", "to_state"),
		GateChangesLost: f.counter("gate_changes_lost_total", "Changes of gates that were not written: the row was locked, or the database away."),
		GatesPassedBy:   f.counter("gates_passed_by_total", "Claims that went round a gate because somebody else held its row."),
		Unannounced:     f.counter("announcements_lost_total", "Operational events that were not accepted."),
		InFlight:        f.gauge("attempts_in_flight", "Attempts under way."),
		Waiting:         f.gauge("lane_waiting", "Leased deliveries waiting in a lane."),
		Uncommitted:     f.gauge("events_uncommitted", "Events waiting for their commit."),
		Unrecorded:      f.gauge("outcomes_unrecorded", "Finished attempts whose outcome is not committed yet."),
		DueReady:        f.gauge("due_endpoints", "Endpoints known to have work that is due now."),
		Leader:          f.gauge("leader", "1 on the replica that does the chores."),

		HandlersAbandoned: f.gauge("handlers_abandoned", "Calls of handlers that were left behind after their timeout and have not returned."),
	}
	// Zero from the start: a series that is born at 1 has no rate to alert on.
	for counter, values := range map[*prometheus.CounterVec][]string{
		m.Accepted:      {"stored", "duplicate", "mismatch"},
		m.Refused:       {"overloaded", "unavailable"},
		m.Unrecordable:  {"stripped", "set_aside"},
		m.StoreRefused:  {"accept", "settle"},
		m.Lost:          {"register", "reclaim", "low_water", "audit", "reconcile", "shutdown"},
		m.LocalFailures: {"file descriptors", "memory", "local addresses or ports", "permission to connect", "a working DNS resolver"},
		m.Purged:        {"partition", "event", "key", "dead"},
	} {
		for _, value := range values {
			counter.WithLabelValues(value)
		}
	}
	return m
}

// factory registers metrics under the common prefix.
type factory struct{ r *prometheus.Registry }

const namespace = "posthaste"

func (f factory) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
	f.r.MustRegister(c)
	return c
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	f.r.MustRegister(c)
	return c
}

func (f factory) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help})
	f.r.MustRegister(g)
	return g
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	f.r.MustRegister(g)
	return g
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
	f.r.MustRegister(h)
	return h
}

package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outbox are the metrics of the relays of outboxes, each with a label outbox: its
// database's name.
type Outbox struct {
	Relayed      *prometheus.CounterVec
	Parked       *prometheus.CounterVec
	RowsWaiting  *prometheus.GaugeVec
	RowsParked   *prometheus.GaugeVec
	OldestWaited *prometheus.GaugeVec
}

// OutboxCounts are what was counted in an outbox.
type OutboxCounts struct {
	Waiting, Parked int
	OldestAt        time.Time // zero: no row waits
}

// NewOutbox makes the metrics in the registry of others.
func NewOutbox(m *Metrics) *Outbox {
	f := factory{m.Registry}
	return &Outbox{
		Relayed:      f.counters("outbox_rows_relayed_total", "Rows of an outbox whose events were accepted.", "outbox"),
		Parked:       f.counters("outbox_rows_parked_total", "Rows of an outbox that could not be accepted and were put aside.", "outbox"),
		RowsWaiting:  f.gauges("outbox_rows_waiting", "Rows that wait in an outbox, counted up to 100,000.", "outbox"),
		RowsParked:   f.gauges("outbox_rows_parked", "Rows of an outbox that are put aside now.", "outbox"),
		OldestWaited: f.gauges("outbox_oldest_row_seconds", "Age of the oldest row that waits in an outbox; 0 if none does.", "outbox"),
	}
}

// Count sets the gauges of an outbox.
func (o *Outbox) Count(outbox string, c OutboxCounts) {
	o.RowsWaiting.WithLabelValues(outbox).Set(float64(c.Waiting))
	o.RowsParked.WithLabelValues(outbox).Set(float64(c.Parked))
	age := time.Duration(0)
	if !c.OldestAt.IsZero() {
		age = max(0, time.Since(c.OldestAt))
	}
	o.OldestWaited.WithLabelValues(outbox).Set(age.Seconds())
}

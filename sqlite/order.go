package sqlite

import (
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

const (
	// positionStep is how far apart positions are at least: a delivery that keeps its
	// place moves up by a microsecond each time.
	positionStep = time.Millisecond

	// positionReach is how far ahead of the clock a row counts as a position. Those
	// beyond are retries from before the endpoint was ordered.
	positionReach = time.Hour
)

const sqlLastPosition = `SELECT due_at FROM due WHERE endpoint = ?1 AND due_at <= ?2 ORDER BY due_at DESC, delivery DESC LIMIT 1`

// nextPosition returns the end of the order of an ordered endpoint. There is one
// writer, so that the order is the one in which transactions are committed.
func (c *conn) nextPosition(endpoint store.EndpointNo, now time.Time) (time.Time, error) {
	last := time.Time{}
	_, err := c.get(sqlLastPosition, func(r row) { last = r.at(0) }, endpoint, now.Add(positionReach))
	if next := last.Add(positionStep); !last.IsZero() && next.After(now) {
		return next, err
	}
	return now, err
}

const sqlIsOrdered = `SELECT json_extract(definition, '$.ordered') = 'endpoint' FROM endpoints WHERE no = ?1`

// isOrdered reports whether an endpoint is ordered at this moment of the transaction.
func (c *conn) isOrdered(endpoint store.EndpointNo) (ordered bool, err error) {
	_, err = c.get(sqlIsOrdered, func(r row) { ordered = r.ColumnInt(0) == 1 }, endpoint)
	return ordered, err
}

package sqlite

import (
	"context"
	"time"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// tombstoneCursor is a place in the order of deleted endpoints.
type tombstoneCursor struct {
	at int64
	no store.EndpointNo
}

// A tombstone goes when no delivery names it any more. Nothing new can: its deletion is
// long past, and every statement that makes a delivery looks at the routing. The newest
// change of a living tenant stays, since memory names it as the state it is at.
const (
	sqlTombstones = `SELECT deleted_at, no,
  EXISTS (SELECT 1 FROM deliveries d WHERE d.endpoint = p.no) OR EXISTS (SELECT 1 FROM due u WHERE u.endpoint = p.no)
  OR EXISTS (SELECT 1 FROM tenants t WHERE t.no = p.tenant AND t.deleted_at = 0 AND t.routing_version = p.routing_version)
FROM endpoints p WHERE deleted_at <> 0 AND deleted_at < ?1 AND (deleted_at, no) > (?2, ?3) ORDER BY deleted_at, no LIMIT ?4`
	sqlPurgeSecrets  = `DELETE FROM endpoint_secrets WHERE endpoint = ?1`
	sqlPurgeVersions = `DELETE FROM endpoint_versions WHERE endpoint = ?1`
	sqlPurgeEndpoint = `DELETE FROM endpoints WHERE no = ?1 AND deleted_at <> 0 AND NOT EXISTS (SELECT 1 FROM deliveries WHERE endpoint = ?1)`
)

// purgeTombstones goes on with the round over deleted endpoints, a step a call. It looks
// for them without the writer.
func (db *DB) purgeTombstones(ctx context.Context, before time.Time, limit int) (gone int, more bool, err error) {
	next, looked := db.rounds.tombstones, 0
	var free []store.EndpointNo
	err = db.readOn(ctx, db.chores, "look for deleted endpoints that nothing names", func(c *conn) error {
		free, next, looked = nil, db.rounds.tombstones, 0
		for r, err := range c.rows(sqlTombstones, before, next.at, next.no, limit) {
			if err != nil {
				return err
			}
			looked++
			if next = (tombstoneCursor{r.ColumnInt64(0), r.endpoint(1)}); !r.ColumnBool(2) {
				free = append(free, next.no)
			}
		}
		return nil
	})
	if err != nil {
		return 0, false, err
	}
	if len(free) > 0 {
		err = db.write(ctx, "purge deleted endpoints", func(c *conn) error {
			gone = 0
			for _, no := range free {
				n, err := c.exec(sqlPurgeEndpoint, no)
				if err != nil {
					return err
				}
				if n == 0 {
					continue
				}
				gone++
				for _, query := range []string{sqlPurgeSecrets, sqlPurgeVersions} {
					if _, err := c.exec(query, no); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return 0, false, err
		}
	}
	if more = looked == limit; !more {
		next = tombstoneCursor{}
	}
	db.rounds.tombstones = next
	return gone, more, nil
}

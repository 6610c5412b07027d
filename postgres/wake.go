package postgres

import (
	"context"
	"strconv"
	"strings"

	"github.com/posthaste-dev/posthaste/internal/store"
)

// wakeChannel is where hints of due work travel. A hint is the sender's tag, a
// colon, and numbers of endpoints with commas between them.
const (
	wakeChannel = "posthaste_due"
	wakeSQL     = `select pg_notify('` + wakeChannel + `', hint) from unnest($1::text[]) hint`
	listenSQL   = `listen ` + wakeChannel

	maxHintBytes = 7900 // PostgreSQL takes payloads of less than 8,000
)

// Wake implements store.Replicas.
func (db *DB) Wake(ctx context.Context, endpoints []store.EndpointNo) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	hints := textColumn(1)
	hint := []byte(db.tag + ":")
	start := len(hint)
	for _, no := range endpoints {
		if len(hint) > start {
			hint = append(hint, ',')
		}
		hint = strconv.AppendInt(hint, int64(no), 10)
		if len(hint) > maxHintBytes-16 {
			hints.text(string(hint))
			hint = hint[:start]
		}
	}
	if len(hint) > start || hints.n == 0 {
		hints.text(string(hint))
	}
	if _, err := db.lookups.Exec(ctx, wakeSQL, hints); err != nil {
		return fail("wake the other replicas", err)
	}
	return nil
}

// Listen implements store.Replicas, on the replica's direct connection: one that a pool
// could close, or a pooler could hand to somebody else, would hear nothing.
func (db *DB) Listen(ctx context.Context, woken func([]store.EndpointNo)) error {
	err := db.direct.listen(ctx, func() {
		woken(nil) // what was said before we listened
	}, func(hint string) {
		if endpoints, theirs := db.readHint(hint); theirs {
			woken(endpoints)
		}
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it was told to end
	}
	return fail("listen for other replicas", err)
}

// readHint returns the endpoints that a hint names, and whether it is of another
// process. What it can't read, it leaves out: a hint may be lost.
func (db *DB) readHint(hint string) (endpoints []store.EndpointNo, theirs bool) {
	tag, list, ok := strings.Cut(hint, ":")
	if !ok || tag == db.tag {
		return nil, false
	}
	for s := range strings.SplitSeq(list, ",") {
		if no, err := strconv.ParseInt(s, 10, 32); err == nil {
			endpoints = append(endpoints, store.EndpointNo(no))
		}
	}
	return endpoints, true
}

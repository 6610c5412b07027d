//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/outbox"
)

// What an application pays for an event in its outbox, beside a bare INSERT of the same
// columns into a table of its own, without checks and functions: one statement for each row, prepared, some hundred rows
// a transaction, so that the commit hides nothing; and all rows in one statement.
const (
	enqueueRounds = 7
	enqueueRows   = 500
	enqueueTimes  = 8 // transactions in one round

	enqueueDatabase = "bench_enqueue"
	bareTable       = `create table bare (id bigint generated always as identity primary key, row_id uuid not null default gen_random_uuid(),
		enqueued_at timestamptz not null default now(), tenant text not null default 'default', type text not null,
		content_type text not null default 'application/json', headers jsonb not null default '{}', payload bytea not null)`
	bareInsert    = `insert into bare (type, payload) values ($1, $2) returning row_id`
	bareInsertAll = `insert into bare (type, payload) select * from unnest($1::text[], $2::bytea[]) returning row_id`

	// enqueueBudget is how much more an event may cost than a bare INSERT.
	enqueueBudget = 1.5
	// relayBudget is the PostgreSQL CPU time of relaying and accepting a row. What is measured
	// holds the recording of its delivery, too.
	relayBudget = 60 * time.Microsecond
)

// enqueueCost is one way to write rows.
type enqueueCost struct {
	name     string
	baseline string // the way that it is compared with; "" for a baseline
	write    func(ctx context.Context, tx pgx.Tx, payloads [][]byte) error
}

func enqueueCosts() []enqueueCost {
	events := func(payloads [][]byte) []outbox.Event {
		out := make([]outbox.Event, len(payloads))
		for i, p := range payloads {
			out[i] = outbox.Event{Type: "bench.event", Payload: p}
		}
		return out
	}
	return []enqueueCost{
		{name: "bare INSERT", write: func(ctx context.Context, tx pgx.Tx, payloads [][]byte) error {
			for _, p := range payloads {
				var id [16]byte
				if err := tx.QueryRow(ctx, bareInsert, "bench.event", p).Scan(&id); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "outbox.Enqueue", baseline: "bare INSERT", write: func(ctx context.Context, tx pgx.Tx, payloads [][]byte) error {
			for _, e := range events(payloads) {
				if _, err := outbox.Enqueue(ctx, tx, e); err != nil {
					return err
				}
			}
			return nil
		}},
		{name: "bare INSERT, 500 rows a statement", write: func(ctx context.Context, tx pgx.Tx, payloads [][]byte) error {
			types := slices.Repeat([]string{"bench.event"}, len(payloads))
			rows, err := tx.Query(ctx, bareInsertAll, types, payloads)
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowTo[[16]byte])
			return err
		}},
		{name: "outbox.EnqueueAll, 500 rows", baseline: "bare INSERT, 500 rows a statement", write: func(ctx context.Context, tx pgx.Tx, payloads [][]byte) error {
			_, err := outbox.EnqueueAll(ctx, tx, events(payloads))
			return err
		}},
	}
}

// measureEnqueue measures each way in turn, and makes a table of the costs and ratios. It
// returns how many budgets were missed.
func (b *bench) measureEnqueue(ctx context.Context, results []result) (text string, missed int, err error) {
	if err := b.server.recreate(ctx, enqueueDatabase); err != nil {
		return "", 0, err
	}
	address, err := b.server.databaseURL(enqueueDatabase)
	if err != nil {
		return "", 0, err
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return "", 0, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // all has been answered
	if _, err := conn.PgConn().Exec(ctx, outbox.PostgresSQL()+bareTable).ReadAll(); err != nil {
		return "", 0, fmt.Errorf("make the tables: %w", err)
	}
	costs := enqueueCosts()
	wall, cpu := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := range enqueueRounds {
		for _, c := range costs {
			took, used, err := b.writeRows(ctx, conn, c)
			if err != nil {
				return "", 0, fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 { // the first one prepares statements and fills caches
				wall[c.name], cpu[c.name] = append(wall[c.name], took), append(cpu[c.name], used)
			}
		}
	}
	var table [][]string
	for _, c := range costs {
		took, used := medianOf(wall[c.name]), medianOf(cpu[c.name])
		row := []string{c.name, micros(took), micros(used), "", ""}
		if c.baseline != "" {
			ratio := float64(took) / float64(medianOf(wall[c.baseline]))
			row[3], row[4] = figure(ratio), "met"
			if ratio > enqueueBudget {
				row[4], missed = "**missed**", missed+1
			}
		}
		table = append(table, row)
	}
	relayed, over := relayCosts(results, medianOf(cpu[costs[len(costs)-1].name]))
	return fmt.Sprintf("\nWhat an application pays for a row of 1 KiB, %d rows a transaction, median of %d rounds (budget: %.1f × a bare INSERT)\n\n%s%s",
		enqueueRows, enqueueRounds-1, enqueueBudget,
		markdownTable([]string{"way", "µs a row", "µs PostgreSQL CPU a row", "over the bare INSERT", ""}, table), relayed), missed + over, nil
}

// relayCosts is what PostgreSQL spends on a row after it was enqueued, by the medians of the runs.
func relayCosts(results []result, enqueue time.Duration) (text string, missed int) {
	used := map[string][]time.Duration{}
	for _, r := range results {
		if r.err == "" && strings.Contains(r.engine, outboxSuffix) {
			used[r.engine] = append(used[r.engine], r.perEvent.database)
		}
	}
	var table [][]string
	for _, engine := range slices.Sorted(maps.Keys(used)) {
		all := medianOf(used[engine])
		row := []string{engine, micros(all), micros(enqueue), micros(all - enqueue), "met"}
		if all-enqueue > relayBudget {
			row[4], missed = "**missed**", missed+1
		}
		table = append(table, row)
	}
	if table == nil {
		return "", 0
	}
	return "\nµs PostgreSQL CPU a row: in all, to enqueue it, and the rest: relay, accept and record (budget of relay and accept: 60)\n\n" +
		markdownTable([]string{"engine", "in all", "enqueue", "the rest", ""}, table), missed
}

// writeRows returns what a row costs: time, and CPU time of the server. CPU is counted in
// hundredths of a second, so a round has to have some thousand rows.
func (b *bench) writeRows(ctx context.Context, conn *pgx.Conn, c enqueueCost) (took, used time.Duration, err error) {
	rec := newRecorder("enqueue", enqueueRows, newStopwatch())
	payloads := make([][]byte, enqueueRows)
	for i := range payloads {
		payloads[i] = rec.appendPayload(nil, i)
	}
	before := cpuOf(processes(), []int{b.server.PID()})
	for range enqueueTimes {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			began := time.Now()
			err := c.write(ctx, tx, payloads)
			took += time.Since(began) // without the commit, which costs each way the same
			return err
		})
		if err != nil {
			return 0, 0, err
		}
	}
	used = cpuOf(processes(), []int{b.server.PID()}) - before
	const rows = enqueueTimes * enqueueRows
	return took / rows, used / rows, nil
}

func medianOf(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func micros(d time.Duration) string {
	return strings.TrimSuffix(figure(float64(d)/float64(time.Microsecond)), ".0")
}

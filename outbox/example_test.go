package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/posthaste-dev/posthaste/outbox"
)

// markPaid marks an invoice as paid and tells of it: both are committed, or neither is.
func markPaid(ctx context.Context, conn *pgx.Conn, invoice int) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `update invoices set paid = true where id = $1`, invoice); err != nil {
			return err
		}
		_, err := outbox.Enqueue(ctx, tx, outbox.Event{Type: "invoice.paid", Payload: fmt.Appendf(nil, `{"invoice":%d}`, invoice)})
		return err
	})
}

// The event and the change are committed together, or neither is.
func ExampleEnqueue() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	if err := markPaid(ctx, conn, 42); err != nil {
		log.Fatal(err)
	}
}

// placeOrders writes orders of a customer and an event of each, with database/sql.
func placeOrders(ctx context.Context, db *sql.DB, customer int, orders ...int) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // nothing, after the commit
	var events []outbox.Event
	for _, order := range orders {
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (?, ?)`, order, customer); err != nil {
			return err
		}
		events = append(events, outbox.Event{
			Type: "order.placed", Payload: fmt.Appendf(nil, `{"order":%d}`, order), OrderKey: fmt.Sprint("customer-", customer),
		})
	}
	if _, err := outbox.EnqueueAll(ctx, tx, events); err != nil {
		return err
	}
	return tx.Commit()
}

// With database/sql, here on SQLite, and many events at once.
func ExampleEnqueueAll() {
	ctx := context.Background()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	db.SetMaxOpenConns(1) // each connection has a memory of its own
	if _, err := db.ExecContext(ctx, outbox.SQLiteSQL()+`; CREATE TABLE orders (id INTEGER, customer INTEGER)`); err != nil {
		log.Fatal(err)
	}
	if err := placeOrders(ctx, db, 7, 1, 2, 3); err != nil {
		log.Fatal(err)
	}
	var waiting int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM posthaste_outbox`).Scan(&waiting); err != nil {
		log.Fatal(err)
	}
	fmt.Println(waiting, "events wait for the relay")
	// Output: 3 events wait for the relay
}

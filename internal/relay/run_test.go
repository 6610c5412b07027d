package relay

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
)

// broken is an outbox that can be connected to and no more.
type broken struct {
	box
	connects int
}

func (b *broken) connect(context.Context) error { b.connects++; return nil }
func (b *broken) close(context.Context)         {}
func (b *broken) claim(context.Context, claimParams) (claim, error) {
	return nil, errors.New("permission denied for table outbox")
}

func TestARelayThatMayNotClaimDoesNotSpin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	b := &broken{}
	r := &Relay{box: b, log: slog.New(slog.DiscardHandler), cfg: Config{Grace: time.Second}}
	r.Run(ctx)
	if b.connects > 12 {
		t.Errorf("connected %d times within two seconds", b.connects)
	}
}

// silent is a PostgreSQL server that lets a session begin and then says nothing more.
func silent(t *testing.T) *pgx.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b := pgproto3.NewBackend(c, c)
		if _, err := b.ReceiveStartupMessage(); err != nil {
			return
		}
		b.Send(&pgproto3.AuthenticationOk{})
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		_ = b.Flush()
		<-t.Context().Done()
		_ = c.Close()
	}()
	conn, err := pgx.Connect(t.Context(), "postgres://app@"+l.Addr().String()+"/app?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// An engine that stops waits for its relays before it delivers to an end: a database that
// does not answer any more must not use up the grace.
func TestLeavingADatabaseThatIsSilent(t *testing.T) {
	for name, leave := range map[string]func(*postgresBox, context.Context){
		"as it closes":       func(b *postgresBox, ctx context.Context) { b.close(ctx) },
		"as it falls asleep": func(b *postgresBox, ctx context.Context) { _ = b.sleep(ctx) },
		"as it wakes":        func(b *postgresBox, ctx context.Context) { _ = b.awake(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			left := make(chan struct{})
			b := &postgresBox{conn: silent(t)}
			go func() { leave(b, ctx); close(left) }()
			select {
			case <-left:
			case <-time.After(8 * time.Second):
				t.Error("it waits for the database")
			}
		})
	}
}

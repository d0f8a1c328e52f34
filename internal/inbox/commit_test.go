package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// cutter cuts a connection around the message that carries COMMIT, as often as it is armed.
type cutter struct {
	before, after atomic.Int32
	alone         atomic.Int32 // after the COMMIT of a delivery that is decided alone
}

func (c *cutter) edit(config *pgxpool.Config) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &cutConn{Conn: conn, cutter: c}, err
	}
}

type cutConn struct {
	net.Conn
	cutter *cutter
	deaf   bool
}

var errCut = errors.New("connection cut by the test")

func (c *cutConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("commit\x00")) && take(&c.cutter.alone) {
		c.deaf = true
	}
	if !bytes.Contains(p, []byte("webhook_delivery")) { // a claim's resource: the batch itself
		return c.Conn.Write(p)
	}
	switch {
	case take(&c.cutter.before):
		c.Conn.Close()
		return 0, errCut
	case take(&c.cutter.after):
		c.deaf = true
	}
	return c.Conn.Write(p)
}

// Read of a deaf connection waits for the server's answer, which is after the commit, and loses it.
func (c *cutConn) Read(p []byte) (int, error) {
	if c.deaf {
		answer := make([]byte, 64<<10)
		var got []byte
		for !bytes.Contains(got, []byte("COMMIT\x00")) {
			n, err := c.Conn.Read(answer)
			if err != nil {
				return 0, err
			}
			got = append(got, answer[:n]...)
		}
		c.Conn.Close()
		return 0, errCut
	}
	return c.Conn.Read(p)
}

func take(n *atomic.Int32) bool {
	for {
		left := n.Load()
		if left == 0 {
			return false
		}
		if n.CompareAndSwap(left, left-1) {
			return true
		}
	}
}

func TestUncertainCommit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		arm  func(*cutter)
	}{
		{"cut before the server got it", func(c *cutter) { c.before.Store(1) }},
		{"cut after the server committed", func(c *cutter) { c.after.Store(1) }},
		{"cut again when settled alone", func(c *cutter) { c.after.Store(3) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &cutter{}
			w := newWorld(t, defaults, c.edit)
			w.wantEndings(w.settle(w.request(w.item("0", "a"))), accepted)
			tt.arm(c)
			// A repeat within the request must not be taken for the row's own owner when it is settled alone.
			w.wantEndings(w.settle(w.request(w.item("1", "a"), w.item("2", "a"))), accepted, accepted)
			if c.before.Load() != 0 || c.after.Load() != 0 {
				t.Error("the connection was not cut as often as planned")
			}
			w.wantRows(3, 3, 0)
		})
	}
}

// The claim that it took over was another worker's. The one that it meets again is its own.
func TestUncertainCommitOfReclaimedKey(t *testing.T) {
	t.Parallel()
	c := &cutter{}
	w := newWorld(t, defaults, c.edit)
	err := pgx.BeginFunc(context.Background(), w.pool, func(tx pgx.Tx) error {
		w.claim(tx, "1", "processing", "-1 s", "1 day")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	c.alone.Store(1)
	w.wantEndings(w.settle(w.request(w.item("1", "a"))), accepted)
	if c.alone.Load() != 0 {
		t.Error("the connection was not cut")
	}
	w.wantRows(1, 1, 0)
}

func TestBackendKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	w.settle(w.request(w.item("0", "a")))
	unlock := w.lock("1")
	ended := w.begin(w.request(w.item("1", "a"), w.item("2", "a")))
	w.await(`SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	w.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
	unlock()
	w.wantEndings(<-ended, accepted, accepted)
	w.wantRows(3, 3, 0)
}

// aborting is a connection on which every COMMIT is an ABORT, which PostgreSQL answers with ROLLBACK, as it answers the
// COMMIT of a transaction that has failed.
type aborting struct{ net.Conn }

func (c aborting) Write(p []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(p, []byte("\x00COMMIT\x00"), []byte("\x00ABORT \x00")))
}

func TestRolledBackCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults, func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return aborting{conn}, err
		}
	})
	work := w.request(w.item("1", "a"))
	work.Deadline = time.Now().Add(300 * time.Millisecond)
	w.wantEndings(w.settle(work), failed)
	w.wantRows(0, 0, 0)
}

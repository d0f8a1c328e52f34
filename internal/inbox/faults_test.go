package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/providers"
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

// lock claims a key in a transaction that stays open until unlock, which rolls it back.
func (w *world) lock(vendorID string) (unlock func()) {
	w.t.Helper()
	ctx := context.Background()
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	w.claim(tx, vendorID, "processing", "30 s", "1 day")
	var done atomic.Bool
	unlock = func() {
		if done.CompareAndSwap(false, true) {
			_ = tx.Rollback(ctx)
		}
	}
	w.t.Cleanup(unlock)
	return unlock
}

// claim inserts a key as another writer would have left it.
func (w *world) claim(tx pgx.Tx, vendorID, status, lease, retain string) {
	w.t.Helper()
	_, err := tx.Exec(context.Background(), `
		INSERT INTO agent.idempotency_keys (id, organization_id, scope, key, request_hash, status, lease_token, resource_type, resource_id,
		                                    claimed_at, lease_expires_at, retain_until)
		VALUES ($1, $2, 'webhook.slack', $3, $4, $5, $1, 'other', 'x', now(), now() + $6::text::interval, now() + $7::text::interval)`,
		uuid.New(), w.org, w.job.String()+"/"+vendorID, w.item("", "a").Hash, status, lease, retain)
	if err != nil {
		w.t.Fatal(err)
	}
}

// begin settles without waiting for the endings.
func (w *world) begin(works ...*providers.Work) <-chan []string {
	ended := make(chan []string, 1)
	go func() { ended <- w.settle(works...) }()
	return ended
}

// await waits until a query answers true.
func (w *world) await(sql string) {
	w.t.Helper()
	for range 2000 {
		var is bool
		if err := w.pool.QueryRow(context.Background(), sql).Scan(&is); err != nil {
			w.t.Fatal(err)
		}
		if is {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
	w.t.Fatalf("never true: %s", sql)
}

func TestLockedKeyAlone(t *testing.T) {
	t.Parallel()
	const waits = `SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

	t.Run("the holder rolls back", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, defaults)
		unlock := w.lock("1")
		ended := w.begin(w.request(w.item("1", "a")), w.request(w.item("2", "a")))
		w.await(`SELECT count(*) = 1 FROM agent.webhook_deliveries`) // the neighbour, meanwhile
		unlock()
		w.wantEndings(<-ended, accepted, accepted)
		w.wantRows(2, 2, 0)
	})
	t.Run("the holder commits", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, defaults)
		tx, err := w.pool.Begin(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		w.claim(tx, "1", "completed", "30 s", "1 day")
		ended := w.begin(w.request(w.item("1", "a"), w.item("2", "a")))
		w.await(waits)
		if err := tx.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
		w.wantEndings(<-ended, duplicate, accepted)
	})
	t.Run("the holder stays", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, defaults)
		unlock := w.lock("1")
		work := w.request(w.item("1", "a"), w.item("2", "a"))
		work.Deadline = time.Now().Add(700 * time.Millisecond)
		w.wantEndings(w.settle(work), failed, accepted)
		unlock()
		w.wantEndings(w.settle(w.request(w.item("1", "a"))), accepted)
		w.wantRows(2, 2, 0)
	})
}

func TestUnsettledDecidedAlone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                  string
		status, lease, retain string
		content, want         string
	}{
		{"a live lease", "processing", "30 s", "1 day", "a", duplicate},
		{"a live lease, other content", "processing", "30 s", "1 day", "b", mismatch},
		{"a lease that passed", "processing", "-1 s", "1 day", "a", accepted},
		{"a lease that passed, other content", "processing", "-1 s", "1 day", "b", mismatch},
		{"completed", "completed", "-1 s", "1 day", "a", duplicate},
		{"past its retention", "completed", "-1 s", "-1 s", "a", accepted},
		{"past its retention, other content", "completed", "-1 s", "-1 s", "b", accepted},
		{"past its retention and never completed", "processing", "-1 s", "-1 s", "b", accepted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, defaults)
			err := pgx.BeginFunc(context.Background(), w.pool, func(tx pgx.Tx) error {
				w.claim(tx, "1", tt.status, tt.lease, tt.retain)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			w.wantEndings(w.settle(w.request(w.item("0", "a"), w.item("1", tt.content))), accepted, tt.want)
			rows := 1
			if tt.want == accepted {
				rows = 2
			}
			if n := w.count(`SELECT count(*) FROM agent.webhook_deliveries`); n != rows {
				t.Errorf("%d inbox rows, want %d", n, rows)
			}
			if tt.want == accepted {
				if n := w.count(`SELECT count(*) FROM agent.idempotency_keys k JOIN agent.webhook_deliveries d
				                   ON k.key = d.delivery_key AND k.resource_id = d.id::text AND k.status = 'completed'
				                  WHERE k.resource_type = 'webhook_delivery'`); n != 2 {
					t.Errorf("%d keys answer for their inbox row, want 2", n)
				}
			}
		})
	}
}

func TestTwoInboxesOneOwner(t *testing.T) {
	t.Parallel()
	one := newWorld(t, defaults)
	two := worldOn(t, one.pool.Config().ConnString(), defaults)
	two.org, two.job = one.org, one.job
	const keys = 300
	var works [2][]*providers.Work
	for i := range keys {
		works[0] = append(works[0], one.request(one.item(fmt.Sprint(i), "a"), one.item(fmt.Sprint(keys-i), "a")))
		works[1] = append(works[1], two.request(two.item(fmt.Sprint(keys-i), "a"), two.item(fmt.Sprint(i), "a")))
	}
	a, b := one.begin(works[0]...), two.begin(works[1]...)
	owners := 0
	for _, end := range append(<-a, <-b...) {
		switch end {
		case accepted:
			owners++
		case duplicate:
		default:
			t.Fatalf("ended as %s", end)
		}
	}
	if owners != keys+1 {
		t.Errorf("%d owners of %d keys", owners, keys+1)
	}
	one.wantRows(keys+1, keys+1, 0)
	if bytes.Contains(one.log.Bytes(), []byte("40P01")) || bytes.Contains(two.log.Bytes(), []byte("40P01")) {
		t.Error("the inboxes deadlocked")
	}
}

func TestQueueBounds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		deliveries int
		bytes      int64
		full       int // works that are taken while nothing ends
	}{
		{"deliveries", 3, 1 << 20, 3},
		{"bytes", 100, 2500, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			options := defaults
			options.QueueDeliveries, options.QueueBytes = tt.deliveries, tt.bytes
			w := newWorld(t, options)
			unlock := w.lock("1")
			ended := make(chan string, 10)
			send := func() error {
				work := w.request(w.item("1", "a"))
				work.Request.Body = make([]byte, 1000)
				return w.box.Settle(work, func(e []providers.Ending) { ended <- say(e[0]) })
			}
			for range tt.full {
				if err := send(); err != nil {
					t.Fatal(err)
				}
			}
			if err := send(); !errors.Is(err, providers.ErrOverloaded) {
				t.Errorf("over the bound: %v, want ErrOverloaded", err)
			}
			if any := tt.deliveries > tt.full; w.box.Full() == any {
				t.Errorf("full is %v, but there is room for a smaller one: %v", w.box.Full(), any)
			}
			unlock()
			for range tt.full {
				if end := <-ended; end == failed {
					t.Error("failed")
				}
			}
			if w.box.Full() {
				t.Error("it is full with nothing in it")
			}
			if err := send(); err != nil {
				t.Errorf("recovery is not immediate: %v", err)
			}
			<-ended
		})
	}
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

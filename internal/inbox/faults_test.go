package inbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/providers"
)

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

package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

// downstream records the requests to an outside system: a mail server, a payment provider.
type downstream struct {
	mu    sync.Mutex
	calls map[string]int
	// hold, if set, blocks the first call; entered is signalled before.
	hold    chan struct{}
	entered chan struct{}
	held    atomic.Bool
}

func newDownstream() *downstream { return &downstream{calls: make(map[string]int)} }

// call makes the effect of a key, and returns the system's id for it.
func (d *downstream) call(key string) string {
	if d.hold != nil && d.held.CompareAndSwap(false, true) {
		close(d.entered)
		<-d.hold
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[key]++
	return fmt.Sprintf("%s#%d", key, d.calls[key])
}

// total returns the number of calls, and of keys.
func (d *downstream) total() (calls, keys int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range d.calls {
		calls += n
	}
	return calls, len(d.calls)
}

// delivered is a row of the inbox as a consumer reads it.
type delivered struct {
	XID          string
	ID           uuid.UUID
	Organization uuid.UUID
	Key          string
	Body         []byte
}

// consumer follows the inbox and makes three effects of each delivery: a row, a mail and a charge. Several of them
// may follow the same inbox.
type consumer struct {
	pool         *pgxpool.Pool
	keys         *idempotency.Service
	organization uuid.UUID // whose deliveries it consumes
	mails        *downstream
	charges      *downstream
}

// newConsumer makes the consumer's own table, in the inbox's database. The table has no constraint that would stop a
// second row.
func newConsumer(t testing.TB, pool *pgxpool.Pool, organization uuid.UUID) *consumer {
	t.Helper()
	_, err := pool.Exec(context.Background(), `CREATE SCHEMA IF NOT EXISTS shop;
		CREATE TABLE IF NOT EXISTS shop.orders (number bigserial, organization uuid, delivery text, bytes integer)`)
	if err != nil {
		t.Fatal(err)
	}
	return &consumer{pool: pool, keys: idempotency.MustService(pool, idempotency.Options{}), organization: organization,
		mails: newDownstream(), charges: newDownstream()}
}

// answers holds what a consumer got for one delivery.
type answers struct {
	Order        int64
	Mail, Charge string
}

const follow = `
SELECT d.xid::text, d.id, d.organization_id, d.delivery_key, d.body
  FROM agent.webhook_deliveries AS d
 WHERE (d.xid, d.id) > ($1::text::xid8, $2::uuid) AND d.xid < pg_snapshot_xmin(pg_current_snapshot()) AND d.organization_id = $3
 ORDER BY d.xid, d.id`

// consume reads the inbox from its beginning, makes every effect, and returns the answers by delivery.
func (c *consumer) consume(t testing.TB) map[string]answers {
	t.Helper()
	rows, err := c.pool.Query(context.Background(), follow, "0", uuid.Nil, c.organization)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[delivered])
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]answers)
	for _, d := range list {
		a, err := c.handle(d)
		if err != nil {
			t.Fatal(err)
		}
		all[d.Key] = a
	}
	return all
}

func (c *consumer) handle(d delivered) (a answers, err error) {
	if a.Order, err = again(func() (int64, error) { return c.order(d) }); err != nil {
		return a, err
	}
	if a.Mail, err = again(func() (string, error) { return c.outside(d, "mail.send", c.mails) }); err != nil {
		return a, err
	}
	a.Charge, err = again(func() (string, error) { return c.outside(d, "charge.create", c.charges) })
	return a, err
}

// again repeats until no other worker holds the key: an orchestrator would come back after a while.
func again[T any](ask func() (T, error)) (T, error) {
	for {
		v, err := ask()
		if !errors.Is(err, idempotency.ErrInFlight) && !errors.Is(err, idempotency.ErrLockTimeout) {
			return v, err
		}
	}
}

func (c *consumer) task(d delivered, tool string) idempotency.Ref {
	scope, err := idempotency.NewScope("tool." + tool)
	if err != nil {
		panic(err)
	}
	key, err := idempotency.NewKey(d.ID.String(), tool)
	if err != nil {
		panic(err)
	}
	return idempotency.Ref{Organization: d.Organization, Scope: scope, Key: key}
}

// order writes the consumer's row, in one transaction with its claim.
func (c *consumer) order(d delivered) (number int64, err error) {
	ctx := context.Background()
	err = pgx.BeginTxFunc(ctx, c.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		t := idempotency.Task[int64]{Ref: c.task(d, "order.write"), Content: idempotency.Content(d.Body), Lease: time.Minute}
		done, err := idempotency.DoTx(ctx, c.keys, tx, t, func(ctx context.Context, _ *idempotency.Claim) (number int64, err error) {
			err = tx.QueryRow(ctx, `INSERT INTO shop.orders (organization, delivery, bytes) VALUES ($1, $2, $3) RETURNING number`,
				d.Organization, d.Key, len(d.Body)).Scan(&number)
			return number, err
		})
		number = done.Value
		return err
	})
	return number, err
}

// outside asks another system for an effect, under a key that is claimed before and completed after.
func (c *consumer) outside(d delivered, tool string, system *downstream) (string, error) {
	t := idempotency.Task[string]{Ref: c.task(d, tool), Content: idempotency.Content(d.Body), Lease: time.Minute}
	done, err := idempotency.Do(context.Background(), c.keys, t, func(_ context.Context, claim *idempotency.Claim) (string, error) {
		return system.call(claim.Ref.Key.String()), nil
	})
	return done.Value, err
}

// effects counts how often each effect was made.
func (c *consumer) effects(t testing.TB) (orders, mails, charges int) {
	t.Helper()
	if err := c.pool.QueryRow(context.Background(), `SELECT count(*) FROM shop.orders WHERE organization = $1`, c.organization).Scan(&orders); err != nil {
		t.Fatal(err)
	}
	mails, _ = c.mails.total()
	charges, _ = c.charges.total()
	return orders, mails, charges
}

// wantEffects checks that each effect was made that often, and that all their keys are completed.
func (c *consumer) wantEffects(t testing.TB, n int) {
	t.Helper()
	if orders, mails, charges := c.effects(t); orders != n || mails != n || charges != n {
		t.Errorf("%d orders, %d mails, %d charges; want %d of each", orders, mails, charges, n)
	}
	var completed, open int
	err := c.pool.QueryRow(context.Background(), `SELECT count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status <> 'completed')
		FROM agent.idempotency_keys WHERE organization_id = $1 AND scope LIKE 'tool.%'`, c.organization).Scan(&completed, &open)
	if err != nil {
		t.Fatal(err)
	}
	if completed != 3*n || open != 0 {
		t.Errorf("%d completed keys and %d open ones, want %d and 0: a key was deleted after its effect, or left behind", completed, open, 3*n)
	}
}

// wantAnswers checks that every consumer got the same answer for every delivery.
func wantAnswers(t testing.TB, n int, each ...map[string]answers) {
	t.Helper()
	for i, got := range each {
		if len(got) != n {
			t.Errorf("consumer %d has answers for %d deliveries, want %d", i+1, len(got), n)
		}
		for key, a := range got {
			if a != each[0][key] || a.Order == 0 || a.Mail == "" || a.Charge == "" {
				t.Errorf("consumer %d got %+v of %s, and the first %+v", i+1, a, key, each[0][key])
			}
		}
	}
}

// together runs several consumers of the same effects at once.
func (c *consumer) together(t testing.TB, n int) []map[string]answers {
	t.Helper()
	each := make([]map[string]answers, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { each[i] = c.consume(t) })
	}
	all.Wait()
	return each
}

// sends sends a capture, and checks that each request is acknowledged.
func sends(t testing.TB, g Target, c *Capture, times int) {
	t.Helper()
	var all sync.WaitGroup
	for range times {
		all.Go(func() {
			a, err := g.Send(context.Background(), c, nil)
			if err != nil || a.Status != 200 || a.Body != "" {
				t.Errorf("%s answered %d %q, %v", c.Name, a.Status, a.Body, err)
			}
		})
	}
	all.Wait()
}

// pick returns the captures with those names.
func pick(t testing.TB, names ...string) []*Capture {
	t.Helper()
	var list []*Capture
	for _, c := range committed(t) {
		for _, name := range names {
			if c.Name == name {
				list = append(list, c)
			}
		}
	}
	if len(list) != len(names) {
		t.Fatalf("%d of the captures %v are there", len(list), names)
	}
	return list
}

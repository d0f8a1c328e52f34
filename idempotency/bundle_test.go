package idempotency_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/pgtest"
)

const lease = 30 * time.Second

// bundle is a test's own database with a Service on it.
type bundle struct {
	*testing.T
	url  string
	pool *pgxpool.Pool
	keys *idempotency.Service
	org  uuid.UUID
}

func setup(t *testing.T) *bundle {
	t.Helper()
	url := pgtest.New(t)
	pool := open(t, url, nil)
	return &bundle{T: t, url: url, pool: pool, keys: idempotency.MustService(pool, idempotency.Options{}), org: uuid.New()}
}

// open opens a pool of 30 connections; change may alter its config.
func open(t testing.TB, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 30
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func (b *bundle) ref(scope, key string) idempotency.Ref {
	b.Helper()
	return idempotency.Ref{Organization: b.org, Scope: mustScope(b, scope), Key: mustKey(b, key)}
}

func mustScope(t testing.TB, name string) idempotency.Scope {
	t.Helper()
	s, err := idempotency.NewScope(name)
	if strings.HasPrefix(name, "webhook.") {
		s, err = idempotency.NewScopeFor(name, 24*time.Hour)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustKey(t testing.TB, parts ...string) idempotency.Key {
	t.Helper()
	k, err := idempotency.NewKey(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func content(text string) idempotency.Fingerprint {
	return idempotency.Content([]byte(`{"content":"` + text + `"}`))
}

func (b *bundle) claim(r idempotency.Ref, f idempotency.Fingerprint) idempotency.Outcome {
	b.Helper()
	return b.claimFor(r, f, lease)
}

func (b *bundle) claimFor(r idempotency.Ref, f idempotency.Fingerprint, lease time.Duration) idempotency.Outcome {
	b.Helper()
	o, err := b.keys.Claim(b.Context(), r, f, lease)
	if err != nil {
		b.Errorf("claim %s: %v", r.Key, err) // not Fatalf: many goroutines claim
	}
	return o
}

func (b *bundle) read(r idempotency.Ref, f idempotency.Fingerprint) idempotency.Outcome {
	b.Helper()
	o, err := b.keys.Read(b.Context(), r, f)
	if err != nil {
		b.Fatalf("read %s: %v", r.Key, err)
	}
	return o
}

// own claims a key and expects to own it.
func (b *bundle) own(r idempotency.Ref, f idempotency.Fingerprint) *idempotency.Claim {
	b.Helper()
	o := b.claim(r, f)
	b.want(o, idempotency.Claimed)
	return o.Claim
}

func (b *bundle) complete(c *idempotency.Claim, a idempotency.Answer) bool {
	b.Helper()
	recorded, err := b.keys.Complete(b.Context(), c, a)
	if err != nil {
		b.Errorf("complete %s: %v", c.Ref.Key, err)
	}
	return recorded
}

func (b *bundle) release(c *idempotency.Claim) bool {
	b.Helper()
	released, err := b.keys.Release(b.Context(), c)
	if err != nil {
		b.Errorf("release %s: %v", c.Ref.Key, err)
	}
	return released
}

func (b *bundle) want(o idempotency.Outcome, kind idempotency.Kind) {
	b.Helper()
	if o.Kind != kind {
		b.Fatalf("outcome is %s, want %s", o.Kind, kind)
	}
}

// pass lets time pass for every row of the database. The database's clock decides and cannot be set, so pass moves the
// rows instead.
func (b *bundle) pass(d time.Duration) {
	b.Helper()
	b.exec(`UPDATE agent.idempotency_keys SET claimed_at = claimed_at - $1::interval,
	               lease_expires_at = lease_expires_at - $1::interval, retain_until = retain_until - $1::interval`, d)
}

func (b *bundle) exec(sql string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), sql, args...); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

// row returns the whole row of a key as JSON text, with its place in the table; "" if there is none.
func (b *bundle) row(r idempotency.Ref) string {
	b.Helper()
	return one[string](b, `SELECT coalesce((SELECT ctid::text || xmin::text || row_to_json(t)::text FROM agent.idempotency_keys t
	                        WHERE organization_id = $1 AND scope = $2 AND key = $3), '')`, r.Organization, r.Scope.String(), r.Key.String())
}

func (b *bundle) rows() int {
	b.Helper()
	return one[int](b, `SELECT count(*) FROM agent.idempotency_keys`)
}

func one[T any](b *bundle, sql string, args ...any) T {
	b.Helper()
	rows, err := b.pool.Query(b.Context(), sql, args...)
	if err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
	return v
}

// begin opens a READ COMMITTED transaction that is rolled back when the test ends.
func (b *bundle) begin() pgx.Tx {
	b.Helper()
	return b.beginAs(pgx.ReadCommitted)
}

func (b *bundle) beginAs(level pgx.TxIsoLevel) pgx.Tx {
	b.Helper()
	tx, err := b.pool.BeginTx(b.Context(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func (b *bundle) commit(tx pgx.Tx) {
	b.Helper()
	if err := tx.Commit(b.Context()); err != nil {
		b.Fatal(err)
	}
}

const waitingForLock = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

// blocked returns once n sessions of the database wait for a lock.
func (b *bundle) blocked(n int) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if one[int](b, waitingForLock) >= n {
			return
		}
	}
	b.Fatalf("no session waits for a lock, want %d", n)
}

// patient returns a Service that waits for locks as long as a test needs.
func (b *bundle) patient() *idempotency.Service {
	return idempotency.MustService(b.pool, idempotency.Options{LockWait: 20 * time.Second})
}

func response(text string) idempotency.Answer {
	return idempotency.Answer{Response: json.RawMessage(text)}
}

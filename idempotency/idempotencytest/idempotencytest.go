// Package idempotencytest gives tests of a module that imports idempotency real databases with the migrated schema, and
// lets time pass for their keys. It needs PostgreSQL's programs on the machine, 15 or later, but no running server.
// GATEWAY_PG_BIN names the folder of the programs if it is an unusual one.
//
//	func TestMain(m *testing.M) { idempotencytest.Main(m) }
//
//	func TestRefund(t *testing.T) {
//		pool := idempotencytest.Pool(t)
//		…
//		idempotencytest.Pass(t, pool, lease) // the worker is gone, its lease has passed
//		…
//	}
package idempotencytest

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
)

// M is the part of *testing.M that Main needs.
type M interface{ Run() int }

// T is the part of testing.TB that a test's database needs.
type T interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Main is for TestMain: it runs the tests, stops their shared server, and ends the process.
func Main(m M) { pgtest.Main(m) }

// URL returns a migrated database for the test. It is removed when the test ends. The first call in a process starts
// the server. A test without a database fails; it is never skipped.
func URL(t T) string {
	t.Helper()
	return pgtest.New(t)
}

// Pool is URL opened by pgxpool.New. It is closed when the test ends.
func Pool(t T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), URL(t))
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Pass lets time pass for every key of a test's database: leases run out, answers are forgotten. It makes the keys
// older by d, because PostgreSQL's clock decides and cannot be set. A Claim in memory keeps its Deadline.
func Pass(t T, pool *pgxpool.Pool, d time.Duration) {
	t.Helper()
	const older = `UPDATE agent.idempotency_keys SET claimed_at = claimed_at - $1::interval,
		lease_expires_at = lease_expires_at - $1::interval, retain_until = retain_until - $1::interval`
	if d < 0 {
		t.Fatalf("invalid duration %s", d)
	}
	if _, err := pool.Exec(context.Background(), older, d); err != nil {
		t.Fatalf("let %s pass: %v", d, err)
	}
}

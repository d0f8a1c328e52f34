package idempotencytest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/idempotency/idempotencytest"
)

func TestMain(m *testing.M) { idempotencytest.Main(m) }

func TestPass(t *testing.T) {
	t.Parallel()
	pool := idempotencytest.Pool(t)
	keys := idempotency.MustService(pool, idempotency.Options{})
	content := idempotency.Content([]byte(`{}`))
	ref := idempotency.Ref{
		Organization: uuid.New(), Scope: idempotency.MustScope("tool.refund"),
		Key: idempotency.MustKey(idempotency.ToolKey("job_17", 3, "refund")),
	}
	const lease = time.Hour
	claim := func() idempotency.Outcome {
		t.Helper()
		o, err := keys.Claim(t.Context(), ref, content, lease)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	claim()
	idempotencytest.Pass(t, pool, lease-time.Minute)
	if o := claim(); o.Kind != idempotency.Processing || o.RetryAfter > time.Minute {
		t.Errorf("a minute before the lease passes: %s, %s left", o.Kind, o.RetryAfter)
	}
	idempotencytest.Pass(t, pool, time.Minute)
	o := claim()
	if o.Kind != idempotency.Claimed || !o.Claim.Reclaimed {
		t.Fatalf("once the lease has passed: %+v, want it reclaimed", o)
	}
	if _, err := keys.Complete(t.Context(), o.Claim, idempotency.Answer{Response: []byte(`1`)}); err != nil {
		t.Fatal(err)
	}
	idempotencytest.Pass(t, pool, ref.Scope.Retention()-time.Minute)
	if o := claim(); o.Kind != idempotency.Completed {
		t.Errorf("a minute before it is forgotten: %s", o.Kind)
	}
	idempotencytest.Pass(t, pool, time.Minute)
	if o := claim(); o.Kind != idempotency.Claimed || o.Claim.Reclaimed {
		t.Errorf("past its retention: %+v, want a new claim", o)
	}
}

func TestOwnDatabase(t *testing.T) {
	t.Parallel()
	pool, url := idempotencytest.Pool(t), idempotencytest.URL(t)
	other, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := pool.Exec(t.Context(), `CREATE TABLE mine (id int)`); err != nil {
		t.Fatal(err)
	}
	var seen, migrated bool
	err = other.QueryRow(t.Context(), `SELECT to_regclass('mine') IS NOT NULL, to_regclass('agent.idempotency_keys') IS NOT NULL`).Scan(&seen, &migrated)
	if err != nil || seen || !migrated {
		t.Errorf("another test's table is seen: %t, the schema is there: %t, %v", seen, migrated, err)
	}
}

// failing is a fake test that records its failure.
type failing struct {
	*testing.T
	failed bool
}

var errFatal = errors.New("fatal")

func (f *failing) Fatalf(string, ...any) {
	f.failed = true
	panic(errFatal)
}

func TestFailsNeverSkips(t *testing.T) {
	t.Parallel()
	pool := idempotencytest.Pool(t)
	for name, pass := range map[string]func(*failing){
		"time runs back": func(f *failing) { idempotencytest.Pass(f, pool, -time.Second) },
		"no database": func(f *failing) {
			closed, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nowhere")
			if err != nil {
				t.Fatal(err)
			}
			defer closed.Close()
			idempotencytest.Pass(f, closed, time.Second)
		},
	} {
		f := &failing{T: t}
		func() {
			defer func() {
				if p := recover(); p != errFatal {
					t.Errorf("%s: %v", name, p)
				}
			}()
			pass(f)
		}()
		if !f.failed {
			t.Errorf("%s: the test goes on", name)
		}
	}
}

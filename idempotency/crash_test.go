package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

// The environment of a worker process: its database, the point where it is killed, and its vendor.
const (
	crashURL   = "IDEMPOTENCY_CRASH_URL"
	crashPoint = "IDEMPOTENCY_CRASH_POINT"
	crashOrg   = "IDEMPOTENCY_CRASH_ORG"
)

// points are the instants at which a worker is killed, in order.
func points() []string {
	return []string{"before the claim", "after the claim", "before the effect", "after the effect", "before the completion", "after the completion"}
}

// kill ends this process like kill -9, if this is its point.
func kill(point string) {
	if os.Getenv(crashPoint) == point {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// vendor is a fake vendor. Its ledger is a table outside the worker's transactions.
type vendor struct {
	pool  *pgxpool.Pool
	takes bool // idempotency keys
}

func (v vendor) send(ctx context.Context, key string) (string, error) {
	if v.takes {
		_, err := v.pool.Exec(ctx, `INSERT INTO sent SELECT $1 WHERE NOT EXISTS (SELECT FROM sent WHERE key = $1)`, key)
		return "sent", err
	}
	_, err := v.pool.Exec(ctx, `INSERT INTO sent VALUES ($1)`, key)
	return "sent", err
}

func (v vendor) find(ctx context.Context, key string) (found bool, err error) {
	err = v.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM sent WHERE key = $1)`, key).Scan(&found)
	return found, err
}

// remoteWork makes one effect at the vendor with Do.
func remoteWork(ctx context.Context, pool *pgxpool.Pool, r idempotency.Ref, v vendor, reconciled *int) (idempotency.Result[string], error) {
	keys := idempotency.MustService(pool, idempotency.Options{Observer: func(_ context.Context, e idempotency.Event) {
		if e.Op == idempotency.OpClaim {
			kill("after the claim")
		}
	}})
	work := idempotency.Task[string]{Ref: r, Content: content("1"), Lease: lease}
	work.Encode = func(text string) (idempotency.Answer, error) {
		kill("before the completion")
		return response(`"` + text + `"`), nil
	}
	if !v.takes {
		work.Reconcile = func(ctx context.Context, c *idempotency.Claim) (string, bool, error) {
			*reconciled++
			found, err := v.find(ctx, c.Ref.Key.String())
			return "found", found, err
		}
	}
	kill("before the claim")
	result, err := idempotency.Do(ctx, keys, work, func(ctx context.Context, c *idempotency.Claim) (string, error) {
		kill("before the effect")
		text, err := v.send(ctx, c.Ref.Key.String())
		kill("after the effect")
		return text, err
	})
	kill("after the completion")
	return result, err
}

// rowWork makes an effect that is a row, in one transaction with its claim.
func rowWork(ctx context.Context, pool *pgxpool.Pool, r idempotency.Ref) error {
	kill("before the claim")
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		_, err := idempotency.DoTx(ctx, idempotency.MustService(pool, idempotency.Options{LockWait: 10 * time.Second}), tx,
			idempotency.Task[int]{Ref: r, Content: content("1"), Lease: lease},
			func(ctx context.Context, c *idempotency.Claim) (int, error) {
				kill("after the claim")
				kill("before the effect")
				_, err := tx.Exec(ctx, `INSERT INTO sent VALUES ($1)`, c.Ref.Key.String())
				kill("after the effect")
				return 1, err
			})
		kill("before the completion") // of the transaction
		return err
	})
	kill("after the completion")
	return err
}

// crashWorker is the main function of a worker process. The environment configures it, and it does not return.
func crashWorker() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv(crashURL))
	if err == nil {
		err = crashWork(ctx, pool)
	}
	fmt.Fprintln(os.Stderr, "the worker was not killed:", err)
	os.Exit(3)
}

func crashWork(ctx context.Context, pool *pgxpool.Pool) error {
	org, err := uuid.Parse(os.Getenv(crashOrg))
	if err != nil {
		return err
	}
	r, err := crashRef(org)
	if err != nil {
		return err
	}
	switch os.Args[1] {
	case "row":
		return rowWork(ctx, pool, r)
	default:
		_, err = remoteWork(ctx, pool, r, vendor{pool, os.Args[1] == "takes keys"}, new(int))
		return err
	}
}

func crashRef(org uuid.UUID) (r idempotency.Ref, err error) {
	r.Organization = org
	if r.Scope, err = idempotency.NewScope("tool.email.send"); err != nil {
		return r, err
	}
	r.Key, err = idempotency.ToolKey("job_17", 3, "send")
	return r, err
}

// crash runs a worker process and expects it to be killed at the point.
func (b *bundle) crash(point, work string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0], work)
	cmd.Env = append(os.Environ(), crashURL+"="+b.url, crashPoint+"="+point, crashOrg+"="+b.org.String())
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		b.Fatalf("the worker ended with %v, want killed: %s", err, out)
	}
}

func TestKilledWorkerVendorKeys(t *testing.T) {
	t.Parallel()
	for _, point := range points() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, r := crashing(t)
			b.crash(point, "takes keys")
			b.pass(lease)
			got, err := remoteWork(t.Context(), b.pool, r, vendor{b.pool, true}, new(int))
			if err != nil || got.Value != "sent" || got.Replayed != (point == "after the completion") {
				t.Errorf("%+v, %v", got, err)
			}
			b.wantSent(1)
		})
	}
}

func TestKilledWorkerReconciles(t *testing.T) {
	t.Parallel()
	for i, point := range points() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, r := crashing(t)
			b.crash(point, "takes no keys")
			b.pass(lease)
			reconciled := 0
			got, err := remoteWork(t.Context(), b.pool, r, vendor{b.pool, false}, &reconciled)
			if err != nil {
				t.Fatal(err)
			}
			b.wantSent(1)
			claimed, effect, completed := i > 0, i > 2, i == len(points())-1
			want := "sent"
			if effect && !completed {
				want = "found"
			}
			if got.Value != want || got.Replayed != completed || reconciled == 1 != (claimed && !completed) {
				t.Errorf("%+v after %d reconciliations, want %q", got, reconciled, want)
			}
		})
	}
}

func TestKilledWorkerRowEffect(t *testing.T) {
	t.Parallel()
	for i, point := range points() {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, r := crashing(t)
			b.crash(point, "row")
			if committed := i == len(points())-1; committed {
				b.wantSent(1)
			} else {
				b.wantSent(0)
			}
			// There is no lease to wait for: what was not committed does not exist.
			if err := rowWork(t.Context(), b.pool, r); err != nil {
				t.Fatal(err)
			}
			b.wantSent(1)
			b.want(b.read(r, content("1")), idempotency.Completed)
		})
	}
}

func crashing(t *testing.T) (*bundle, idempotency.Ref) {
	t.Helper()
	b := setup(t)
	b.exec(`CREATE TABLE sent (key text)`)
	r, err := crashRef(b.org)
	if err != nil {
		t.Fatal(err)
	}
	return b, r
}

func (b *bundle) wantSent(want int) {
	b.Helper()
	if n := one[int](b, `SELECT count(*) FROM sent`); n != want {
		b.Fatalf("%d effects, want %d", n, want)
	}
}

package jobs

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"webhook-gateway/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(pgtest.Stopping(m)) }

// soon bounds what a test waits for that is far faster when all is well.
const soon = 20 * time.Second

// bed is a database with a store on it.
type bed struct {
	*Store
	pool *pgxpool.Pool
	keys *Keys
}

func newBed(t *testing.T) *bed {
	t.Helper()
	pool, keys := pgtest.Pool(t), mustKeys(t, 1)
	return &bed{Store: NewStore(pool, keys), pool: pool, keys: keys}
}

func (b *bed) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func (b *bed) source(t *testing.T, provider, name string, secrets ...string) StoredSource {
	t.Helper()
	source, err := b.AddSource(t.Context(), NewSource{Provider: provider, Name: name})
	if err != nil {
		t.Fatalf("add source: %v", err)
	}
	for _, text := range secrets {
		b.set(t, Verifier{BySource, source.ID}, text)
	}
	return source
}

func (b *bed) set(t *testing.T, of Verifier, text string) {
	t.Helper()
	if err := b.SetSecret(t.Context(), of, mustSecret(t, text), false); err != nil {
		t.Fatalf("set secret: %v", err)
	}
}

func (b *bed) job(t *testing.T, n NewJob) StoredJob {
	t.Helper()
	if n.Organization == uuid.Nil {
		n.Organization = uuid.New()
	}
	job, err := b.AddJob(t.Context(), n)
	if err != nil {
		t.Fatalf("add job: %v", err)
	}
	return job
}

func team(value string) []Identity { return []Identity{{"team_id", value}} }

// directory runs one until the test ends, and returns it loaded.
func (b *bed) directory(t *testing.T) *Directory {
	t.Helper()
	return runDirectory(t, NewDirectory(b.pool, b.keys, slog.New(slog.DiscardHandler), prometheus.NewPedanticRegistry()))
}

func runDirectory(t *testing.T, d *Directory) *Directory {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	refresh(t, d)
	return d
}

// refresh makes everything that was committed until now known.
func refresh(t *testing.T, d *Directory) {
	t.Helper()
	if err := d.Refresh(t.Context(), time.Now()); err != nil {
		t.Fatalf("refresh: %v", err)
	}
}

// eventually waits for what Run brings by itself, read after read, and tells how long it took.
func eventually(t *testing.T, d *Directory, what string, is func() bool) time.Duration {
	t.Helper()
	began, late := time.Now(), time.After(soon)
	for !is() {
		d.fresh.mu.Lock()
		done := d.fresh.done
		d.fresh.mu.Unlock()
		if is() {
			break
		}
		select {
		case <-done:
		case <-late:
			t.Fatalf("after %s still not so: %s", soon, what)
		}
	}
	return time.Since(began)
}

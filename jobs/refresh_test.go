package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
)

// lookups notes when each statement is sent to PostgreSQL.
type lookups struct {
	mu sync.Mutex
	at []time.Time
}

func (l *lookups) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = append(l.at, time.Now())
	return ctx
}

func (l *lookups) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// most is the highest number of statements within one second.
func (l *lookups) most() (most, all int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, from := range l.at {
		within := 0
		for _, at := range l.at[i:] {
			if at.Sub(from) < time.Second {
				within++
			}
		}
		most = max(most, within)
	}
	return most, len(l.at)
}

func counted(t *testing.T) (*pgxpool.Pool, *lookups) {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	seen := &lookups{}
	config.ConnConfig.Tracer = seen
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool, seen
}

func TestRefreshRate(t *testing.T) {
	t.Parallel()
	pool, seen := counted(t)
	d := runDirectory(t, NewDirectory(pool, mustKeys(t, 1), slog.New(slog.DiscardHandler), nil))

	var calls sync.WaitGroup
	for range 4000 { // all at once
		calls.Go(func() {
			if err := d.Refresh(context.Background(), time.Now()); err != nil {
				t.Errorf("refresh: %v", err)
			}
		})
	}
	for range 25 { // and one after another
		calls.Go(func() {
			for range 40 {
				if err := d.Refresh(context.Background(), time.Now()); err != nil {
					t.Errorf("refresh: %v", err)
				}
			}
		})
	}
	calls.Wait()
	most, all := seen.most()
	t.Logf("%d look-ups in all, %d at most within a second", all, most)
	if most > 20 {
		t.Errorf("%d look-ups within one second", most)
	}
	if all < 20 {
		t.Errorf("%d look-ups in all: the callers were not served by reads of their own time", all)
	}
}

func TestPollsAloneAreFew(t *testing.T) {
	t.Parallel()
	pool, seen := counted(t)
	started := time.Now()
	d := runDirectory(t, NewDirectory(pool, mustKeys(t, 1), slog.New(slog.DiscardHandler), nil))
	for range 4 {
		d.fresh.mu.Lock()
		done := d.fresh.done
		d.fresh.mu.Unlock()
		<-done
	}
	took := time.Since(started)
	if _, all := seen.most(); all > int(took/pollEvery)+3 {
		t.Errorf("%d look-ups in %s, without callers", all, took)
	}
}

func TestRefreshNeedsLaterRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.directory(t)
	// A read is under way, and held up.
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE agent.provider_jobs`); err != nil {
		t.Fatal(err)
	}
	early := make(chan error, 1)
	go func() { early <- d.Refresh(context.Background(), time.Now()) }()
	b.blocked(t)
	since := time.Now()
	late := make(chan error, 1)
	go func() { late <- d.Refresh(context.Background(), since) }()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-early, <-late); err != nil {
		t.Fatal(err)
	}
	d.fresh.mu.Lock()
	defer d.fresh.mu.Unlock()
	if !d.fresh.succeeded.After(since) {
		t.Fatal("it was satisfied with a read that began before")
	}
}

func TestRefreshSeesCommits(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.directory(t)
	for i := range 10 {
		source := b.source(t, "slack", string(rune('a'+i)))
		refresh(t, d)
		if !found(d.Current().SourceByID(source.ID)) {
			t.Fatalf("source %d is not seen", i)
		}
	}
}

func TestRefreshOfPast(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	since := time.Now()
	d := b.directory(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Refresh(ctx, since); err != nil {
		t.Errorf("a read that began since had succeeded: %v", err)
	}
}

func TestRefreshWithoutReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDirectory(nil, nil, nil, nil) // Run is not called
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := d.Refresh(ctx, began); !errors.Is(err, errNotRefreshed) || time.Since(began) != 2*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestLoadFillsDirectory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	source := b.source(t, "slack", "main")
	d := NewDirectory(b.pool, b.keys, slog.New(slog.DiscardHandler), nil)
	since := time.Now()
	if err := d.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !d.Loaded() || !found(d.Current().SourceByID(source.ID)) || d.Refresh(t.Context(), since) != nil {
		t.Error("it is not filled")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Load(ctx); err == nil {
		t.Error("it says that it has read what it has not")
	}
}

func TestDirectoryAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDirectory(nil, nil, nil, nil)
		check := func(want time.Duration) {
			t.Helper()
			if got := d.Age(); got != want {
				t.Errorf("it is %s old, want %s", got, want)
			}
		}
		time.Sleep(time.Minute)
		check(time.Minute)
		began := time.Now()
		time.Sleep(time.Second)
		d.fresh.end(began, true)
		check(time.Second)
		time.Sleep(time.Second)
		d.fresh.end(time.Now(), false)
		check(2 * time.Second)
	})
}

func TestWhoWaitsIsToldWhenRunEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := NewDirectory(b.pool, b.keys, slog.New(slog.DiscardHandler), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result := make(chan error, 1)
	go func() { result <- d.Refresh(context.Background(), time.Now().Add(time.Hour)) }()
	d.Run(ctx)
	if err := <-result; !errors.Is(err, errNotRefreshed) {
		t.Fatalf("got %v", err)
	}
}

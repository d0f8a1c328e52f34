package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
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

func TestRefreshWhileNoAnswer(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	source := b.source(t, "slack", "main")
	d := b.directory(t)
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `LOCK TABLE agent.provider_jobs`); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := d.Refresh(t.Context(), began); err == nil {
		t.Fatal("it succeeded")
	}
	if took := time.Since(began); took > waitAtMost+soon/4 {
		t.Errorf("it failed after %s", took)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := d.Refresh(short, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a shorter deadline: got %v", err)
	}
	if !found(d.Current().SourceByID(source.ID)) || !d.Loaded() {
		t.Error("what was read before is gone")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, d, "it is refreshed again", func() bool { return d.Refresh(t.Context(), time.Now()) == nil })
}

func TestRefreshWhileDown(t *testing.T) {
	t.Parallel()
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing.Close()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@"+refusing.Addr().String()+"/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var logged bytes.Buffer
	d := NewDirectory(pool, mustKeys(t, 1), slog.New(slog.NewTextHandler(&logged, nil)), nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Run(ctx)
	}()
	for range 5 {
		began := time.Now()
		if err := d.Refresh(t.Context(), began); !errors.Is(err, errNotRefreshed) || time.Since(began) > waitAtMost/2 {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	}
	cancel()
	<-ended
	if d.Loaded() {
		t.Error("it says that it is loaded")
	}
	if n := strings.Count(logged.String(), "directory cannot be refreshed"); n != 1 {
		t.Errorf("it is logged %d times:\n%s", n, logged.String())
	}
	began := time.Now()
	if err := d.Refresh(t.Context(), began); !errors.Is(err, errNotRefreshed) || time.Since(began) > waitAtMost/2 {
		t.Errorf("when no reader is left: got %v after %s", err, time.Since(began))
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

func TestDirectoryServerRestart(t *testing.T) {
	t.Parallel()
	server := pgtest.NewServer(t, pgtest.Options{})
	pool, err := pgxpool.New(t.Context(), server.URL(pgtest.Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := &bed{pool: pool, keys: mustKeys(t, 1)}
	b.Store = NewStore(pool, b.keys)
	first := b.source(t, "slack", "first")
	d := b.directory(t)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := d.Refresh(t.Context(), time.Now()); err == nil {
		t.Error("a refresh without a server succeeded")
	}
	if !found(d.Current().SourceByID(first.ID)) {
		t.Error("what was read before is gone")
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var second StoredSource
	eventually(t, d, "the store answers", func() bool {
		second, err = b.AddSource(t.Context(), NewSource{Provider: "slack", Name: "second"})
		return err == nil
	})
	eventually(t, d, "both are known", func() bool {
		return found(d.Current().SourceByID(first.ID)) && found(d.Current().SourceByID(second.ID))
	})
	if names := d.Current().Sources("slack"); !slices.ContainsFunc(names, func(s *Source) bool { return s.Name == "second" }) {
		t.Error("the list is not whole")
	}
}

// After a restart of the server or a failover the pool holds broken connections.
func TestRefreshBrokenConnections(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	config := b.pool.Config()
	config.ConnConfig.RuntimeParams["application_name"] = "directory"
	config.MinConns, config.MaxConns = 8, 8
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d := NewDirectory(pool, b.keys, slog.New(slog.DiscardHandler), nil)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { d.Run(ctx) })
	defer running.Wait()
	defer cancel()
	for i := range 5 {
		if err := d.Refresh(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		b.exec(t, `SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'directory'`)
		source := b.source(t, "slack", fmt.Sprint("s", i))
		if err := d.Refresh(t.Context(), time.Now()); err != nil {
			t.Fatalf("after the connections were cut: %v", err)
		}
		if _, ok := d.Current().SourceByID(source.ID); !ok {
			t.Fatal("a source committed before is not known")
		}
	}
}

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
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
)

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

package jobs

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func TestRemoveSourceWithJobs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	first := b.source(t, "slack", "main", "a", "b")
	wantRefused(t, b.RemoveSource(ctx, "slack", "none"), ErrNotFound, `slack has no source named "none"`)
	var held []StoredJob
	for _, id := range []string{"T1", "T2"} {
		held = append(held, b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team(id)}))
	}
	wantRefused(t, b.RemoveSource(ctx, "slack", "main"), ErrInvalid, `has active jobs, 2 of them; close each first`)
	if got, err := b.Source(ctx, "slack", "main"); err != nil || got.ActiveJobs != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, job := range held {
		if err := b.CloseJob(ctx, job.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.RemoveSource(ctx, "slack", "main"); err != nil {
		t.Fatal(err)
	}
	if left := b.opened(t, Verifier{BySource, first.ID}); len(left) != 0 {
		t.Errorf("its secrets are still there: %d", len(left))
	}
	wantRefused(t, b.RemoveSource(ctx, "slack", "main"), ErrNotFound, `slack has no source named "main"`)
	wantRefused(t, b.SetSecret(ctx, Verifier{BySource, first.ID}, mustSecret(t, "c"), false), ErrNotFound, "there is no source")
	_, err := b.AddJob(ctx, NewJob{Provider: "slack", Organization: uuid.New(), Source: "main", Pins: team("T9")})
	wantRefused(t, err, ErrNotFound, `slack has no source named "main"`)
	if list, err := b.ListSources(ctx, ""); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	if again := b.source(t, "slack", "main"); again.ID == first.ID {
		t.Error("its name is not free")
	}
	if job, err := b.Job(ctx, held[0].ID); err != nil || job.Source != "main" || job.SourceID != first.ID {
		t.Errorf("a closed job of it: got %+v, %v", job, err)
	}
}

// blocked waits until somebody waits for a lock in this database.
func (b *bed) blocked(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for waiting := 0; waiting == 0; {
		err := b.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		if err != nil {
			t.Fatalf("no session waits for a lock: %v", err)
		}
	}
}

func TestRemoveSourceRacesAddJob(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.source(t, "slack", "main")
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(ctx, addSourceJob, uuid.New(), uuid.New(), "slack", "main", object(team("T1")), false); err != nil {
		t.Fatal(err)
	}
	removed := make(chan error, 1)
	go func() { removed <- b.RemoveSource(ctx, "slack", "main") }()
	b.blocked(t)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, <-removed, ErrInvalid, "has active jobs, 1 of them")
}

func TestAddJobRacesRemoveSource(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.source(t, "slack", "main")
	added := make(chan error, 1)
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE agent.provider_sources SET removed_at = now()`)
		go func() {
			_, err := b.AddJob(ctx, NewJob{Provider: "slack", Organization: uuid.New(), Source: "main", Pins: team("T1")})
			added <- err
		}()
		b.blocked(t)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, <-added, ErrNotFound, `slack has no source named "main"`)
}

package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

func TestChangeSeenWithinSecond(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	d := b.directory(t)
	within := func(what string, is func() bool) {
		t.Helper()
		if took := eventually(t, d, what, is); took > time.Second {
			t.Errorf("%s: seen after %s", what, took)
		}
	}
	main := b.source(t, "slack", "main")
	within("a new source", func() bool { return found(d.Current().Source("slack", "main")) })
	job := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1")})
	within("a new job", func() bool { return found(d.Current().JobFor(main.ID, Identity{"team_id", "T1"})) })
	b.set(t, Verifier{BySource, main.ID}, "s")
	within("a new secret", func() bool {
		s, _ := d.Current().SourceByID(main.ID)
		return len(s.Keyring.Secrets) == 1
	})
	if err := b.CloseJob(ctx, job.ID); err != nil {
		t.Fatal(err)
	}
	within("a closed job", func() bool {
		job, ok := d.Current().JobFor(main.ID, Identity{"team_id", "T1"})
		return ok && job.Closed
	})
	if err := b.RemoveSource(ctx, "slack", "main"); err != nil {
		t.Fatal(err)
	}
	within("a removed source", func() bool { return !found(d.Current().SourceByID(main.ID)) })
}

func TestLateCommitNotSkipped(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	main := b.source(t, "slack", "main")
	d := b.directory(t)
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(ctx, addSourceJob, uuid.New(), uuid.New(), "slack", "main", object(team("late")), false); err != nil {
		t.Fatal(err)
	}
	// Newer transactions commit, and are read, while that one is open.
	for i := range 3 {
		b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team(fmt.Sprint("T", i))})
		refresh(t, d)
	}
	if !found(d.Current().JobFor(main.ID, Identity{"team_id", "T2"})) || found(d.Current().JobFor(main.ID, Identity{"team_id", "late"})) {
		t.Fatal("what is committed is not what is known")
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	refresh(t, d)
	if !found(d.Current().JobFor(main.ID, Identity{"team_id", "late"})) {
		t.Fatal("what committed late was skipped")
	}
}

// reads returns a directory that only reads when the test says so, loaded.
func (b *bed) reads(t *testing.T, log *slog.Logger) *Directory {
	t.Helper()
	d := NewDirectory(b.pool, b.keys, log, nil)
	if err := d.read(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRowReadOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	d := b.reads(t, slog.New(slog.DiscardHandler))
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id()`); err != nil {
		t.Fatal(err)
	}
	b.source(t, "slack", "main")
	for _, want := range []int{1, 0, 0} {
		c, err := d.query(ctx, soon, readChanges, d.reader.at)
		if err != nil || len(c.sources) != want {
			t.Fatalf("%d rows came, want %d: %v", len(c.sources), want, err)
		}
		d.take(c, d.Current().with(time.Now(), c), false)
	}
	if !found(d.Current().Source("slack", "main")) {
		t.Error("the source is not known")
	}
}

func TestRestoredRowsReadOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.source(t, "slack", "main")
	b.exec(t, `ALTER TABLE agent.provider_sources DISABLE TRIGGER mark_changed`)
	b.exec(t, `UPDATE agent.provider_sources SET changed = '9000000000'`)
	d := b.reads(t, slog.New(slog.DiscardHandler))
	if !found(d.Current().Source("slack", "main")) {
		t.Error("they are not read at all")
	}
	if c, err := d.query(ctx, soon, readChanges, d.reader.at); err != nil || len(c.sources) != 0 {
		t.Errorf("%d rows come with every poll: %v", len(c.sources), err)
	}
}

func TestDeletedRowForgotten(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	for name, c := range map[string]struct {
		after     time.Duration
		meanwhile func(*reader)
		gone      bool
	}{
		"at once it is not noticed":          {time.Second, func(*reader) {}, false},
		"after a minute":                     {reloadEvery, func(*reader) {}, true},
		"when the server was started anew":   {time.Second, func(r *reader) { r.server = r.server.Add(-time.Second) }, true},
		"when transactions are counted anew": {time.Second, func(r *reader) { r.at = "9000000000:9000000000:" }, true},
		"when the snapshot makes no sense":   {reloadEvery, func(r *reader) { r.at = "?" }, true},
	} {
		source := b.source(t, "slack", "main")
		job := b.job(t, NewJob{Provider: "slack"})
		d := b.reads(t, slog.New(slog.DiscardHandler))
		b.exec(t, `DELETE FROM agent.provider_jobs`)
		b.exec(t, `DELETE FROM agent.provider_sources`)
		c.meanwhile(&d.reader)
		if err := d.read(ctx, time.Now().Add(c.after)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if gone := !found(d.Current().SourceByID(source.ID)) && !found(d.Current().Job("slack", job.ID)); gone != c.gone {
			t.Errorf("%s: gone is %v", name, gone)
		}
	}
}

func TestJobReadWithSource(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	d := b.reads(t, slog.New(slog.DiscardHandler))
	wrote := make(chan error, 1)
	go func() {
		for i := range 150 {
			name := fmt.Sprint("s", i)
			err := pgx.BeginFunc(context.Background(), b.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(context.Background(), `INSERT INTO agent.provider_sources (id, provider, name) VALUES ($1, 'slack', $2)`, uuid.New(), name)
				if err == nil {
					_, err = tx.Exec(context.Background(), addSourceJob, uuid.New(), uuid.New(), "slack", name, object(team("T")), false)
				}
				return err
			})
			if err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	for writing := true; writing; {
		select {
		case err := <-wrote:
			if err != nil {
				t.Fatal(err)
			}
			writing = false
		default:
		}
		if err := d.read(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		for _, job := range d.Current().jobs {
			if !found(d.Current().SourceByID(job.SourceID)) {
				t.Fatal("there is a job without its source")
			}
		}
	}
	if len(d.Current().jobs) != 150 {
		t.Fatalf("%d jobs are known", len(d.Current().jobs))
	}
}

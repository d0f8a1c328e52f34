package jobs

import (
	"errors"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	source := b.source(t, "slack", "main", "s")
	job := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1")})
	before := time.Now()
	s, err := Read(t.Context(), b.pool, b.keys)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := s.Source("slack", "main"); !ok || got.ID != source.ID || len(got.Keyring.Secrets) != 1 {
		t.Errorf("source: got %+v, %v", got, ok)
	}
	if got, ok := s.JobFor(source.ID, job.Pins[0]); !ok || got.ID != job.ID {
		t.Errorf("job: got %+v, %v", got, ok)
	}
	if s.Refresh(t.Context(), before) != nil {
		t.Error("a read that began after the request does not count")
	}
	if err := s.Refresh(t.Context(), time.Now()); !errors.Is(err, errNotRefreshed) {
		t.Errorf("a request after the read: %v", err)
	}

	t.Run("without keys", func(t *testing.T) {
		s, err := Read(t.Context(), b.pool, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := s.SourceByID(source.ID)
		if !ok || !found(s.Job("slack", job.ID)) {
			t.Fatal("source or job is not found")
		}
		if k := got.Keyring; len(k.Secrets) != 0 || k.Unopened != 1 || !k.CurrentSealed {
			t.Errorf("got %+v", k)
		}
	})
	t.Run("no database", func(t *testing.T) {
		b.exec(t, `DROP TABLE agent.provider_jobs CASCADE`)
		if _, err := Read(t.Context(), b.pool, b.keys); err == nil {
			t.Error("no error")
		}
	})
}

func TestSnapshotStaysAsItIs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	source := b.source(t, "slack", "main")
	job := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1"), Fallback: true})
	d := b.directory(t)
	old := d.Current()
	if err := b.CloseJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	if err := b.RemoveSource(t.Context(), "slack", "main"); err != nil {
		t.Fatal(err)
	}
	b.source(t, "slack", "next")
	refresh(t, d)
	for what, found := range map[string]bool{
		"the source": found(old.SourceByID(source.ID)), "its name": found(old.Source("slack", "main")),
		"the job": found(old.Job("slack", job.ID)), "its tenant": found(old.JobFor(source.ID, job.Pins[0])),
		"the fallback": found(old.Fallback(source.ID)), "the list": len(old.Sources("slack")) == 1,
	} {
		if !found {
			t.Errorf("%s is gone from the old snapshot", what)
		}
	}
	if found(old.Source("slack", "next")) || found(d.Current().SourceByID(source.ID)) || !found(d.Current().Source("slack", "next")) {
		t.Error("the change is in the old snapshot, or not in the new one")
	}
	if got, _ := old.Job("slack", job.ID); got.Closed {
		t.Error("the job of the old snapshot was closed")
	}
}

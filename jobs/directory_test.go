package jobs

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func found[T any](_ T, ok bool) bool { return ok }

// tried is what a keyring tries, newest first.
func tried(k Keyring) []string {
	texts := []string{}
	k.Verify(func(secret string) bool {
		texts = append(texts, secret)
		return false
	})
	return texts
}

func TestDirectoryLoads(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	main := b.source(t, "slack", "main", "old", "new")
	under := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1")})
	fall := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T2"), Fallback: true})
	own := b.job(t, NewJob{Provider: "nylas", Pins: []Identity{{"grant_id", "g"}, {"application_id", "a"}}, Secret: mustSecret(t, "own")})
	d := b.directory(t)
	if !d.Loaded() {
		t.Error("it is not loaded")
	}

	source, ok := d.Current().Source("slack", "main")
	if !ok || source.ID != main.ID || source.Provider != "slack" || source.Name != "main" || !source.Keyring.RotatingUntil.IsZero() {
		t.Errorf("source: got %+v, %v", source, ok)
	}
	if diff := cmp.Diff([]string{"new", "old"}, tried(source.Keyring)); diff != "" {
		t.Error(diff)
	}
	if same, ok := d.Current().SourceByID(main.ID); !ok || same != source {
		t.Error("by its id it is another")
	}
	for _, want := range []StoredJob{under, fall, own} {
		got, ok := d.Current().Job(want.Provider, want.ID)
		if !ok || got.ID != want.ID || got.Organization != want.Organization || got.Provider != want.Provider ||
			got.SourceID != want.SourceID || got.Fallback != want.Fallback || got.Closed || !cmp.Equal(got.Pins, want.Pins) {
			t.Errorf("job: got %+v, %v, want %+v", got, ok, want)
		}
	}
	job, _ := d.Current().Job("nylas", own.ID)
	if diff := cmp.Diff([]string{"own"}, tried(job.Keyring)); diff != "" || !job.OwnSecrets() {
		t.Error(diff)
	}
	job, _ = d.Current().Job("slack", under.ID)
	if got := job.Keyring.Verify(func(string) bool { return true }); got != (Result{Doubt: NoSecret}) || job.OwnSecrets() {
		t.Errorf("a source's job verifies by itself: %+v", got)
	}
	if job, ok := d.Current().JobFor(main.ID, Identity{"team_id", "T1"}); !ok || job.ID != under.ID {
		t.Errorf("tenant: got %+v, %v", job, ok)
	}
	if job, ok := d.Current().Fallback(main.ID); !ok || job.ID != fall.ID {
		t.Errorf("fallback: got %+v, %v", job, ok)
	}
	for what, ok := range map[string]bool{
		"a source's name at another provider": found(d.Current().Source("nylas", "main")),
		"a source's name in capitals":         found(d.Current().Source("slack", "Main")),
		"a source's id":                       found(d.Current().SourceByID(under.ID)),
		"a job of another provider":           found(d.Current().Job("nylas", under.ID)),
		"a job":                               found(d.Current().Job("slack", uuid.New())),
		"no job at all":                       found(d.Current().Job("slack", uuid.Nil)),
		"another tenant":                      found(d.Current().JobFor(main.ID, Identity{"team_id", "t1"})),
		"a tenant by another name":            found(d.Current().JobFor(main.ID, Identity{"enterprise_id", "T1"})),
		"a tenant elsewhere":                  found(d.Current().JobFor(uuid.New(), Identity{"team_id", "T1"})),
		"no tenant":                           found(d.Current().JobFor(main.ID, Identity{})),
		"a tenant of no source":               found(d.Current().JobFor(uuid.Nil, Identity{"grant_id", "g"})),
		"a fallback of no source":             found(d.Current().Fallback(uuid.Nil)),
	} {
		if ok {
			t.Errorf("%s is found", what)
		}
	}
}

func TestClosedJob(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	main := b.source(t, "slack", "main", "s")
	first := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1"), Fallback: true})
	own := b.job(t, NewJob{Provider: "slack", Secret: mustSecret(t, "own")})
	d := b.directory(t)
	for _, id := range []uuid.UUID{first.ID, own.ID} {
		if err := b.CloseJob(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	refresh(t, d)
	for _, id := range []uuid.UUID{first.ID, own.ID} {
		if job, ok := d.Current().Job("slack", id); !ok || !job.Closed {
			t.Errorf("got %+v, %v", job, ok)
		}
	}
	if job, _ := d.Current().Job("slack", own.ID); !job.Keyring.Verify(func(s string) bool { return s == "own" }).Matched {
		t.Error("its own secret verifies no more")
	}
	if job, ok := d.Current().JobFor(main.ID, Identity{"team_id", "T1"}); !ok || job.ID != first.ID || !job.Closed {
		t.Errorf("tenant: got %+v, %v, want the closed job", job, ok)
	}
	if job, ok := d.Current().Fallback(main.ID); !ok || job.ID != first.ID || !job.Closed {
		t.Errorf("fallback: got %+v, %v, want the closed job", job, ok)
	}

	// The tenant moves to another job, all in one read.
	next := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1"), Fallback: true})
	refresh(t, d)
	if err := b.CloseJob(ctx, next.ID); err != nil {
		t.Fatal(err)
	}
	last := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1"), Fallback: true})
	refresh(t, d)
	b.exec(t, `UPDATE agent.provider_jobs SET closed_at = now() WHERE closed_at IS NOT NULL`) // the closed ones come last
	refresh(t, d)
	for _, d := range []*Directory{d, b.directory(t)} { // by what changed, and by everything at once
		if job, ok := d.Current().JobFor(main.ID, Identity{"team_id", "T1"}); !ok || job.ID != last.ID || job.Closed {
			t.Errorf("tenant: got %+v, %v, want the active job", job, ok)
		}
		if job, ok := d.Current().Fallback(main.ID); !ok || job.ID != last.ID || job.Closed {
			t.Errorf("fallback: got %+v, %v, want the active job", job, ok)
		}
	}
}

func TestRemovedSource(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	main := b.source(t, "slack", "main", "s")
	job := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1")})
	d := b.directory(t)
	unknown := func(d *Directory) {
		t.Helper()
		if found(d.Current().Source("slack", "main")) || found(d.Current().SourceByID(main.ID)) || found(d.Current().Job("slack", job.ID)) || len(d.Current().Sources("slack")) > 0 {
			t.Error("they are known")
		}
	}
	if err := b.CloseJob(ctx, job.ID); err != nil {
		t.Fatal(err)
	}
	refresh(t, d)
	if !found(d.Current().Job("slack", job.ID)) {
		t.Error("the closed job is unknown before its source is removed")
	}
	if err := b.RemoveSource(ctx, "slack", "main"); err != nil {
		t.Fatal(err)
	}
	refresh(t, d)
	unknown(d)
	unknown(b.directory(t)) // and to one that starts now

	again := b.source(t, "slack", "main")
	refresh(t, d)
	if source, ok := d.Current().Source("slack", "main"); !ok || source.ID != again.ID || found(d.Current().Job("slack", job.ID)) {
		t.Errorf("a new source of that name: got %+v, %v", source, ok)
	}
}

func TestNewestSourcesFirst(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for i := range MaxTried + 6 {
		b.source(t, "slack", fmt.Sprint("s", i))
	}
	b.source(t, "nylas", "other")
	d := b.directory(t)
	names := func() (names []string) {
		for _, s := range d.Current().Sources("slack") {
			names = append(names, s.Name)
		}
		return names
	}
	var want []string
	for i := MaxTried + 5; i >= 6; i-- {
		want = append(want, fmt.Sprint("s", i))
	}
	if diff := cmp.Diff(want, names()); diff != "" {
		t.Fatal(diff)
	}
	before := d.Current().Sources("slack")
	if err := b.RemoveSource(t.Context(), "slack", "s40"); err != nil {
		t.Fatal(err)
	}
	b.source(t, "slack", "newest")
	refresh(t, d)
	want = append([]string{"newest"}, want...)
	want = append(want[:1+MaxTried+5-40], want[2+MaxTried+5-40:]...)
	if diff := cmp.Diff(want, names()); diff != "" {
		t.Fatal(diff)
	}
	if before[0].Name != "s69" || len(before) != MaxTried {
		t.Error("a list that was handed out has changed")
	}
	if got := d.Current().Sources("nobody"); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestDirectoryRotation(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	source := b.source(t, "slack", "main", "s")
	job := b.job(t, NewJob{Provider: "slack", Secret: mustSecret(t, "s")})
	d := b.directory(t)
	results := func() (got []Result) {
		refresh(t, d)
		s, _ := d.Current().SourceByID(source.ID)
		j, _ := d.Current().Job("slack", job.ID)
		no := func(string) bool { return false }
		return []Result{s.Keyring.Verify(no), j.Keyring.Verify(no)}
	}
	check := func(when string, want Doubt) {
		t.Helper()
		if diff := cmp.Diff([]Result{{Doubt: want}, {Doubt: want}}, results()); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	holders := []Verifier{{BySource, source.ID}, {ByJob, job.ID}}
	check("before", NoDoubt)
	for _, of := range holders {
		if _, err := b.OpenRotation(ctx, of, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	check("while it is open", Rotating)
	s, _ := d.Current().SourceByID(source.ID)
	if left := time.Until(s.Keyring.RotatingUntil); left > time.Hour || left < time.Hour-soon {
		t.Errorf("%s are left of an hour", left)
	}
	b.exec(t, `UPDATE agent.provider_sources SET rotating_until = clock_timestamp() - interval '1 ms'`)
	b.exec(t, `UPDATE agent.provider_jobs SET rotating_until = clock_timestamp() - interval '1 ms'`)
	check("when it has ended", NoDoubt)
	for _, of := range holders {
		if _, err := b.OpenRotation(ctx, of, time.Hour); err != nil {
			t.Fatal(err)
		}
		b.set(t, of, "next")
	}
	check("when a secret was set", NoDoubt)
}

func TestLookUpsAllocateNothing(t *testing.T) { // not parallel: what others allocate would be counted
	b := newBed(t)
	main := b.source(t, "slack", "main", "s")
	job := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1"), Fallback: true})
	d := b.reads(t, slog.New(slog.DiscardHandler))
	missed := false
	allocated := testing.AllocsPerRun(1000, func() {
		_, a := d.Current().Job("slack", job.ID)
		_, b := d.Current().Source("slack", "main")
		_, c := d.Current().SourceByID(main.ID)
		_, e := d.Current().JobFor(main.ID, Identity{"team_id", "T1"})
		_, f := d.Current().Fallback(main.ID)
		missed = missed || !a || !b || !c || !e || !f || len(d.Current().Sources("slack")) != 1
	})
	if allocated != 0 || missed {
		t.Fatalf("%v allocations; missed: %v", allocated, missed)
	}
}

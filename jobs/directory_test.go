package jobs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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

func TestUnopenedSecretLoggedOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	other := NewStore(b.pool, mustKeys(t, 2))
	lost, err := other.AddSource(ctx, NewSource{Provider: "slack", Name: "lost", Secret: mustSecret(t, plain)})
	if err != nil {
		t.Fatal(err)
	}
	mixed := b.source(t, "slack", "mixed", "previous")
	if err := other.SetSecret(ctx, Verifier{BySource, mixed.ID}, mustSecret(t, plain), false); err != nil {
		t.Fatal(err)
	}
	moved := b.job(t, NewJob{Provider: "slack"})
	closed := b.job(t, NewJob{Provider: "slack"}) // it takes nothing, and is not counted
	b.exec(t, `UPDATE agent.provider_jobs SET secrets = (SELECT secrets[2:2] FROM agent.provider_sources WHERE id = $1),
		closed_at = CASE id WHEN $3 THEN now() END WHERE id IN ($2, $3)`, mixed.ID, moved.ID, closed.ID)

	var logged bytes.Buffer
	d := b.reads(t, slog.New(slog.NewJSONHandler(&logged, nil)))
	for range 2 { // a change of the row, and a reload, are no news
		b.exec(t, `UPDATE agent.provider_sources SET rotating_until = now()`)
		if err := d.read(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := d.read(ctx, time.Now().Add(reloadEvery)); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(logged.String(), "secret cannot be opened"); n != 3 {
		t.Errorf("it is logged %d times for 3 rows:\n%s", n, logged.String())
	}
	if strings.Contains(logged.String(), plain) || !strings.Contains(logged.String(), mustKeys(t, 2).first.String()) {
		t.Errorf("the log shows the secret, or not the key's id:\n%s", logged.String())
	}
	if got := testutil.ToFloat64(d.metrics.unopened); got != 3 {
		t.Errorf("%v are counted", got)
	}

	s, _ := d.Current().SourceByID(lost.ID)
	if got := s.Keyring.Verify(func(string) bool { return true }); got != (Result{Doubt: Sealed}) {
		t.Errorf("a sealed one: got %+v", got)
	}
	s, _ = d.Current().SourceByID(mixed.ID)
	if got := s.Keyring.Verify(func(text string) bool { return text == "previous" }); got != (Result{Matched: true, Previous: true}) {
		t.Errorf("a previous one that opens: got %+v", got)
	}
	if got := s.Keyring.Verify(func(string) bool { return false }); got != (Result{Doubt: Sealed}) {
		t.Errorf("none matches: got %+v", got)
	}
	j, _ := d.Current().Job("slack", moved.ID)
	if got := j.Keyring.Verify(func(string) bool { return true }); got != (Result{Doubt: Sealed}) {
		t.Errorf("a secret of another row opens: got %+v", got)
	}

	// One that is set anew opens, and is news again if it is lost again.
	b.exec(t, `DELETE FROM agent.provider_sources WHERE id = $1`, lost.ID)
	for _, of := range []Verifier{{BySource, mixed.ID}, {ByJob, moved.ID}} {
		if err := b.SetSecret(ctx, of, mustSecret(t, "fresh"), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.read(ctx, time.Now().Add(2*reloadEvery)); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(d.metrics.unopened); got != 0 {
		t.Errorf("%v are counted after all were set anew", got)
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

func TestDirectoryMetrics(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	reg := prometheus.NewPedanticRegistry()
	d := NewDirectory(b.pool, b.keys, slog.New(slog.DiscardHandler), reg)
	const help = `# HELP gateway_directory_jobs Jobs held in memory, closed ones included.
# TYPE gateway_directory_jobs gauge
gateway_directory_jobs %d
# HELP gateway_directory_refreshes_total Reads of the sources and jobs that changed, by outcome.
# TYPE gateway_directory_refreshes_total counter
gateway_directory_refreshes_total{outcome="failed"} %d
gateway_directory_refreshes_total{outcome="succeeded"} %d
# HELP gateway_directory_sources Sources held in memory.
# TYPE gateway_directory_sources gauge
gateway_directory_sources %d
# HELP gateway_directory_unopened_secrets Secrets that are set but cannot be opened with GATEWAY_SECRETS_KEY.
# TYPE gateway_directory_unopened_secrets gauge
gateway_directory_unopened_secrets 0
`
	compare := func(jobs, failed, succeeded, sources int) {
		t.Helper()
		err := testutil.GatherAndCompare(reg, strings.NewReader(fmt.Sprintf(help, jobs, failed, succeeded, sources)),
			"gateway_directory_jobs", "gateway_directory_refreshes_total", "gateway_directory_sources", "gateway_directory_unopened_secrets")
		if err != nil {
			t.Error(err)
		}
	}
	compare(0, 0, 0, 0)
	if d.Loaded() {
		t.Error("it is loaded before it has read")
	}
	b.source(t, "slack", "main")
	b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1")})
	b.job(t, NewJob{Provider: "slack"})
	err := d.read(t.Context(), time.Now())
	d.report(err)
	d.report(context.DeadlineExceeded)
	compare(2, 1, 1, 1)
	if n, err := testutil.GatherAndCount(reg, "gateway_directory_age_seconds"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestReadFailureLoggedOnce(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	d := NewDirectory(nil, nil, slog.New(slog.NewTextHandler(&logged, nil)), nil)
	for _, err := range []error{nil, nil, context.DeadlineExceeded, context.DeadlineExceeded, nil, nil} {
		d.report(err)
	}
	failed, again := strings.Count(logged.String(), "directory cannot be refreshed"), strings.Count(logged.String(), "directory refreshed again")
	if failed != 1 || again != 1 {
		t.Errorf("logged %d and %d times:\n%s", failed, again, logged.String())
	}
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

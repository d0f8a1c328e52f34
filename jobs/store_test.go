package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
)

// opened reads a row's secrets as the database holds them, newest first.
func (b *bed) opened(t *testing.T, of Verifier) []string {
	t.Helper()
	var sealed [][]byte
	table := tableOf(of.Kind)
	h := holder{kind: of.Kind, id: of.ID}
	if err := b.pool.QueryRow(t.Context(), `SELECT secrets, provider, `+table.organization+` FROM `+table.name+` WHERE id = $1`, of.ID).
		Scan(&sealed, &h.provider, &h.organization); err != nil {
		t.Fatal(err)
	}
	texts := []string{}
	for _, blob := range sealed {
		secret, err := b.keys.open(h, blob)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, secret.Reveal())
	}
	return texts
}

func wantRefused(t *testing.T, err, kind error, text string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v\nwant %v: … %s", err, kind, text)
	}
}

func TestASourceIsStoredAndFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	added, err := b.AddSource(ctx, NewSource{Provider: "slack", Name: "main", Secret: mustSecret(t, plain),
		Pins: []Identity{{"team_id", "T1"}, {"api_app_id", "A1"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := StoredSource{ID: added.ID, Provider: "slack", Name: "main", Secrets: 1, CreatedAt: added.CreatedAt,
		Pins: []Identity{{"api_app_id", "A1"}, {"team_id", "T1"}}}
	if diff := cmp.Diff(want, added); diff != "" {
		t.Error(diff)
	}
	if added.ID.Version() != 7 {
		t.Errorf("the id %s is not a UUIDv7", added.ID)
	}
	if got, err := b.Source(ctx, "slack", "main"); err != nil || !cmp.Equal(want, got) {
		t.Errorf("got %+v and %v", got, err)
	}
	if diff := cmp.Diff([]string{plain}, b.opened(t, Verifier{BySource, added.ID})); diff != "" {
		t.Error(diff)
	}
	_, err = b.Source(ctx, "nylas", "main")
	wantRefused(t, err, ErrNotFound, `nylas has no source named "main"`)

	second := b.source(t, "slack", "second")
	other := b.source(t, "nylas", "main") // a name is taken per provider
	list, err := b.ListSources(ctx, "slack")
	if diff := cmp.Diff([]StoredSource{second, want}, list); diff != "" || err != nil {
		t.Error(err, diff)
	}
	list, err = b.ListSources(ctx, "")
	if diff := cmp.Diff([]StoredSource{other, second, want}, list); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestStoreRefuses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.source(t, "slack", "main")
	org := uuid.New()
	long := strings.Repeat("x", 201)
	many := make([]Identity, 17)
	for i := range many {
		many[i] = Identity{fmt.Sprint("n", i), "v"}
	}
	for _, c := range []struct {
		source NewSource
		text   string
	}{
		{NewSource{Provider: "Slack", Name: "a"}, `"Slack" is not a provider name`},
		{NewSource{Provider: "", Name: "a"}, `"" is not a provider name`},
		{NewSource{Provider: "slack", Name: ""}, `a source cannot be named ""`},
		{NewSource{Provider: "slack", Name: "a/b"}, `a source cannot be named "a/b"; take 1 to 100 letters`},
		{NewSource{Provider: "slack", Name: ".a"}, `a source cannot be named`},
		{NewSource{Provider: "slack", Name: strings.Repeat("a", 101)}, `a source cannot be named`},
		{NewSource{Provider: "slack", Name: "a\n"}, `a source cannot be named`},
		{NewSource{Provider: "slack", Name: "a", Pins: many}, `17 identities are pinned, 16 at most`},
		{NewSource{Provider: "slack", Name: "a", Pins: []Identity{{"api_app_id", ""}}}, `the identity "api_app_id=" has`},
		{NewSource{Provider: "slack", Name: "a", Pins: []Identity{{"", "x"}}}, `the identity "=x" has`},
		{NewSource{Provider: "slack", Name: "a", Pins: []Identity{{"n", long}}}, `1 to 200 bytes`},
		{NewSource{Provider: "slack", Name: "a", Pins: []Identity{{long, "v"}}}, `1 to 200 bytes`},
		{NewSource{Provider: "slack", Name: "a", Pins: []Identity{{"n", "a\x00"}}}, `1 to 200 bytes of text`},
		{NewSource{Provider: "slack", Name: "a", Pins: []Identity{{"n", "\xff"}}}, `1 to 200 bytes of text`},
		{NewSource{Provider: "slack", Name: "a", Pins: []Identity{{"n", "1"}, {"n", "2"}}}, `the identity "n" is given twice`},
	} {
		_, err := b.AddSource(ctx, c.source)
		wantRefused(t, err, ErrInvalid, c.text)
	}
	for _, c := range []struct {
		job  NewJob
		text string
	}{
		{NewJob{Provider: "slack", Source: "main", Pins: team("T1")}, "a job belongs to an organization"},
		{NewJob{Provider: "slack!", Organization: org}, "is not a provider name"},
		{NewJob{Provider: "slack", Organization: org, Source: "main"}, "pins exactly one identity of its tenant, like team_id=T123, and not 0"},
		{NewJob{Provider: "slack", Organization: org, Source: "main", Pins: []Identity{{"a", "1"}, {"b", "2"}}}, "and not 2"},
		{NewJob{Provider: "slack", Organization: org, Source: "main", Pins: team("T1"), Secret: mustSecret(t, "s")}, "not both"},
		{NewJob{Provider: "slack", Organization: org, Fallback: true}, "only a job of a source can be its fallback"},
		{NewJob{Provider: "slack", Organization: org, Source: "main", Pins: team(long)}, "1 to 200 bytes"},
	} {
		_, err := b.AddJob(ctx, c.job)
		wantRefused(t, err, ErrInvalid, c.text)
	}
	if _, err := NewStore(b.pool, nil).AddSource(ctx, NewSource{Provider: "slack", Name: "x", Secret: mustSecret(t, "s")}); !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "openssl rand -base64 32") {
		t.Errorf("without keys: got %v", err)
	}
	if list, err := b.ListSources(ctx, ""); err != nil || len(list) != 1 {
		t.Errorf("sources %v, %v", list, err)
	}
	if list, err := b.ListJobs(ctx, JobFilter{Closed: true}); err != nil || len(list) != 0 {
		t.Errorf("jobs %v, %v", list, err)
	}
	// The longest that is taken, in bytes.
	b.job(t, NewJob{Provider: "slack", Source: "main", Pins: []Identity{{strings.Repeat("n", 200), strings.Repeat("é", 100)}}})
}

func TestJobsAreStoredAndFound(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	main := b.source(t, "slack", "main")
	org := uuid.New()
	under := b.job(t, NewJob{Provider: "slack", Organization: org, Source: "main", Pins: team("T1"), Fallback: true})
	own := b.job(t, NewJob{Provider: "nylas", Organization: org, Secret: mustSecret(t, plain),
		Pins: []Identity{{"grant_id", "g"}, {"application_id", "a"}}})
	bare := b.job(t, NewJob{Provider: "slack"})

	want := StoredJob{ID: under.ID, Organization: org, Provider: "slack", SourceID: main.ID, Source: "main", Pins: team("T1"),
		Fallback: true, CreatedAt: under.CreatedAt}
	if diff := cmp.Diff(want, under); diff != "" {
		t.Error(diff)
	}
	want = StoredJob{ID: own.ID, Organization: org, Provider: "nylas", Secrets: 1, CreatedAt: own.CreatedAt,
		Pins: []Identity{{"application_id", "a"}, {"grant_id", "g"}}}
	if diff := cmp.Diff(want, own); diff != "" {
		t.Error(diff)
	}
	if under.ID.Version() != 7 || own.ID.Version() != 7 {
		t.Errorf("ids %s, %s are no UUIDv7", under.ID, own.ID)
	}
	if diff := cmp.Diff([]string{plain}, b.opened(t, Verifier{ByJob, own.ID})); diff != "" {
		t.Error(diff)
	}
	if got, err := b.Job(ctx, own.ID); err != nil || !cmp.Equal(own, got) {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err := b.Job(ctx, uuid.New())
	wantRefused(t, err, ErrNotFound, "there is no job")

	if err := b.CloseJob(ctx, bare.ID); err != nil {
		t.Fatal(err)
	}
	closed, err := b.Job(ctx, bare.ID)
	if err != nil || closed.ClosedAt == nil {
		t.Fatalf("closed: got %+v, %v", closed, err)
	}
	if err := b.CloseJob(ctx, bare.ID); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if again, _ := b.Job(ctx, bare.ID); !again.ClosedAt.Equal(*closed.ClosedAt) {
		t.Error("closing again moved the time")
	}
	wantRefused(t, b.CloseJob(ctx, uuid.New()), ErrNotFound, "there is no job")

	for name, c := range map[string]struct {
		filter JobFilter
		want   []StoredJob
	}{
		"active":       {JobFilter{}, []StoredJob{own, under}},
		"closed too":   {JobFilter{Closed: true}, []StoredJob{closed, own, under}},
		"provider":     {JobFilter{Provider: "nylas"}, []StoredJob{own}},
		"source":       {JobFilter{Provider: "slack", Source: "main", Closed: true}, []StoredJob{under}},
		"organization": {JobFilter{Organization: org, Provider: "slack"}, []StoredJob{under}},
		"one pin":      {JobFilter{Pin: Identity{"grant_id", "g"}}, []StoredJob{own}},
		"no such pin":  {JobFilter{Pin: Identity{"grant_id", "G"}}, nil},
	} {
		got, err := b.ListJobs(ctx, c.filter)
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Error(name, err, diff)
		}
	}
}

func TestTakenNamesHolder(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.source(t, "slack", "main")
	b.source(t, "slack", "other")
	_, err := b.AddSource(ctx, NewSource{Provider: "slack", Name: "main"})
	wantRefused(t, err, ErrExists, `slack has a source named "main"; choose another name`)

	first := b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1"), Fallback: true})
	again := NewJob{Provider: "slack", Organization: uuid.New(), Source: "main", Pins: team("T1")}
	_, err = b.AddJob(ctx, again)
	wantRefused(t, err, ErrExists, `the slack source "main" has an active job for team_id=T1, `+first.ID.String()+`; close that one first`)
	_, err = b.AddJob(ctx, NewJob{Provider: "slack", Organization: uuid.New(), Source: "main", Pins: team("T2"), Fallback: true})
	wantRefused(t, err, ErrExists, `the slack source "main" has a fallback job, `+first.ID.String()+`; close that one first (jobs close), or add`)
	_, err = b.AddJob(ctx, NewJob{Provider: "slack", Organization: uuid.New(), Source: "none", Pins: team("T2")})
	wantRefused(t, err, ErrNotFound, `slack has no source named "none"`)
	_, err = b.AddJob(ctx, NewJob{Provider: "nylas", Organization: uuid.New(), Source: "main", Pins: team("T2")})
	wantRefused(t, err, ErrNotFound, `nylas has no source named "main"`)

	// Elsewhere, under another name of the vendor's, or with its own secrets, the same value is free.
	b.job(t, NewJob{Provider: "slack", Source: "other", Pins: team("T1"), Fallback: true})
	b.job(t, NewJob{Provider: "slack", Source: "main", Pins: []Identity{{"enterprise_id", "T1"}}})
	b.job(t, NewJob{Provider: "slack", Pins: team("T1")})
	b.job(t, NewJob{Provider: "slack", Pins: team("T1")})

	// A closed job holds nothing.
	if err := b.CloseJob(ctx, first.ID); err != nil {
		t.Fatal(err)
	}
	again.Fallback = true
	b.job(t, again)
}

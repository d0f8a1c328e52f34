package registry

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
)

// keyring holds one secret, or one that does not open when it is empty.
func keyring(t *testing.T, text string) jobs.Keyring {
	t.Helper()
	if text == "" {
		return jobs.Keyring{Unopened: 1}
	}
	s, err := jobs.NewSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return jobs.Keyring{Secrets: []jobs.Secret{s}}
}

func pin(name, value string) []jobs.Identity { return []jobs.Identity{{Name: name, Value: value}} }

// sample has a source with two jobs, of which one is closed, a sealed source with one, and a job with its own secret.
func sample(t *testing.T) (r *Registry, tenant, own uuid.UUID) {
	t.Helper()
	main := &jobs.Source{ID: uuid.New(), Provider: "slack", Name: "main", Pins: pin("api_app_id", "A1"), Keyring: keyring(t, "of main")}
	sealed := &jobs.Source{ID: uuid.New(), Provider: "slack", Name: "sealed", Keyring: keyring(t, "")}
	tenant, own = uuid.New(), uuid.New()
	return &Registry{jobs.NewSnapshot([]*jobs.Source{main, sealed}, []*jobs.Job{
		{ID: tenant, Provider: "slack", SourceID: main.ID, Pins: pin("team_id", "T1")},
		{ID: uuid.New(), Provider: "slack", SourceID: main.ID, Pins: pin("enterprise_id", "E1"), Closed: true},
		{ID: uuid.New(), Provider: "slack", SourceID: sealed.ID, Pins: pin("enterprise_id", "E2")},
		{ID: own, Provider: "slack", Pins: pin("team_id", "T2"), Keyring: keyring(t, "of the job")},
	})}, tenant, own
}

// of returns a capture of a source, or of a job where job is given.
func of(source, job *capture.Party) *capture.Capture {
	target := "/webhooks/slack/sources/" + capture.SourceMark
	if source == nil {
		target = "/webhooks/slack/" + capture.JobMark
	}
	return &capture.Capture{Name: "one", Provider: "slack", Target: target, Source: source, Job: job}
}

func TestFind(t *testing.T) {
	t.Parallel()
	r, tenant, own := sample(t)
	places, found, err := r.Find([]*capture.Capture{
		of(&capture.Party{Name: "recorded", Pins: map[string]string{"api_app_id": "A1"}}, &capture.Party{Name: "team", Pins: map[string]string{"team_id": "T1"}}),
		of(nil, &capture.Party{Name: "theirs", Pins: map[string]string{"team_id": "T2"}}),
		of(nil, &capture.Party{Name: own.String()}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ownPlace := capture.Place{Path: "/webhooks/slack/" + own.String(), Secret: "of the job"}
	want := capture.Places{
		"slack source recorded":     {Path: "/webhooks/slack/sources/main", Secret: "of main"},
		"slack job team":            {Path: "/webhooks/slack/" + tenant.String(), Secret: "of main"},
		"slack job theirs":          ownPlace,
		"slack job " + own.String(): ownPlace,
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
	if f := found["slack job team"]; f.Job.ID != tenant || f.Source.Name != "main" {
		t.Errorf("found %+v", f)
	}
}

func TestFindNamesAllMissing(t *testing.T) {
	t.Parallel()
	r, _, _ := sample(t)
	_, _, err := r.Find([]*capture.Capture{
		of(&capture.Party{Name: "gone"}, nil),
		of(&capture.Party{Name: "sealed"}, nil),
		of(nil, &capture.Party{Name: "theirs", Pins: map[string]string{"team_id": "T1"}}), // the source's, not one with its own secret
	})
	if !errors.Is(err, jobs.ErrKey) {
		t.Errorf("a sealed secret: %v", err)
	}
	for _, says := range []string{`no slack source is called "gone"`, "does not open the secret of slack source sealed", `no slack job is "theirs" or pins team_id=T1`} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it does not say %q: %v", says, err)
		}
	}
}

func TestKeyrings(t *testing.T) {
	t.Parallel()
	r, _, own := sample(t)
	counts := make(map[string]int)
	for name, ring := range r.Keyrings("slack") {
		counts[name] = len(ring.Secrets)
	}
	if diff := cmp.Diff(map[string]int{"source main": 1, "source sealed": 0, "job " + own.String(): 1}, counts); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}

func TestSourceTarget(t *testing.T) {
	t.Parallel()
	r, _, _ := sample(t)
	got, err := r.SourceTarget("slack", "main")
	want := Target{capture.Place{Path: "/webhooks/slack/sources/main", Secret: "of main"}, map[string]string{"api_app_id": "A1", "team_id": "T1"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

package providers_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// town is two sources and every kind of job, to try every combination of secret, URL and named tenant on.
type town struct {
	*door
	main, other        *jobs.Source
	one, two, fallback *jobs.Job // of main
	elsewhere          *jobs.Job // of other; the same tenant as one
	closed, ownClosed  *jobs.Job
	own, ownPinned     *jobs.Job
	byID               map[uuid.UUID]string
}

func newTown(t *testing.T) *town {
	d := newDoor(t)
	tenant := func(v string) []jobs.Identity { return []jobs.Identity{{Name: "tenant", Value: v}} }
	w := &town{door: d}
	w.main = d.addSource(t, "main", []jobs.Identity{{Name: "app", Value: "A1"}}, "main")
	w.other = d.addSource(t, "other", nil, "other")
	w.one = d.addJob(jobs.Job{SourceID: w.main.ID, Pins: tenant("T1")})
	w.two = d.addJob(jobs.Job{SourceID: w.main.ID, Pins: tenant("T2")})
	w.fallback = d.addJob(jobs.Job{SourceID: w.main.ID, Pins: tenant("TF"), Fallback: true})
	w.elsewhere = d.addJob(jobs.Job{SourceID: w.other.ID, Pins: tenant("T1")})
	w.closed = d.addJob(jobs.Job{SourceID: w.main.ID, Pins: tenant("TC"), Closed: true})
	w.own = d.addJob(jobs.Job{Keyring: keyring(t, "own")})
	w.ownPinned = d.addJob(jobs.Job{Keyring: keyring(t, "pinned"),
		Pins: []jobs.Identity{{Name: "tenant", Value: "T9"}, {Name: "app", Value: "A9"}}})
	w.ownClosed = d.addJob(jobs.Job{Keyring: keyring(t, "gone"), Closed: true})
	w.byID = map[uuid.UUID]string{
		w.one.ID: "one", w.two.ID: "two", w.fallback.ID: "fallback", w.elsewhere.ID: "elsewhere",
		w.closed.ID: "closed", w.own.ID: "own", w.ownPinned.ID: "pinned", w.ownClosed.ID: "ownClosed",
	}
	return w
}

const (
	rejected = "401"
	unknown  = string(drops.UnknownJob)
	mismatch = string(drops.JobMismatch)
)

// end sends a body and tells where it ended: the job's name, the reason of the drop, or the status.
func (w *town) end(path, secret, body string) string {
	before := len(w.settler.work)
	got := w.send(path, secret, body)
	if got.Code != 200 {
		return fmt.Sprint(got.Code)
	}
	item := w.settler.work[before].Items[0]
	if item.Reason != "" {
		return string(item.Reason)
	}
	return w.byID[item.Job]
}

func TestSecretURLTenantMatrix(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	urls := []struct{ name, path string }{
		{"main", "sources/main"},
		{"other", "sources/other"},
		{"no source", "sources/nobody"},
		{"one", w.one.ID.String()},
		{"fallback", w.fallback.ID.String()},
		{"elsewhere", w.elsewhere.ID.String()},
		{"closed", w.closed.ID.String()},
		{"own", w.own.ID.String()},
		{"pinned", w.ownPinned.ID.String()},
		{"ownClosed", w.ownClosed.ID.String()},
		{"no job", uuid.NewString()},
		{"unreadable", "not-an-id"},
	}
	tenants := []string{"T1", "T2", "TF", "TC", "T9", "TX", ""}
	r, u, m := rejected, unknown, mismatch

	// Per secret and URL, where each of the tenants above ends.
	want := map[string]map[string][]string{
		"main": {
			"main":       {"one", "two", "fallback", u, u, u, "fallback"},
			"no source":  {u, u, u, u, u, u, u},
			"one":        {"one", m, m, m, m, m, m},
			"fallback":   {m, m, "fallback", m, m, m, "fallback"},
			"closed":     {u, u, u, u, u, u, u},
			"no job":     {u, u, u, u, u, u, u},
			"unreadable": {u, u, u, u, u, u, u},
		},
		"other": {
			"other":      {"elsewhere", u, u, u, u, u, u},
			"no source":  {u, u, u, u, u, u, u},
			"elsewhere":  {"elsewhere", m, m, m, m, m, m},
			"no job":     {u, u, u, u, u, u, u},
			"unreadable": {u, u, u, u, u, u, u},
		},
		"own": {
			"own": {"own", "own", "own", "own", "own", "own", "own"},
		},
		"pinned": {
			"pinned": {m, m, m, m, "pinned", m, "pinned"},
		},
		"gone": {
			"ownClosed": {u, u, u, u, u, u, u},
		},
		"stranger": {},
	}
	rejectedAll := []string{r, r, r, r, r, r, r}
	for secret, byURL := range want {
		for _, url := range urls {
			expected := byURL[url.name]
			if expected == nil {
				expected = rejectedAll
			}
			for i, tenant := range tenants {
				got := w.end("/webhooks/acme/"+url.path, secret, fmt.Sprintf(`{"id":"%d","tenant":%q}`, i, tenant))
				if got != expected[i] {
					t.Errorf("secret of %s, URL of %s, tenant %q: %s, want %s", secret, url.name, tenant, got, expected[i])
				}
			}
		}
	}
}

func TestUnknownJobDetail(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	lapsed := w.addSource(t, "lapsed", nil, "lapsed")
	fallback := w.addJob(jobs.Job{SourceID: lapsed.ID, Pins: []jobs.Identity{{Name: "tenant", Value: "T1"}}, Fallback: true, Closed: true})
	for _, tt := range []struct {
		name, path, secret, body string
		job                      *jobs.Job
		want                     string
	}{
		{"tenant unknown", "sources/main", "main", `{"id":"1","tenant":"TX"}`, nil, "no job of the source pins the tenant that the body names"},
		{"tenant's job closed", "sources/main", "main", `{"id":"1","tenant":"TC"}`, w.closed, "the job that pins the tenant is closed"},
		{"no fallback", "sources/other", "other", `{"id":"1"}`, nil, "the body names no tenant and the source has no fallback job"},
		{"fallback closed", "sources/lapsed", "lapsed", `{"id":"1"}`, fallback, "the body names no tenant and the source's fallback job is closed"},
		{"job unknown", uuid.NewString(), "main", `{"id":"1","tenant":"T1"}`, nil, "no such job"},
		{"job closed", w.closed.ID.String(), "main", `{"id":"1","tenant":"TC"}`, w.closed, "the job is closed"},
		{"own job closed", w.ownClosed.ID.String(), "gone", `{"id":"1"}`, w.ownClosed, "the job is closed"},
		{"source unknown", "sources/nobody", "main", `{"id":"1","tenant":"T1"}`, nil, "no such source"},
	} {
		if got := w.end("/webhooks/acme/"+tt.path, tt.secret, tt.body); got != unknown {
			t.Errorf("%s: ended as %s, want %s", tt.name, got, unknown)
		}
		item := w.settler.work[len(w.settler.work)-1].Items[0]
		var job, organization uuid.UUID
		if tt.job != nil {
			job, organization = tt.job.ID, tt.job.Organization
		}
		if item.Detail != tt.want || item.Job != job || item.Organization != organization {
			t.Errorf("%s: detail %q of job %s in organization %s, want %q of %s in %s", tt.name, item.Detail, item.Job, item.Organization, tt.want, job, organization)
		}
	}
}

func TestPinnedApplication(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	for _, tt := range []struct{ path, secret, body, want string }{
		{"sources/main", "main", `{"id":"1","tenant":"T1","app":"A1"}`, "one"},
		{"sources/main", "main", `{"id":"1","tenant":"T1","app":"A1","others":["A2"]}`, "one"},
		{"sources/main", "main", `{"id":"1","tenant":"T1"}`, "one"},
		{"sources/main", "main", `{"id":"1","tenant":"T1","app":"A2"}`, mismatch},
		{"sources/main", "main", `{"id":"1","app":"A2"}`, mismatch},
		{w.one.ID.String(), "main", `{"id":"1","tenant":"T1","app":"A2"}`, mismatch},
		{w.fallback.ID.String(), "main", `{"id":"1","app":"A2"}`, mismatch},
		{"sources/other", "other", `{"id":"1","tenant":"T1","app":"A2"}`, "elsewhere"},
		{w.ownPinned.ID.String(), "pinned", `{"id":"1","tenant":"T9","app":"A1"}`, mismatch},
		{w.ownPinned.ID.String(), "pinned", `{"id":"1","app":"A9"}`, "pinned"},
	} {
		if got := w.end("/webhooks/acme/"+tt.path, tt.secret, tt.body); got != tt.want {
			t.Errorf("%s %s: %s, want %s", tt.path, tt.body, got, tt.want)
		}
	}
}

// A kept request says whose secret verified it. Which jobs there are may have changed since.
func TestReadReach(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	for _, tt := range []struct {
		name   string
		by     jobs.Verifier
		target providers.Target
		want   string
	}{
		{"its own", jobs.Verifier{Kind: jobs.BySource, ID: w.main.ID}, providers.Target{Job: w.one.ID}, "one"},
		{"another source's job", jobs.Verifier{Kind: jobs.BySource, ID: w.main.ID}, providers.Target{Job: w.elsewhere.ID}, unknown},
		{"another source's URL", jobs.Verifier{Kind: jobs.BySource, ID: w.main.ID}, providers.Target{Source: "other"}, unknown},
		{"another job's URL", jobs.Verifier{Kind: jobs.ByJob, ID: w.own.ID}, providers.Target{Job: w.one.ID}, unknown},
	} {
		items, err := w.gate.Read(t.Context(), &providers.Request{
			Provider: "acme", Target: tt.target, VerifiedBy: tt.by, ReceivedAt: time.Now(), Body: []byte(`{"id":"1","tenant":"T1"}`),
		})
		if err != nil || len(items) != 1 {
			t.Fatalf("%s: %v, %v", tt.name, items, err)
		}
		got := string(items[0].Reason)
		if got == "" {
			got = w.byID[items[0].Job]
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// An id is read in the one spelling that gateway jobs add prints.
func TestJobURLSpellings(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	id := w.own.ID.String()
	for _, spelling := range []string{strings.ReplaceAll(id, "-", ""), "urn:uuid:" + id, "%7B" + id + "%7D"} {
		if got := w.end("/webhooks/acme/"+spelling, "own", `{"id":"1"}`); got != rejected {
			t.Errorf("%s: %s, want %s", spelling, got, rejected)
		}
	}
}

func TestTooManyDeliveriesAreMalformed(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	for n, want := range map[int]string{providers.MaxDeliveries: "own", providers.MaxDeliveries + 1: string(drops.Malformed)} {
		body := "[" + strings.Repeat(`{"id":"1"},`, n-1) + `{"id":"1"}]`
		if got := w.end("/webhooks/acme/"+w.own.ID.String(), "own", body); got != want {
			t.Errorf("%d deliveries: %s, want %s", n, got, want)
		}
	}
}

// A source without a secret must not make the gateway ask strangers to come again.
func TestStrangerBesideEmptySource(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	w.addSource(t, "new", nil)
	for path, want := range map[string]string{uuid.NewString(): rejected, "sources/nobody": rejected, "sources/new": "503"} {
		if got := w.end("/webhooks/acme/"+path, "stranger", `{"id":"1"}`); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestAMalformedBodyReachesNoJob(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	if got := w.end("/webhooks/acme/"+w.own.ID.String(), "own", `{"id":`); got != string(drops.Malformed) {
		t.Errorf("ended as %s, want malformed", got)
	}
}

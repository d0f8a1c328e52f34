package providers_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
)

func TestMismatchAfterRefresh(t *testing.T) {
	t.Parallel()
	const body = `{"id":"1"}`

	t.Run("a secret set elsewhere meanwhile", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		job := d.addJob(jobs.Job{Keyring: keyring(t, "old")})
		d.onRefresh = func(d *directory) error {
			fresh := *job
			fresh.Keyring = keyring(t, "new", "old")
			d.mu.Lock()
			d.jobs[job.ID] = &fresh
			d.mu.Unlock()
			return nil
		}
		if got := d.send("/webhooks/acme/"+job.ID.String(), "new", body); got.Code != 200 {
			t.Errorf("status %d, want 200", got.Code)
		}
		if n := d.metric(t, "gateway_signature_verifications_total", "acme", "current"); n != 1 {
			t.Errorf("%v verifications with the current secret, want 1", n)
		}
	})
	t.Run("PostgreSQL away", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		job := d.addJob(jobs.Job{Keyring: keyring(t, "old")})
		d.onRefresh = func(*directory) error { return errAway }
		for _, path := range []string{job.ID.String(), uuid.NewString()} {
			if got := d.send("/webhooks/acme/"+path, "new", body); got.Code != 503 {
				t.Errorf("%s: status %d, want 503", path, got.Code)
			}
		}
		if n := d.metric(t, "gateway_requests_rejected_total", "acme", "unconfirmed"); n != 2 {
			t.Errorf("%v unconfirmed, want 2", n)
		}
		if got := d.send("/webhooks/acme/"+job.ID.String(), "old", body); got.Code != 200 {
			t.Errorf("a good signature needs no refresh: status %d", got.Code)
		}
	})
}

func TestUnconfirmedIs503(t *testing.T) {
	t.Parallel()
	rotating := keyring(t, "old")
	rotating.RotatingUntil = time.Now().Add(time.Hour)
	over := keyring(t, "old")
	over.RotatingUntil = time.Now().Add(-time.Second)
	sealed := keyring(t, "old")
	sealed.Unopened = 1
	for _, tt := range []struct {
		name    string
		keyring jobs.Keyring
		status  int
		reason  string
	}{
		{"no secret yet", jobs.Keyring{}, 503, "no_secret"},
		{"a secret that cannot be opened", sealed, 503, "no_secret"},
		{"a rotation declared open", rotating, 503, "unconfirmed"},
		{"a rotation that is over", over, 401, "mismatch"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			// Its own secrets or none: another source's would match, and must not be tried.
			d.addSource(t, "main", nil, "new")
			job := d.addJob(jobs.Job{Keyring: tt.keyring})
			if got := d.send("/webhooks/acme/"+job.ID.String(), "new", `{}`); got.Code != tt.status {
				t.Errorf("status %d, want %d", got.Code, tt.status)
			}
			if n := d.metric(t, "gateway_requests_rejected_total", "acme", tt.reason); n != 1 {
				t.Errorf("%v rejected as %s, want 1", n, tt.reason)
			}
		})
	}
}

func TestUnknownJobAfterRefresh(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	source := d.addSource(t, "main", nil, "s3cret")
	var late *jobs.Job
	d.onRefresh = func(d *directory) error {
		if late == nil {
			late = d.addJob(jobs.Job{SourceID: source.ID, Pins: []jobs.Identity{{Name: "tenant", Value: "T1"}}})
		}
		return nil
	}
	d.send("/webhooks/acme/sources/main", "s3cret", `{"id":"1","tenant":"T1"}`)
	d.send("/webhooks/acme/sources/main", "s3cret", `{"id":"2","tenant":"T2"}`)
	if got := d.settler.work[0].Items[0]; got.Reason != "" || got.Job != late.ID {
		t.Errorf("the job registered meanwhile was not found: %q", got.Reason)
	}
	if got := d.settler.work[1].Items[0]; got.Reason != drops.UnknownJob {
		t.Errorf("reason %q, want unknown_job", got.Reason)
	}
}

// A drop is acknowledged for good. What it rests on must not be older than the call.
func TestADropIsConfirmedFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body string }{
		{"a tenant that no job pins", `{"id":"1","tenant":"T2"}`},
		{"another application than the source pins", `{"id":"1","tenant":"T1","app":"B"}`},
		{"one of a batch", `[{"id":"1","tenant":"T1"},{"id":"2","tenant":"T2"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			source := d.addSource(t, "main", []jobs.Identity{{Name: "app", Value: "A"}}, "s3cret")
			d.addJob(jobs.Job{SourceID: source.ID, Pins: []jobs.Identity{{Name: "tenant", Value: "T1"}}})
			d.onRefresh = func(*directory) error { return errors.New("connection cut") }
			if got := d.send("/webhooks/acme/sources/main", "s3cret", tt.body); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" {
				t.Errorf("answered %d %v, want 503", got.Code, got.Header())
			}
			if len(d.settler.work) != 0 {
				t.Error("it was settled all the same")
			}
			received, failed := d.metric(t, "gateway_deliveries_received_total", "acme"), d.metric(t, "gateway_deliveries_failed_total", "acme")
			if received == 0 || received != failed {
				t.Errorf("%v received and %v failed", received, failed)
			}
			d.onRefresh = nil
			if got := d.send("/webhooks/acme/sources/main", "s3cret", tt.body); got.Code != http.StatusOK {
				t.Errorf("answered %d once it is confirmed, want 200", got.Code)
			}
		})
	}
}

func TestJobMismatchAfterRefresh(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	source := d.addSource(t, "main", []jobs.Identity{{Name: "app", Value: "A"}}, "s3cret")
	job := d.addJob(jobs.Job{SourceID: source.ID, Pins: []jobs.Identity{{Name: "tenant", Value: "T1"}}})
	d.onRefresh = func(*directory) error {
		source.Pins = []jobs.Identity{{Name: "app", Value: "B"}}
		return nil
	}
	d.send("/webhooks/acme/sources/main", "s3cret", `{"id":"1","tenant":"T1","app":"B"}`)
	if got := d.settler.work[0].Items[0]; got.Reason != "" || got.Job != job.ID {
		t.Errorf("dropped as %q, although the pin was corrected before the call", got.Reason)
	}
}

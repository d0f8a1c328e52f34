package providers_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

func contentType(v string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Content-Type", v) }
}

func signature(v string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("X-Acme-Signature", v) }
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 64<<10+1)
	tests := []struct {
		name   string
		secret string
		body   string
		edit   func(*http.Request)
		status int
		reason string // of the rejection
	}{
		{"signed", "s3cret", `{"id":"1"}`, nil, 200, ""},
		{"unsigned", "", `{"id":"1"}`, nil, 401, "unsigned"},
		{"wrong secret", "other", `{"id":"1"}`, nil, 401, "mismatch"},
		{"stale", "s3cret", `{"id":"1"}`, signature("stale"), 401, "stale"},
		{"too large", "s3cret", large, nil, 413, "too_large"},
		{"too large without a length", "s3cret", large, func(r *http.Request) { r.ContentLength = -1 }, 413, "too_large"},
		{"cut short", "s3cret", "{}", func(r *http.Request) { r.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)) }, 400, "broken"},
		{"handshake", "s3cret", "ping", nil, 200, ""},
		{"unsigned handshake", "", "ping", nil, 401, "unsigned"},
		{"unsigned probe", "", "probe=1", contentType("probe"), 200, ""},
		{"probe with a wrong signature", "other", "probe=1", contentType("probe"), 200, ""},
		{"stale probe", "s3cret", "probe=1", func(r *http.Request) { contentType("probe")(r); signature("stale")(r) }, 200, ""},
		{"unsigned and no probe", "", "probe=2", contentType("probe"), 401, "unsigned"},
		{"unsigned probe that is too large", "", "probe=1" + large, contentType("probe"), 401, "unsigned"},
		{"malformed", "s3cret", "{", nil, 200, ""},
		{"empty", "s3cret", "", nil, 200, ""},
		{"a fault of ours", "s3cret", "panic", nil, 503, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
			edit := tt.edit
			if edit == nil {
				edit = func(*http.Request) {}
			}
			got := d.send("/webhooks/acme/"+job.ID.String(), tt.secret, tt.body, edit)
			if got.Code != tt.status {
				t.Errorf("status %d, want %d", got.Code, tt.status)
			}
			if retry := got.Header().Get("Retry-After"); (retry != "") != (tt.status == 503) {
				t.Errorf("Retry-After %q with status %d", retry, got.Code)
			}
			if tt.reason != "" {
				if n := d.metric(t, "gateway_requests_rejected_total", "acme", tt.reason); n != 1 {
					t.Errorf("%v requests rejected as %s, want 1", n, tt.reason)
				}
				if len(d.settler.work) != 0 || got.Body.Len() != 0 {
					t.Error("a rejected request left something behind")
				}
			}
			if strings.Contains(d.logged.String(), "secret in its text") || strings.Contains(d.logged.String(), "s3cret") {
				t.Errorf("a secret is in the log: %s", d.logged)
			}
		})
	}
}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
	got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", "ping")
	if got.Body.String() != "pong" || !strings.HasPrefix(got.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("answered %q as %q", got.Body, got.Header().Get("Content-Type"))
	}
	for _, path := range []string{
		"/webhooks/acme/" + job.ID.String(),
		"/webhooks/acme/" + uuid.NewString(),
		"/webhooks/acme/sources/nobody",
	} {
		got := d.do(httptest.NewRequest(http.MethodGet, path+"?challenge=a%26b", nil))
		if got.Code != 200 || got.Body.String() != "a&b" || got.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %q %v", path, got.Code, got.Body, got.Header())
		}
	}
	if n := d.metric(t, "gateway_handshakes_total", "acme"); n != 4 {
		t.Errorf("%v handshakes, want 4", n)
	}
	if n := d.metric(t, "gateway_deliveries_received_total", "acme"); n != 0 {
		t.Errorf("%v deliveries, want 0", n)
	}
}

func TestOnlyWebhookPathsAreServed(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	id := uuid.NewString()
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/webhooks/acme/" + id, 404},
		{"GET", "/webhooks/acme/" + id + "?challenge=", 404},
		{"GET", "/webhooks/acme/not-an-id?challenge=x", 404},
		{"GET", "/webhooks/acme/sources/%20?challenge=x", 404},
		{"PUT", "/webhooks/acme/" + id, 405},
		{"DELETE", "/webhooks/acme/sources/main", 405},
		{"OPTIONS", "/webhooks/acme/" + id, 405},
		{"OPTIONS", "/webhooks/other/" + id, 404},
		{"HEAD", "/webhooks/acme/" + id + "?challenge=x", 405},
		{"POST", "/webhooks/other/" + id, 404},
		{"POST", "/webhooks/acme", 404},
		{"POST", "/webhooks/acme/" + id + "/more", 404},
		{"POST", "/metrics", 404},
		{"GET", "/", 404},
	} {
		got := d.do(httptest.NewRequest(tt.method, tt.path, nil))
		if got.Code != tt.status || got.Body.Len() != 0 {
			t.Errorf("%s %s: %d %q, want %d and no body", tt.method, tt.path, got.Code, got.Body, tt.status)
		}
		if allow := got.Header().Get("Allow"); tt.status == 405 && allow != "GET, POST" {
			t.Errorf("%s %s: Allow: %s, want GET, POST", tt.method, tt.path, allow)
		}
	}
}

func TestSameAnswersForUnknownIDs(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	source := d.addSource(t, "main", nil, "s3cret")
	job := d.addJob(jobs.Job{SourceID: source.ID, Pins: []jobs.Identity{{Name: "tenant", Value: "T1"}}})
	own := d.addJob(jobs.Job{Keyring: keyring(t, "own")})
	var want *httptest.ResponseRecorder
	for _, path := range []string{
		job.ID.String(), own.ID.String(), uuid.NewString(), "not-an-id", "sources/main", "sources/nobody", "sources/..",
	} {
		got := d.send("/webhooks/acme/"+path, "forged", `{"id":"1","tenant":"T1"}`)
		if want == nil {
			want = got
		}
		if got.Code != 401 || got.Body.String() != want.Body.String() {
			t.Errorf("%s: %d %q", path, got.Code, got.Body)
		}
		if diff := cmp.Diff(want.Header(), got.Header()); diff != "" {
			t.Errorf("%s: headers differ: %s", path, diff)
		}
	}
}

func TestAnswerAfterAllEndings(t *testing.T) {
	t.Parallel()
	const body = `[{"id":"1"},{"id":"2"}]`

	t.Run("one failed", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
		d.settler.settle = func(_ *providers.Work, done func([]providers.Ending)) error {
			go done([]providers.Ending{{}, {Failed: true}})
			return nil
		}
		if got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", body); got.Code != 503 {
			t.Errorf("status %d, want 503", got.Code)
		}
		for name, want := range map[string]float64{"received": 2, "accepted": 1, "failed": 1} {
			if n := d.metric(t, "gateway_deliveries_"+name+"_total", "acme"); n != want {
				t.Errorf("%s %v, want %v", name, n, want)
			}
		}
	})
	t.Run("the queue is full: the body is not even read for its deliveries", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
		d.settler.full = true
		got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", "panic")
		if got.Code != 503 || got.Header().Get("Retry-After") == "" {
			t.Errorf("status %d, Retry-After %q; want 503 and one", got.Code, got.Header().Get("Retry-After"))
		}
		if n := d.metric(t, "gateway_deliveries_failed_total", "acme"); n != 1 {
			t.Errorf("failed %v, want 1", n)
		}
		if got := d.send("/webhooks/acme/"+job.ID.String(), "another", body); got.Code != 401 {
			t.Errorf("status %d for a stranger, want 401: it says nothing of us", got.Code)
		}
	})
	t.Run("the queue has no room for it", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
		d.settler.settle = func(*providers.Work, func([]providers.Ending)) error { return providers.ErrOverloaded }
		if got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", body); got.Code != 503 {
			t.Errorf("status %d, want 503", got.Code)
		}
		if n := d.metric(t, "gateway_deliveries_failed_total", "acme"); n != 2 {
			t.Errorf("failed %v, want 2", n)
		}
	})
	t.Run("no ending in time", func(t *testing.T) {
		t.Parallel()
		d := newDoor(t)
		job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
		var finish func([]providers.Ending)
		d.settler.settle = func(_ *providers.Work, done func([]providers.Ending)) error { finish = done; return nil }
		if got := d.send("/webhooks/acme/"+job.ID.String(), "s3cret", body); got.Code != 503 {
			t.Errorf("status %d, want 503", got.Code)
		}
		if n := d.metric(t, "gateway_deliveries_waiting", "acme"); n != 2 {
			t.Errorf("waiting %v, want 2: the settler does not know yet", n)
		}
		finish([]providers.Ending{{}, {}})
		if n := d.metric(t, "gateway_deliveries_accepted_total", "acme"); n != 2 {
			t.Errorf("accepted %v, want 2 whatever the vendor was answered", n)
		}
	})
}

func TestBodyBudget(t *testing.T) {
	t.Parallel()
	d := newDoor(t) // 128 KiB for all, 64 KiB for one
	job := d.addJob(jobs.Job{Keyring: keyring(t, "s3cret")})
	path := "/webhooks/acme/" + job.ID.String()
	body := strings.Repeat(" ", 60<<10) + "{}"

	var held []func([]providers.Ending)
	taken := make(chan struct{}, 2)
	d.settler.settle = func(w *providers.Work, done func([]providers.Ending)) error {
		held = append(held, done)
		taken <- struct{}{}
		return nil
	}
	answered := make(chan int, 2)
	for range 2 {
		go func() { answered <- d.send(path, "s3cret", body).Code }()
		<-taken
	}
	if got := d.send(path, "s3cret", body); got.Code != 503 {
		t.Errorf("status %d for a body over the budget, want 503", got.Code)
	}
	if n := d.metric(t, "gateway_requests_rejected_total", "acme", "overloaded"); n != 1 {
		t.Errorf("overloaded %v, want 1", n)
	}
	for _, done := range held {
		done([]providers.Ending{{}})
		<-answered
	}
	d.settler.settle = nil
	if got := d.send(path, "s3cret", body); got.Code != 200 {
		t.Errorf("status %d once the bodies are gone, want 200", got.Code)
	}
}

func TestMetricsStartAtZero(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	problems, err := testutil.GatherAndLint(d.reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
	for _, reason := range []string{"unsigned", "mismatch", "stale", "too_large", "slow", "broken", "no_secret", "unconfirmed", "overloaded"} {
		if n := d.metric(t, "gateway_requests_rejected_total", "acme", reason); n != 0 {
			t.Errorf("%s is born at %v", reason, n)
		}
	}
}

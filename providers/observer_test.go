package providers_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// onlooker keeps what it is shown.
type onlooker struct {
	refused bool
	seen    []providers.Observation
}

func (o *onlooker) WantsRefused() bool { return o.refused }

func (o *onlooker) Observe(seen providers.Observation) { o.seen = append(o.seen, seen) }

// last returns what it was shown since the last time, which must be at most one request.
func (o *onlooker) last(t *testing.T) (providers.Observation, bool) {
	t.Helper()
	seen := o.seen
	o.seen = nil
	switch len(seen) {
	case 0:
		return providers.Observation{}, false
	case 1:
		return seen[0], true
	}
	t.Fatalf("%d observations of one request", len(seen))
	return providers.Observation{}, false
}

// watched is a door whose requests are shown to the onlooker.
func watched(t *testing.T, look providers.Observer) *door {
	t.Helper()
	d := newDoor(t)
	receiver := providers.NewReceiver([]providers.Provider{acme{}}, d.gate, providers.Limits{
		Body: 64 << 10, BodyBudget: 128 << 10, Read: time.Second, Settle: time.Second,
	}, providers.Deps{Registerer: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler), Observer: look})
	e := echo.New()
	receiver.Mount(e)
	d.handler = e
	return d
}

func TestObserver(t *testing.T) {
	t.Parallel()
	look := &onlooker{refused: true}
	d := watched(t, look)
	job := d.addJob(jobs.Job{Keyring: keyring(t, "mine")})
	path := "/webhooks/acme/" + job.ID.String()
	const body = `{"id":"1","type":"a"}`
	by := jobs.Verifier{Kind: jobs.ByJob, ID: job.ID}

	for _, tt := range []struct {
		name, secret, body string
		want               providers.Observation
		items              int
	}{
		{"kept", "mine", body, providers.Observation{VerifiedBy: by, Status: 200}, 1},
		{"malformed", "mine", "no", providers.Observation{VerifiedBy: by, Status: 200}, 1},
		{"handshake", "mine", "ping", providers.Observation{VerifiedBy: by, Status: 200, Answer: "pong"}, 0},
		{"mismatch", "another", body, providers.Observation{Status: 401, Note: "mismatch"}, 0},
		{"unsigned", "", body, providers.Observation{Status: 401, Note: "unsigned"}, 0},
	} {
		d.send(path+"?q=1", tt.secret, tt.body)
		got, ok := look.last(t)
		if !ok || len(got.Items) != tt.items || len(got.Endings) != tt.items || string(got.Body) != tt.body || got.URI != path+"?q=1" ||
			got.Target.Job != job.ID || got.Provider != "acme" || time.Since(got.ReceivedAt) > time.Minute || got.Header == nil ||
			got.VerifiedBy != tt.want.VerifiedBy || got.Status != tt.want.Status || got.Answer != tt.want.Answer || got.Note != tt.want.Note {
			t.Errorf("%s: shown %+v", tt.name, got)
		}
	}
}

func TestObserverSkipsHandshakes(t *testing.T) {
	t.Parallel()
	look := &onlooker{refused: true}
	d := watched(t, look)
	job := d.addJob(jobs.Job{Keyring: keyring(t, "mine")})
	path := "/webhooks/acme/" + job.ID.String()
	probe := func(r *http.Request) { r.Header.Set("Content-Type", "probe") }
	if got := d.do(httptest.NewRequest(http.MethodGet, path+"?challenge=x", nil)); got.Body.String() != "x" {
		t.Fatalf("challenge answered %q", got.Body)
	}
	d.do(httptest.NewRequest(http.MethodGet, path, nil))
	if got := d.send(path, "", "probe=1", probe); got.Code != http.StatusOK {
		t.Fatalf("probe answered %d", got.Code)
	}
	if got, ok := look.last(t); ok {
		t.Errorf("shown %+v", got)
	}
	// What only looks like a probe is refused, with the body that was read to find out.
	d.send(path, "", "probe=2", probe)
	if got, ok := look.last(t); !ok || string(got.Body) != "probe=2" {
		t.Errorf("shown %+v", got)
	}
}

func TestObserverUnsignedBody(t *testing.T) {
	t.Parallel()
	look := &onlooker{}
	d := watched(t, look)
	path := "/webhooks/acme/" + d.addJob(jobs.Job{}).ID.String()
	d.send(path, "", "unread")
	if got, ok := look.last(t); !ok || len(got.Body) != 0 {
		t.Errorf("not wanted, but shown %+v", got)
	}
	look.refused = true
	for _, tt := range []struct{ sent, least, most int }{
		{10, 10, 10}, {64 << 10, 64 << 10, 64 << 10}, {70 << 10, 0, providers.MaxProbe + 1},
	} {
		for range 4 { // the budget holds two of the largest: it is given back
			d.send(path, "", strings.Repeat("x", tt.sent))
			if got, ok := look.last(t); !ok || len(got.Body) < tt.least || len(got.Body) > tt.most || got.Note != "unsigned" {
				t.Errorf("of %d bytes %d are shown", tt.sent, len(got.Body))
			}
		}
	}
}

// The right outcome of a request that was turned away unread is not known, so a capture of it would expect
// the wrong thing.
func TestObserverSkipsUnread(t *testing.T) {
	t.Parallel()
	look := &onlooker{}
	d := watched(t, look)
	job := d.addJob(jobs.Job{Keyring: keyring(t, "mine")})
	path, body := "/webhooks/acme/"+job.ID.String(), `{"id":"1"}`
	d.settler.full = true
	if got := d.send(path, "mine", body); got.Code != 503 {
		t.Fatalf("status %d, want 503", got.Code)
	}
	if seen, any := look.last(t); any {
		t.Errorf("it was shown %+v", seen)
	}
	d.settler.full = false
	d.send(path, "mine", body)
	if seen, any := look.last(t); !any || seen.Status != 200 || len(seen.Items) != 1 {
		t.Errorf("once there was room again it was shown %+v", seen)
	}
}

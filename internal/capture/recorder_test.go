package capture

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// held is a directory of one source with one job.
type held struct {
	source jobs.Source
	job    jobs.Job
}

func (h *held) Current() *jobs.Snapshot {
	return jobs.NewSnapshot([]*jobs.Source{&h.source}, []*jobs.Job{&h.job})
}

func slackHeld() *held {
	h := &held{source: jobs.Source{ID: uuid.New(), Provider: "slack", Name: "main", Pins: []jobs.Identity{{Name: "api_app_id", Value: "A1"}}}}
	h.job = jobs.Job{ID: uuid.New(), Provider: "slack", SourceID: h.source.ID, Pins: []jobs.Identity{{Name: "team_id", Value: "T1"}}}
	return h
}

// recorder returns one over folders of the test's, and what it logs.
func recorder(t *testing.T, h *held, edit ...func(*Options)) (*Recorder, Options, *bytes.Buffer) {
	t.Helper()
	var logged bytes.Buffer
	root := t.TempDir()
	o := Options{
		Folder: filepath.Join(root, "captures"), Files: 100, Bytes: 1 << 20, Refused: filepath.Join(root, "refused"),
		Vendors: []providers.Provider{slack.New(), nylas.New()},
		Log:     slog.New(slog.NewJSONHandler(&logged, nil)),
	}
	for _, f := range edit {
		f(&o)
	}
	r, err := NewRecorder(o, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Stop)
	return r, o, &logged
}

// accepted is a verified event that was kept.
func (h *held) accepted(body string) providers.Observation {
	p := slack.New()
	deliveries, err := p.Parse("application/json", []byte(body))
	item := providers.Item{Job: h.job.ID}
	if err != nil {
		item = providers.Item{Reason: drops.Malformed}
	} else {
		item.Delivery = deliveries[0]
	}
	return providers.Observation{
		Provider: "slack", Target: providers.Target{Source: "main"}, URI: "/webhooks/slack/sources/main",
		Header: http.Header{"Content-Type": {"application/json"}, "X-Slack-Signature": {"v0=00"}, "X-Slack-Request-Timestamp": {"1"}, "Cookie": {"c"}, "X-Slack-Retry-Num": {"1"}},
		Body:   []byte(body), ReceivedAt: time.Now(), VerifiedBy: jobs.Verifier{Kind: jobs.BySource, ID: h.source.ID},
		Items: []providers.Item{item}, Endings: []providers.Ending{{Dropped: item.Reason}}, Status: 200,
	}
}

func refusedOf(o providers.Observation, why string) providers.Observation {
	o.VerifiedBy, o.Items, o.Endings, o.Status, o.Note = jobs.Verifier{}, nil, nil, 401, why
	return o
}

// recorded lists the captures in a folder, which must be the owner's alone.
func recorded(t *testing.T, folder string) []*Capture {
	t.Helper()
	list, err := LoadAll(folder)
	if err != nil && !errors.Is(err, ErrNone) {
		t.Fatal(err)
	}
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if want := map[bool]os.FileMode{true: 0o700, false: 0o600}[d.IsDir()]; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestRecorderCaptureReplays(t *testing.T) {
	t.Parallel()
	h := slackHeld()
	r, o, logged := recorder(t, h)
	r.Observe(h.accepted(slackEvent))
	duplicate := h.accepted(slackEvent)
	duplicate.Endings[0].Dropped = drops.Duplicate
	r.Observe(duplicate)
	onJob := h.accepted(slackEvent)
	onJob.Target, onJob.URI = providers.Target{Job: h.job.ID}, "/webhooks/slack/"+h.job.ID.String()+"?a=1"
	r.Observe(onJob)
	handshake := h.accepted(`{"type":"url_verification","challenge":"abc"}`)
	handshake.Items, handshake.Endings, handshake.Answer = nil, nil, "abc"
	r.Observe(handshake)
	unknown := h.accepted(slackEvent)
	unknown.Items[0].Job, unknown.Items[0].Reason = uuid.Nil, drops.UnknownJob
	r.Observe(unknown)
	r.Stop()

	list := recorded(t, o.Folder)
	if len(list) != 5 || logged.Len() > 0 {
		t.Fatalf("%d captures; logged %s", len(list), logged)
	}
	seen := make(map[string]int)
	for _, c := range list {
		text, err := Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"v0=00", "secret-token", "Cookie"} {
			if strings.Contains(string(text)+string(c.Content), secret) {
				t.Errorf("%q was written:\n%s", secret, text)
			}
		}
		job := "-"
		if c.Job != nil {
			job = c.Job.Pins["team_id"]
		}
		seen[c.Target+" "+job+" "+c.Expect.Once.Outcomes.String()]++
		if c.Source.Name != "main" || c.Source.Pins["api_app_id"] != "A1" || c.Value("X-Slack-Retry-Num") != "1" {
			t.Errorf("%s", text)
		}
	}
	want := map[string]int{
		"/webhooks/slack/sources/{source} T1 accepted 1":   2,
		"/webhooks/slack/{job}?a=1 T1 accepted 1":          1,
		"/webhooks/slack/sources/{source} - handshake 1":   1,
		"/webhooks/slack/sources/{source} - unknown_job 1": 1,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

func TestExpectedFingerprint(t *testing.T) {
	t.Parallel()
	h := slackHeld()
	r, o, _ := recorder(t, h)
	p := slack.New()
	seen := h.accepted(slackEvent)
	const form = "application/x-www-form-urlencoded"
	seen.Header.Set("Content-Type", form)
	seen.Body = []byte("token=secret&team_id=T1&command=%2Fa&trigger_id=1.2")
	deliveries, err := p.Parse(form, seen.Body)
	if err != nil {
		t.Fatal(err)
	}
	seen.Items[0].Delivery = deliveries[0]
	r.Observe(seen)
	r.Stop()
	c := recorded(t, o.Folder)[0]
	if now, err := p.Parse(form, c.Content); err != nil || len(c.Expect.Stored) != 1 || c.Expect.Stored[0].Hash != now[0].Hash || now[0].Hash == deliveries[0].Hash {
		t.Errorf("%+v, %v", c.Expect, err)
	}
}

func TestRecorderKeepsRefused(t *testing.T) {
	t.Parallel()
	h := slackHeld()
	r, o, _ := recorder(t, h)
	r.Observe(refusedOf(h.accepted(slackEvent), "mismatch"))
	r.Stop()
	list := recorded(t, o.Refused)
	if len(list) != 1 || len(recorded(t, o.Folder)) != 0 {
		t.Fatalf("%d captures", len(list))
	}
	c := list[0]
	if c.Sign.Mode != Kept || string(c.Content) != slackEvent || c.Value("X-Slack-Signature") != "v0=00" || c.Value("X-Slack-Request-Timestamp") != "1" ||
		c.Value("Cookie") != "" || c.Expect.Once.Outcomes["mismatch"] != 1 || c.Expect.Once.Status != 401 {
		t.Errorf("%+v", c)
	}
	if _, err := c.Request(t.Context(), "http://h", Place{}, plainly, nil); !errors.Is(err, ErrNotReplayed) {
		t.Errorf("it would be replayed: %v", err)
	}
}

func TestWhatIsOffIsOff(t *testing.T) {
	t.Parallel()
	h := slackHeld()
	r, o, _ := recorder(t, h, func(o *Options) { o.Refused = "" })
	if r.WantsRefused() {
		t.Error("it wants refused requests")
	}
	r.Observe(refusedOf(h.accepted(slackEvent), "mismatch"))
	r.Stop()
	if n := len(recorded(t, o.Folder)); n != 0 {
		t.Errorf("%d captures", n)
	}
	r, o, _ = recorder(t, h, func(o *Options) { o.Folder = "" })
	r.Observe(h.accepted(slackEvent))
	r.Stop()
	if n := len(recorded(t, o.Refused)); n != 0 {
		t.Errorf("%d captures", n)
	}
}

func TestRecorderLimits(t *testing.T) {
	t.Parallel()
	h := slackHeld()
	few, o, logged := recorder(t, h, func(o *Options) { o.Files = 3 })
	for range 10 {
		few.Observe(h.accepted(slackEvent))
	}
	few.Stop()
	if n := len(recorded(t, o.Folder)); n != 3 || strings.Count(logged.String(), "GATEWAY_CAPTURE_FILES") != 1 {
		t.Errorf("%d captures, want 3, and one line of %s", n, logged)
	}
	again, err := NewRecorder(o, h)
	if err != nil {
		t.Fatal(err)
	}
	again.Observe(h.accepted(slackEvent))
	again.Stop()
	if n := len(recorded(t, o.Folder)); n != 3 {
		t.Errorf("%d captures after another start", n)
	}

	small, o, _ := recorder(t, h, func(o *Options) { o.Bytes = 64<<10 + int64(2*len(slackEvent)) })
	for range 3 {
		small.Observe(h.accepted(slackEvent))
	}
	big := strings.Replace(slackEvent, "message", strings.Repeat("m", 65<<10), 1)
	small.Observe(h.accepted(big))
	small.Stop()
	if n := len(recorded(t, o.Folder)); n != 3 {
		t.Errorf("%d captures, want the 3 that fit", n)
	}
}

func TestRecorderRefusedLimits(t *testing.T) {
	t.Parallel()
	h := slackHeld()
	r, o, _ := recorder(t, h)
	now := time.Now().Add(-30 * time.Minute)
	for n := range 100 {
		seen := refusedOf(h.accepted(slackEvent), "mismatch")
		seen.ReceivedAt = now.Add(time.Duration(n) * 100 * time.Millisecond)
		r.Observe(seen)
	}
	r.Stop()
	if n := len(recorded(t, o.Refused)); n != refusedAMinute {
		t.Errorf("%d of a flood are kept, want %d", n, refusedAMinute)
	}
	r, _, _ = recorder(t, h, func(into *Options) { *into = o })
	for n := range 8 * refusedAMinute {
		seen := refusedOf(h.accepted(slackEvent), "mismatch")
		seen.ReceivedAt = now.Add(time.Duration(n/refusedAMinute+1) * 61 * time.Second)
		r.Observe(seen)
	}
	r.Stop()
	list := recorded(t, o.Refused)
	if len(list) != refusedFiles || list[0].ReceivedAt.Before(now.Add(2*time.Minute)) {
		t.Errorf("%d are kept, the oldest of %s", len(list), list[0].ReceivedAt)
	}
	other := filepath.Join(o.Refused, "slack", "somebody-elses")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := trim(filepath.Join(o.Refused, "slack"), now.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Join(o.Refused, "slack")); err != nil || len(entries) != 1 {
		t.Errorf("%d entries after their time, %v; want the one that is not ours", len(entries), err)
	}
}

func TestRecorderNeverBlocks(t *testing.T) {
	t.Parallel()
	h := slackHeld()
	r, o, logged := recorder(t, h)
	if err := os.RemoveAll(o.Folder); err != nil {
		t.Fatal(err)
	}
	for range 3 * maxWaiting { // more than may wait, however fast they are written
		r.Observe(h.accepted(slackEvent))
	}
	r.Stop()
	if !strings.Contains(logged.String(), "request not captured") || strings.Contains(logged.String(), "secret-token") || strings.Contains(logged.String(), "Ev1") {
		t.Errorf("logged %.300s", logged)
	}
	r.Observe(h.accepted(slackEvent)) // after its end
	gone := h.accepted(slackEvent)
	gone.Provider = "nobody"
	r.Observe(gone)
}

func TestRecorderCompressedBody(t *testing.T) {
	t.Parallel()
	h := slackHeld()
	r, o, logged := recorder(t, h)
	seen := h.accepted(slackEvent)
	seen.Body = zipped(t, slackEvent)
	seen.Header.Set("Content-Encoding", "gzip")
	r.Observe(seen)
	clean := seen
	clean.Body = zipped(t, strings.Replace(slackEvent, `"token":"secret-token",`, "", 1))
	r.Observe(clean)
	r.Stop()
	list := recorded(t, o.Folder)
	if len(list) != 1 || !bytes.Equal(list[0].Content, clean.Body) || list[0].Body.File != "body.gz" {
		t.Errorf("%d captures", len(list))
	}
	if !strings.Contains(logged.String(), "verification token") {
		t.Errorf("logged %s", logged)
	}
}

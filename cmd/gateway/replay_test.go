package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/test/replay"
)

const testdata = "../../test/replay/testdata"

// replayed starts a gateway at which everybody is registered whom the captures need.
func replayed(t *testing.T, paths ...string) (*running, *cli) {
	t.Helper()
	r, c := sender(t)
	replay.Register(t, r.store, replay.Load(t, paths...), "")
	return r, c
}

// report is what replay --json prints.
func (r result) replay(t *testing.T) replayJSON {
	t.Helper()
	var out replayJSON
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
		t.Fatalf("%v: %s%s", err, r.stdout, r.err)
	}
	return out
}

func TestReplayCommitted(t *testing.T) {
	t.Parallel()
	nylas, slack := testdata+"/nylas", testdata+"/slack"
	r, c := replayed(t, nylas, slack)
	n := len(replay.Load(t, nylas, slack))

	first := c.run("replay", nylas, slack, "--target", r.url, "--concurrency", "4", "--json")
	report := first.replay(t)
	if first.status != exitOK || !report.Held || !report.OutcomesChecked || len(report.Captures) != n || report.Sent != n {
		t.Errorf("status %d, %d captures of %d: %s", first.status, len(report.Captures), n, first.err)
	}
	for _, a := range report.Captures {
		if !a.Held {
			t.Errorf("%s: %v", a.Name, a.Problems)
		}
	}
	// What is kept now is a duplicate from then on, and that is as it should be.
	again := c.run("replay", nylas, slack, "--target", r.url, "--times", "3", "--concurrency", "4", "--shuffle", "--json")
	report = again.replay(t)
	if again.status != exitOK || report.Sent != 3*n || report.Seed == 0 {
		t.Errorf("again: status %d, %d sent: %s", again.status, report.Sent, again.err)
	}
	for _, a := range report.Captures {
		if !a.Held {
			t.Errorf("%s again: %v", a.Name, a.Problems)
		}
		if a.Name == "message-channels" && (a.Outcomes["duplicate"] != 3 || a.Expected["duplicate"] != 3) {
			t.Errorf("%s again: became %v", a.Name, a.Outcomes)
		}
	}
}

func TestReplayTwentyAtOnceIsOneRow(t *testing.T) {
	t.Parallel()
	r, c := replayed(t, testdata+"/slack/message-im", testdata+"/nylas/deltas-five")
	got := c.run("replay", testdata+"/slack/message-im", testdata+"/nylas/deltas-five/delivery.yaml", "--target", r.url, "--times", "20", "--concurrency", "20")
	for _, says := range []string{"CAPTURE", "message-im", "200×20", "accepted 1, duplicate 19", "deltas-five", "accepted 5, duplicate 95", "yes"} {
		if got.status != exitOK || !strings.Contains(got.stdout, says) {
			t.Errorf("status %d, does not say %q:\n%s%s", got.status, says, got.stdout, got.err)
		}
	}
	r.wantDeliveries(6)
}

func TestReplayPlaysAScenario(t *testing.T) {
	t.Parallel()
	r, c := replayed(t, testdata+"/slack/slash-command")
	got := c.run("replay", testdata+"/scenarios/forgeries-between.yaml", "--target", r.url, "--hurry", "--json")
	report := got.replay(t)
	if got.status != exitOK || len(report.Captures) != 6 || report.Sent != 10 {
		t.Errorf("status %d: %+v %s", got.status, report, got.err)
	}
	r.wantDeliveries(1)
}

// copied copies a capture, with its description edited.
func copied(t *testing.T, from string, edit func(string) string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text := string(readFile(t, filepath.Join(from, e.Name())))
		if e.Name() == capture.File {
			text = edit(text)
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReplayUnexpected(t *testing.T) {
	t.Parallel()
	from := testdata + "/slack/message-im"
	r, c := replayed(t, from)
	for _, tt := range []struct{ name, old, new, says string }{
		{"status", "  once:\n    status: 200", "  once:\n    status: 401", "answered 200, want 401"},
		{"outcome", "outcomes: {accepted: 1}", "outcomes: {malformed: 1}", "want malformed 1"},
		{"answer", "  once:\n    status: 200", "  once:\n    status: 200\n    answer: hello", `a body other than "hello"`},
	} {
		dir := copied(t, from, func(text string) string {
			edited := strings.Replace(text, tt.old, tt.new, 1)
			if edited == text {
				t.Errorf("%s: nothing is edited in %s", tt.name, text)
			}
			return edited
		})
		got := c.run("replay", dir, "--target", r.url)
		if got.status != exitMismatch || !strings.Contains(got.stdout, "NO: ") || !strings.Contains(got.stdout, tt.says) || !strings.Contains(got.err, "1 of 1 outcomes were not as expected") {
			t.Errorf("%s: status %d\n%s%s", tt.name, got.status, got.stdout, got.err)
		}
		report := c.run("replay", dir, "--target", r.url, "--json").replay(t)
		if report.Held || len(report.Captures) != 1 || len(report.Captures[0].Problems) == 0 {
			t.Errorf("%s: %+v", tt.name, report)
		}
	}
	// A gateway that keeps nothing of what it acknowledges.
	liar := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer liar.Close()
	c.exec(`DELETE FROM agent.idempotency_keys`)
	if got := c.run("replay", from, "--target", liar.URL); got.status != exitMismatch || !strings.Contains(got.stdout, "outcomes duplicate 1, want accepted 1") {
		t.Errorf("a liar: status %d\n%s%s", got.status, got.stdout, got.err)
	}
}

// secretsFile writes a file of secrets.
func secretsFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secrets.yaml")
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestReplayWithSecretsFile(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	r.addSource("slack", "theirs", slackSecret)
	r.addJob(jobs.NewJob{Provider: "slack", Source: "theirs", Pins: []jobs.Identity{{Name: "team_id", Value: "T0REPLAY001"}}})
	file := secretsFile(t, "slack-app: {path: /webhooks/slack/sources/theirs, secret: "+slackSecret+"}\n", 0o600)
	got := call(t, untouched{t}, "replay", testdata+"/slack/message-im", "--target", r.url, "--secrets", file, "--json")
	report := got.replay(t)
	if got.status != exitOK || report.OutcomesChecked || report.Captures[0].Statuses[200] != 1 || report.Captures[0].Outcomes != nil {
		t.Errorf("status %d: %+v %s", got.status, report, got.err)
	}
	r.wantDeliveries(1)
	if strings.Contains(got.stdout+got.err, slackSecret) {
		t.Error("the secret is printed")
	}
}

func TestReplayMissingSource(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer s.Close()
	slack, nylas := testdata+"/slack", testdata+"/nylas"
	r, c := replayed(t, slack)
	c.run("replay", slack, nylas, "--target", s.URL).wants(t, exitConfig,
		`no nylas source is called "nylas-app" or pins application_id=`, `no nylas source is called "nylas-bare"`, `no nylas job is "nylas-own"`)

	entry := "slack-app: {path: /webhooks/slack/sources/main, secret: abc}\n"
	for _, tt := range []struct {
		text string
		mode os.FileMode
		says []string
	}{
		{entry, 0o600, []string{`slack job "slack-own" is not in the secrets file`, `nylas source "nylas-app" is not in the secrets file`}},
		{entry, 0o644, []string{"has mode 0644", "chmod 600"}},
		{entry, 0o640, []string{"has mode 0640"}},
		{"slack-app: {path: /webhooks/nylas/sources/main, secret: abc}\n", 0o600, []string{`the path of "slack-app" is not one of slack's`}},
		{"slack-app: {path: main, secret: abc}\nnylas-app: {path: /webhooks/nylas/x, secret: ' '}\n", 0o600, []string{"slack-app has no path like", "nylas-app has no secret"}},
		{"slack-app: abc-secret\n", 0o600, []string{"does not map names"}},
		{"slack-app: {path: /webhooks/slack/x, secret: abc, more: abc-secret}\n", 0o600, []string{"does not map names"}},
	} {
		got := call(t, untouched{t}, "replay", slack, nylas, "--target", s.URL, "--secrets", secretsFile(t, tt.text, tt.mode))
		got.wants(t, exitConfig, tt.says...)
		if strings.Contains(got.err, "abc-secret") {
			t.Errorf("the file is quoted: %s", got.err)
		}
	}
	call(t, untouched{t}, "replay", slack, "--target", s.URL, "--dir", t.TempDir(), "--config", cliFor(t, "", "").file).wants(t, exitConfig, "--secrets FILE")
	if calls.Load() != 0 {
		t.Errorf("%d requests were sent", calls.Load())
	}
	_ = r
}

func TestReplayRefusesBeforeItSends(t *testing.T) {
	t.Parallel()
	im := testdata + "/slack/message-im"
	kept := copied(t, im, func(text string) string { return strings.Replace(text, "mode: resign", "mode: kept", 1) })
	broken := copied(t, im, func(text string) string { return strings.Replace(text, "sha256: ", "sha256: 00", 1) })
	for _, tt := range []struct {
		args string
		says string
	}{
		{"", "which captures?"},
		{im, "--target is missing"},
		{im + " --target 127.0.0.1:8080", "write the gateway's address"},
		{im + " --target http://127.0.0.1:8080/webhooks", "without a path"},
		{im + " --target ftp://127.0.0.1", "write the gateway's address"},
		{im + " --target http://user:pass@127.0.0.1", "write the gateway's address"},
		{im + " --target http://192.0.2.7:8080", "is not this machine"},
		{im + " --target https://hooks.example.com", "add --yes"},
		{im + " --target http://127.0.0.1 --times 0", "--times 0"},
		{im + " --target http://127.0.0.1 --concurrency 257", "--concurrency 257"},
		{im + " --target http://127.0.0.1 --rate -1", "--rate -1"},
		{im + " --target http://127.0.0.1 --timeout 0s", "--timeout 0s"},
		{testdata + "/scenarios/slack-retries.yaml --target http://127.0.0.1 --times 2", "is a scenario"},
		{testdata + "/scenarios/none.yaml --target http://127.0.0.1", "none.yaml"},
		{t.TempDir() + " --target http://127.0.0.1", "no captures"},
		{kept + " --target http://127.0.0.1", "for gateway doctor"},
		{broken + " --target http://127.0.0.1", "was it edited"},
		{testdata + "/vectors/slack/documentation --target http://127.0.0.1", "its recorded signature is valid only"},
	} {
		call(t, untouched{t}, append([]string{"replay"}, strings.Fields(tt.args)...)...).wants(t, exitUsage, tt.says)
	}
}

func TestReplayNoAnswerNoRedirect(t *testing.T) {
	t.Parallel()
	im := testdata + "/slack/message-im"
	file := secretsFile(t, "slack-app: {path: /webhooks/slack/sources/main, secret: abc}\n", 0o600)
	got := call(t, untouched{t}, "replay", im, "--target", "http://127.0.0.1:1", "--secrets", file)
	if got.status != exitUnreachable || !strings.Contains(got.err, "no gateway answers at http://127.0.0.1:1") || !strings.Contains(got.stdout, "1 of 1 had no answer") {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.err)
	}
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	got = call(t, untouched{t}, "replay", im, "--target", s.URL, "--secrets", file)
	if got.status != exitMismatch || !strings.Contains(got.stdout, "1 answered 307, want 200") || elsewhere.Load() != 0 {
		t.Errorf("status %d, %d calls elsewhere\n%s%s", got.status, elsewhere.Load(), got.stdout, got.err)
	}
}

func TestSign(t *testing.T) {
	t.Parallel()
	r, c := sender(t)
	one, _ := slackTown(r)
	nylasTown(r)
	body := slackEvent("T1", "Ev1", "a\nb") + "\n\n"
	for _, tt := range []struct{ args, path, body string }{
		{"--provider slack --source main", "/webhooks/slack/sources/main", body},
		{"--provider slack --job " + one.ID.String(), providers.JobPath("slack", one.ID), body},
		{"--provider nylas --source main", "/webhooks/nylas/sources/main", nylasMessage("G1", "n1", 1)},
	} {
		args := append([]string{"sign"}, strings.Fields(tt.args)...)
		got := c.with(tt.body, args...)
		header := make(http.Header)
		for line := range strings.Lines(got.stdout) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			header.Set(name, value)
		}
		if got.status != exitOK || len(header) == 0 {
			t.Errorf("%s: status %d, %s%s", tt.args, got.status, got.stdout, got.err)
		}
		r.ack(r.post(tt.path, []byte(tt.body), header))

		asJSON := c.with(tt.body, append(args, "--json")...).json(t)["headers"].(map[string]any)
		header = make(http.Header)
		for name, value := range asJSON {
			header.Set(name, value.(string))
		}
		r.ack(r.post(tt.path, []byte(tt.body), header))
	}
	r.wantDeliveries(2)

	old := c.with(body, "sign", "--provider", "slack", "--source", "main", "--age", "6m", "--json").json(t)["headers"].(map[string]any)
	header := make(http.Header)
	for name, value := range old {
		header.Set(name, value.(string))
	}
	if got := r.post("/webhooks/slack/sources/main", []byte(body), header); got.status != http.StatusUnauthorized {
		t.Errorf("signed six minutes ago: %d", got.status)
	}
}

func TestSignSecretsFile(t *testing.T) {
	t.Parallel()
	file := secretsFile(t, "theirs: {path: /webhooks/nylas/sources/main, secret: "+nylasSecret+"}\n", 0o600)
	got := call(t, strings.NewReader("test"), "sign", "--provider", "nylas", "--source", "theirs", "--secrets", file)
	if want := fmt.Sprintf("X-Nylas-Signature: %s\n", nylas.New().Sign(nylasSecret, []byte("test"), time.Time{})["X-Nylas-Signature"][0]); got.status != exitOK || got.stdout != want {
		t.Errorf("status %d: %s", got.status, cmp.Diff(want, got.stdout))
	}
	for _, tt := range []struct {
		args   string
		status int
		says   string
	}{
		{"--source a", exitUsage, "--provider is missing"},
		{"--provider teams --source a", exitUsage, "unknown"},
		{"--provider slack", exitUsage, "give either --source NAME or --job NAME"},
		{"--provider slack --source a --job b", exitUsage, "either --source"},
		{"--provider slack --source a --secrets " + file, exitConfig, `slack source "a" is not in the secrets file`},
		{"--provider slack --source theirs --secrets " + file, exitConfig, "is not one of slack's"},
	} {
		call(t, untouched{t}, append([]string{"sign"}, strings.Fields(tt.args)...)...).wants(t, tt.status, tt.says)
	}
	_, c := sender(t)
	c.run("sign", "--provider", "slack", "--source", "nope").wants(t, exitFailed, `no slack source is called "nope"`)
	c.run("sign", "--provider", "slack", "--job", testOrg).wants(t, exitFailed, "slack has no job")
}

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/configs"
	"webhook-gateway/feed"
	"webhook-gateway/internal/capture"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
	"webhook-gateway/test/binary"
	"webhook-gateway/test/replay"
)

// stored is a row of the inbox, as far as a replay must make the same again.
type stored struct{ Key, Type, Hash, Order, ContentType, Encoding, Headers, Body string }

func (r *running) inboxOf(job uuid.UUID) map[string]stored {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), `SELECT delivery_key, event_type, request_hash, ordering_key, content_type, content_encoding, headers::text, body
		FROM agent.webhook_deliveries WHERE job_id = $1`, job)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]stored)
	for rows.Next() {
		var s stored
		var body []byte
		if err := rows.Scan(&s.Key, &s.Type, &s.Hash, &s.Order, &s.ContentType, &s.Encoding, &s.Headers, &body); err != nil {
			r.t.Fatal(err)
		}
		_, s.Key, _ = strings.Cut(s.Key, "/") // the job is another one elsewhere
		s.Body = string(body)
		all[s.Key] = s
	}
	return all
}

func TestServeCapturesReplay(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "captures")
	first := startGateway(t, func(c *configs.Config) { c.CaptureDir = dir })
	slackJob, _ := slackTown(first)
	nylasJob, _ := nylasTown(first)
	event := strings.Replace(slackEvent("T1", "Ev1", "<hi> é"), `"token":"t"`, `"token":""`, 1) // without a token all of it stays
	first.ack(first.postSlack("/webhooks/slack/sources/main", slackSecret, event))
	first.ack(first.post(providers.JobPath("slack", slackJob.ID)+"?a=1", []byte(strings.Replace(event, "Ev1", "Ev2", 1)),
		slack.New().Sign(slackSecret, []byte(strings.Replace(event, "Ev1", "Ev2", 1)), now()), http.Header{"X-Slack-Retry-Num": {"1"}, "Cookie": {"secret-cookie"}}))
	gz := zipped(t, nylasMessage("G1", "n1", 1))
	first.ack(first.post("/webhooks/nylas/sources/main", gz, nylas.New().Sign(nylasSecret, gz, now()), http.Header{"Content-Encoding": {"gzip"}}))
	if got := first.postNylas("/webhooks/nylas/sources/main", "forged", nylasMessage("G1", "n2", 1)); got.status != http.StatusUnauthorized {
		t.Fatal(got)
	}
	want := []map[string]stored{first.inboxOf(slackJob.ID), first.inboxOf(nylasJob.ID)}

	list := waitForCaptures(t, dir, 3)
	for _, c := range list {
		if text, err := capture.Encode(c); err != nil || strings.Contains(string(text), "secret-cookie") || strings.Contains(string(text), "ignature") {
			t.Errorf("%v\n%s", err, text)
		}
	}
	// Another gateway, on another database, where the same tenants are registered under other ids.
	second, c := sender(t)
	again, _ := slackTown(second)
	nylasAgain, _ := nylasTown(second)
	if got := c.run("replay", dir, "--target", second.url, "--times", "2"); got.status != exitOK {
		t.Fatalf("%s%s", got.stdout, got.err)
	}
	if diff := cmp.Diff(want, []map[string]stored{second.inboxOf(again.ID), second.inboxOf(nylasAgain.ID)}); diff != "" {
		t.Error(diff)
	}
}

// waitForCaptures waits until a recorder has written n captures.
func waitForCaptures(t *testing.T, dir string, n int) []*capture.Capture {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); time.Now().Before(deadline); {
		if list, err := capture.LoadAll(dir); err == nil && len(list) >= n {
			return list
		}
	}
	t.Fatal("its captures were not written")
	return nil
}

func TestRefusedCaptureNotReplayed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "refused")
	r := startGateway(t, func(c *configs.Config) { c.RejectedDir = dir })
	slackTown(r)
	body := slackEvent("T1", "Ev1", "hi")
	r.postSlack("/webhooks/slack/sources/main", "forged", body)
	r.post("/webhooks/slack/sources/main", []byte(body)) // no signature: its body is read all the same
	r.ack(r.postSlack("/webhooks/slack/sources/main", slackSecret, body))
	list := waitForCaptures(t, dir, 2)
	for _, c := range list {
		if c.Sign.Mode != capture.Kept || string(c.Content) != body {
			t.Errorf("%+v", c)
		}
	}
	if len(list) != 2 {
		t.Errorf("%d captures", len(list))
	}
	cliFor(t, r.config.DatabaseURL.Reveal(), testKey).run("replay", dir, "--target", r.url).wants(t, exitUsage, "for gateway doctor")
}

func TestExportIsDuplicate(t *testing.T) {
	t.Parallel()
	paths := []string{testdata + "/nylas", testdata + "/slack"}
	r, c := replayed(t, paths...)
	if got := c.run("replay", paths[0], paths[1], "--target", r.url, "--concurrency", "4"); got.status != exitOK {
		t.Fatal(got.err)
	}
	kept := r.ids(`SELECT id FROM agent.webhook_deliveries ORDER BY id`)
	dropped := r.ids(`SELECT id FROM agent.webhook_drops ORDER BY id`)
	if len(kept) < 100 || len(dropped) < 20 {
		t.Fatalf("%d deliveries, %d drops", len(kept), len(dropped))
	}
	out := filepath.Join(t.TempDir(), "exported")
	made := c.json(append(append([]string{"export", "--out", out, "--keep-token"}, kept...), dropped...)...)["captures"].([]any)
	if len(made) != len(kept)+len(dropped) {
		t.Errorf("%d captures of %d", len(made), len(kept)+len(dropped))
	}
	const keyed, minted = `SELECT count(*) FROM agent.webhook_deliveries WHERE delivery_key NOT LIKE '%/' || id`, `SELECT count(*) FROM agent.webhook_deliveries WHERE delivery_key LIKE '%/' || id`
	before, own := r.count(keyed), r.count(minted)
	got := c.run("replay", out, "--target", r.url, "--concurrency", "4", "--json")
	report := got.replay(t)
	for _, a := range report.Captures {
		if !a.Held || len(a.Outcomes) == 0 {
			t.Errorf("%s: became %v, %v", a.Name, a.Outcomes, a.Problems)
		}
	}
	if after := r.count(keyed); after != before || got.status != exitOK {
		t.Errorf("%d rows with an id of the vendor's, and %d before; status %d", after, before, got.status)
	}
	r.wantCount(2*own, minted) // what has no id is its own every time, and nothing else is
}

func (r *running) ids(sql string) []string {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), sql)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			r.t.Fatal(err)
		}
		ids = append(ids, id.String())
	}
	return ids
}

func TestExportRemovesToken(t *testing.T) {
	t.Parallel()
	r, c := replayed(t, testdata+"/slack/message-im", testdata+"/slack/slash-command")
	if got := c.run("replay", testdata+"/slack/message-im", testdata+"/slack/slash-command", "--target", r.url); got.status != exitOK {
		t.Fatal(got.err)
	}
	ids := r.ids(`SELECT id FROM agent.webhook_deliveries ORDER BY event_type`)
	out := filepath.Join(t.TempDir(), "out")
	if got := c.run(append([]string{"export", "--out", out}, ids...)...); got.status != exitOK || strings.Count(got.stdout, out) != 2 {
		t.Fatal(got)
	}
	list, err := capture.LoadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range list {
		if bytes.Contains(made.Content, []byte("replay-token-0123456789")) || !strings.Contains(strings.Join(made.Scrubbed, " "), "token") {
			t.Errorf("%s: %v %s", made.Name, made.Scrubbed, made.Content)
		}
	}
	if info, err := os.Stat(filepath.Join(list[0].Dir, capture.File)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	// An event's content is without its token; a form's is its bytes.
	report := c.run("replay", out, "--target", r.url, "--json").replay(t)
	became := map[string]string{}
	for _, a := range report.Captures {
		if strings.Contains(a.Name, "slash") && !strings.Contains(strings.Join(a.Problems, ""), "--keep-token") {
			t.Errorf("%s: %v do not say why", a.Name, a.Problems)
		}
		became[strings.TrimRight(a.Name, "0123456789abcdef")] = capture.Outcomes(a.Outcomes).String()
	}
	if diff := cmp.Diff(map[string]string{"slack-message-": "duplicate 1", "slack-slash_command-": "hash_mismatch 1"}, became); diff != "" {
		t.Error(diff)
	}
}

func TestScrubbedReplays(t *testing.T) {
	t.Parallel()
	from := filepath.Join(t.TempDir(), "private")
	body := `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":"Rm3QxW7bT9","time":1,"webhook_delivery_attempt":1,` +
		`"data":{"application_id":"greta-app","object":{"grant_id":"greta-grant","subject":"Pay rise for Greta","from":[{"email":"greta@mountains.example.org"}]}}}`
	c := newCLI(t)
	raw := fmt.Sprintf("POST /webhooks/nylas/sources/gretas HTTP/1.1\r\nContent-Type: application/json\r\n\r\n%s", body)
	if got := c.with(raw, "import", "-", "--provider", "nylas", "--out", from); got.status != exitOK {
		t.Fatal(got.err)
	}
	out := filepath.Join(t.TempDir(), "shared")
	got := c.run("export", from, "--out", out, "--scrub")
	if got.status != exitOK || !strings.Contains(got.err, "type=message.created") {
		t.Fatal(got.status, got.err)
	}
	err := filepath.WalkDir(out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if text := readFile(t, path); bytes.Contains(text, []byte("reta")) || bytes.Contains(text, []byte("mountains")) || strings.Contains(path, "reta") {
			t.Errorf("%s:\n%s", path, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, c2 := sender(t)
	replay.Register(t, r.store, replay.Load(t, out), "")
	if got := c2.run("replay", out, "--target", r.url, "--times", "20", "--concurrency", "20"); got.status != exitOK || !strings.Contains(got.stdout, "accepted 1, duplicate 19") {
		t.Errorf("%s%s", got.stdout, got.err)
	}
}

func TestExportCurl(t *testing.T) {
	t.Parallel()
	r, c := replayed(t, testdata+"/slack/slash-command-two-words", testdata+"/nylas/message-created-gzip")
	// The commands call "gateway": this is one, with the settings of this test.
	path, err := binary.Path()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "gateway"), []byte("#!/bin/sh\nexec "+path+" --config "+c.file+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	got := c.run("export", testdata+"/slack/slash-command-two-words", testdata+"/nylas/message-created-gzip", "--curl", "--target", r.url)
	cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", got.stdout)
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("%v %s\n%s", err, out, got.stdout)
	}
	for _, dir := range []string{"slack/slash-command-two-words/body.form", "nylas/message-created-gzip/body.gz"} {
		r.wantDeliveries(1, feed.Filter{Bodies: [][]byte{readFile(t, filepath.Join(testdata, dir))}})
	}
}

func TestExportImportRefuse(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	dir := t.TempDir()
	im := testdata + "/slack/message-im"
	har := filepath.Join(dir, "a.har")
	if err := os.WriteFile(har, []byte(`{"log":{"entries":[{"request":{"method":"POST","url":"https://h/hook","headers":[],"bodySize":9,"postData":{"text":"{}"}}}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(dir, "a.http")
	if err := os.WriteFile(raw, []byte("POST /hook HTTP/1.1\r\n\r\n{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   string
		status int
		says   string
	}{
		{"export", exitUsage, "give the id of a delivery or a drop"},
		{"export " + testOrg, exitUsage, "--out is missing"},
		{"export " + testOrg + " --curl", exitUsage, "--out is missing"},
		{"export " + im + " --scrub --curl", exitUsage, "give --out"},
		{"export " + im + " --curl --json", exitUsage, "--json and --curl"},
		{"export " + im + " --scrub --keep-token --out " + dir, exitUsage, "leave out --keep-token"},
		{"export " + testdata + "/vectors/slack/slack-go --scrub --out " + dir, exitUsage, "has a signature"},
		{"export " + testOrg + " --out " + dir, exitFailed, "neither a delivery nor a drop"},
		{"export " + dir + "/none --out " + dir, exitUsage, "none"},
		{"import", exitUsage, "--provider is missing"},
		{"import --provider slack", exitUsage, "which file?"},
		{"import " + raw + " --provider slack", exitUsage, "--out is missing"},
		{"import " + raw + " --provider slack --out " + dir, exitUsage, "/hook names no source"},
		{"import " + raw + " --provider slack --out " + dir + " --source a --job b", exitUsage, "give one of them"},
		{"import " + raw + " --provider slack --out " + dir + " --format pcap", exitUsage, "write raw or har"},
		{"import " + raw + " --provider slack --out " + dir + " --scrub --keep-signature", exitUsage, "does not match its signature"},
		{"import " + raw + " --provider slack --out " + dir + " --received-at today", exitUsage, "not an instant"},
		{"import " + raw + " --provider slack --out " + dir + " --job 12", exitUsage, "--job"},
		{"import " + dir + "/none --provider slack --out " + dir, exitUsage, "none"},
		{"import " + har + " --provider slack --source main --out " + dir, exitFailed, "the archive changed it"},
	} {
		c.run(strings.Fields(tt.args)...).wants(t, tt.status, tt.says)
	}
	if got := c.run("export", im, "--out", filepath.Join(dir, "once")); got.status != exitOK {
		t.Fatal(got.err)
	}
	c.run("export", im, "--out", filepath.Join(dir, "once")).wants(t, exitFailed, "exists already")
}

func now() time.Time { return time.Now() }

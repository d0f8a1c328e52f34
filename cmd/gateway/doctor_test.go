package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"webhook-gateway/configs"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

// causes lists the causes of a diagnosis that --json prints, by request.
func causes(t *testing.T, r result) []string {
	t.Helper()
	var list []string
	for _, request := range r.object(t)["requests"].([]any) {
		var codes []string
		for _, c := range request.(map[string]any)["causes"].([]any) {
			codes = append(codes, c.(map[string]any)["cause"].(string))
		}
		list = append(list, strings.Join(codes, " "))
	}
	slices.Sort(list) // two requests of one millisecond lie in any order
	return list
}

func TestDoctorFindsCause(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "refused")
	r := startGateway(t, func(c *configs.Config) { c.RejectedDir = dir })
	slackTown(r)
	nylasTown(r)
	own := r.addJob(jobs.NewJob{Provider: "nylas", Secret: r.secret("its own secret")})
	body := nylasMessage("G1", "n1", 1)
	spoiled := slack.New().Sign(slackSecret, []byte(slackEvent("T1", "Ev1", "hi")), time.Now())
	spoiled.Set("X-Slack-Signature", strings.TrimPrefix(spoiled.Get("X-Slack-Signature"), "v0="))
	for _, got := range []answer{
		r.post("/webhooks/nylas/sources/main", []byte(body+"\n"), nylas.New().Sign(nylasSecret, []byte(body), time.Now())),
		r.postNylas(providers.JobPath("nylas", own.ID), nylasSecret, body), // the source's secret on the job's URL
		r.post("/webhooks/slack/sources/main", []byte(slackEvent("T1", "Ev1", "hi")), spoiled),
		r.post("/webhooks/slack/sources/main", []byte(slackEvent("T1", "Ev2", "hi")), slack.New().Sign(slackSecret, []byte(slackEvent("T1", "Ev2", "hi")), time.Now().Add(-10*time.Minute))),
	} {
		if got.status != http.StatusUnauthorized {
			t.Errorf("answered %d", got.status)
		}
	}
	waitForCaptures(t, dir, 4)
	c := cliFor(t, r.config.DatabaseURL.Reveal(), testKey)
	for provider, want := range map[string][]string{"nylas": {"newline_added", "secret_of_another"}, "slack": {"prefix_missing", "timestamp_out_of_time"}} {
		got := c.run("doctor", filepath.Join(dir, provider), "--provider", provider, "--json")
		if found := causes(t, got); got.status != exitMismatch || strings.Join(found, ",") != strings.Join(want, ",") {
			t.Errorf("%s: status %d, causes %q, want %q", provider, got.status, found, want)
		}
		text := c.run("doctor", filepath.Join(dir, provider), "--provider", provider)
		for _, says := range append(want, "it would be refused: 401", "confirmed by undoing it", "NO  ") {
			if !strings.Contains(text.stdout, says) {
				t.Errorf("does not say %q:\n%s", says, text.stdout)
			}
		}
		for _, secret := range []string{slackSecret, nylasSecret, "its own secret"} {
			if strings.Contains(text.stdout+text.err+got.stdout, secret) {
				t.Error("a secret is printed")
			}
		}
	}
}

// rawMessage is a signed request as it is on the wire.
func rawMessage(provider, secret, body string, at time.Time) string {
	raw := "POST /webhooks/" + provider + "/sources/main HTTP/1.1\r\nContent-Type: application/json\r\n"
	for name, values := range vendorsByName()[provider].(providers.Signer).Sign(secret, []byte(body), at) {
		raw += name + ": " + values[0] + "\r\n"
	}
	return raw + "\r\n" + body
}

func TestDoctorRawAndStdin(t *testing.T) {
	t.Parallel()
	body := nylasMessage("G1", "n1", 1)
	file := filepath.Join(t.TempDir(), "request.http")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	examine := func(provider, secrets string, args ...string) result {
		return call(t, strings.NewReader(secrets), append([]string{"doctor", file, "--provider", provider, "--secret-stdin"}, args...)...)
	}
	write(rawMessage("nylas", "the old one", body, time.Now()))
	if got := examine("nylas", "the new one\nthe old one\n"); got.status != exitOK || !strings.Contains(got.stdout, "with the previous secret") || !strings.Contains(got.stdout, "it would be accepted: 200") {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.err)
	}
	if got := examine("nylas", "the old one \n", "--json"); got.status != exitMismatch || causes(t, got)[0] != "secret_with_blanks" {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.err)
	}
	write(rawMessage("nylas", "mock-webhook-secret", body, time.Now()))
	if got := examine("nylas", "mine\n", "--json"); causes(t, got)[0] != "vendor_test_secret" {
		t.Errorf("%s%s", got.stdout, got.err)
	}
	// A raw message has no time of receipt, unless it is given.
	old := time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	write(rawMessage("slack", "mine", slackEvent("T1", "Ev1", "hi"), old))
	if got := examine("slack", "mine"); got.status != exitOK || !strings.Contains(got.stdout, "its age cannot be checked") {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.err)
	}
	if got := examine("slack", "mine", "--received-at", old.Add(6*time.Minute).Format(time.RFC3339)); got.status != exitMismatch || !strings.Contains(got.stdout, "signed 6m0s before it was received") {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.err)
	}
	// The same, imported.
	out := filepath.Join(t.TempDir(), "out")
	if got := call(t, untouched{t}, "import", file, "--provider", "slack", "--out", out, "--keep-signature"); got.status != exitOK {
		t.Fatal(got.err)
	}
	got := call(t, strings.NewReader("mine"), "doctor", out, "--provider", "slack", "--secret-stdin")
	if got.status != exitOK || !strings.Contains(got.stdout, "is not known") {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.err)
	}
}

func TestDoctorHARAndSecretsFile(t *testing.T) {
	t.Parallel()
	body := nylasMessage("G1", "n1", 1)
	h := nylas.New().Sign("theirs", []byte(body), time.Now())
	har := fmt.Sprintf(`{"log":{"entries":[{"startedDateTime":"2026-03-01T12:00:00.5Z","request":{"method":"POST","url":"https://h/webhooks/nylas/sources/main/","headers":[{"name":"x-nylas-signature","value":%q}],"postData":{"text":%q}}}]}}`,
		h.Get("X-Nylas-Signature"), body)
	file := filepath.Join(t.TempDir(), "a.har")
	if err := os.WriteFile(file, []byte(har), 0o600); err != nil {
		t.Fatal(err)
	}
	secrets := secretsFile(t, "main: {path: /webhooks/nylas/sources/main, secret: ours}\nother: {path: /webhooks/nylas/sources/other, secret: theirs}\n", 0o600)
	got := call(t, untouched{t}, "doctor", file, "--provider", "nylas", "--secrets", secrets, "--json")
	if got.status != exitMismatch || causes(t, got)[0] != "secret_of_another" {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.err)
	}
	if got := call(t, untouched{t}, "doctor", file, "--provider", "nylas", "--secrets", secrets, "--source", "other"); got.status != exitOK {
		t.Errorf("status %d\n%s%s", got.status, got.stdout, got.err)
	}
}

func TestDoctorRefuses(t *testing.T) {
	t.Parallel()
	im, vector := testdata+"/slack/message-im", testdata+"/vectors/slack/slack-go"
	for _, tt := range []struct {
		args   string
		status int
		says   string
	}{
		{"", exitUsage, "--provider is missing"},
		{"--provider slack", exitUsage, "which request?"},
		{im + " --provider slack --secret-stdin", exitUsage, "has no original signature"},
		{vector + " --provider nylas --secret-stdin", exitUsage, "is of slack"},
		{vector + " --provider slack --source a --job b", exitUsage, "give one of them"},
		{vector + " --provider slack --secret-stdin --secrets x", exitUsage, "give no --secrets"},
		{"- --provider slack --secret-stdin", exitUsage, "the request as a file"},
		{vector + " --provider slack --received-at today", exitUsage, "not an instant"},
		{vector + " --provider slack --near " + t.TempDir(), exitUsage, "no captures"},
		{t.TempDir() + "/none --provider slack", exitUsage, "none"},
	} {
		call(t, untouched{t}, append([]string{"doctor"}, strings.Fields(tt.args)...)...).wants(t, tt.status, tt.says)
	}
	call(t, strings.NewReader(" \n\n"), "doctor", vector, "--provider", "slack", "--secret-stdin").wants(t, exitUsage, "no secret on stdin")
	_, c := sender(t)
	c.run("doctor", vector, "--provider", "slack", "--source", "nope").wants(t, exitFailed, `no slack source is called "nope"`)
}

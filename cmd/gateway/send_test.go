package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/internal/dev"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// sender sends to a gateway in this process, whose database and key lie in the settings.
func sender(t *testing.T) (*running, *cli) {
	t.Helper()
	r := startGateway(t)
	return r, cliFor(t, r.config.DatabaseURL.Reveal(), testKey)
}

// rows returns one list of a send's report.
func rows(report map[string]any, list string) []map[string]any {
	var out []map[string]any
	for _, row := range report[list].([]any) {
		out = append(out, row.(map[string]any))
	}
	return out
}

func TestEverySampleEndsAsItShould(t *testing.T) {
	t.Parallel()
	r, c := sender(t)
	for _, v := range vendors() {
		set := v.(providers.Sampler).Samples()
		r.addSource(v.Name(), "main", "a secret of "+v.Name(), set.Application)
		for _, tenant := range set.Tenants {
			r.addJob(jobs.NewJob{Provider: v.Name(), Source: "main", Pins: []jobs.Identity{tenant}})
		}
	}
	// What is not stored once under its own name.
	stored := map[string][]string{
		"url_verification": nil, "ssl_check": nil,
		"booking.created": nil, "challenge": nil, "deltas": {"message.created", "thread.replied"},
	}
	dropped := map[string]string{"booking.created": "unknown_job"}
	for _, v := range vendors() {
		for _, kind := range v.(providers.Sampler).Samples().Kinds {
			t.Run(v.Name()+" "+kind.Name, func(t *testing.T) {
				got := c.json("send", v.Name(), kind.Name, "--source", "main", "--target", r.url)
				if sent := rows(got, "sent"); len(sent) != 1 || sent[0]["status"] != 200.0 {
					t.Errorf("sent %v", sent)
				}
				want, other := stored[kind.Name]
				if !other {
					want = []string{kind.Name}
				}
				var types []string
				for _, row := range rows(got, "stored") {
					types = append(types, row["event_type"].(string))
				}
				if diff := cmp.Diff(want, types); diff != "" {
					t.Errorf("stored types: %s", diff)
				}
				var reasons string
				for _, row := range rows(got, "dropped") {
					reasons += row["reason"].(string)
				}
				if reasons != dropped[kind.Name] {
					t.Errorf("dropped as %q, want %q", reasons, dropped[kind.Name])
				}
			})
		}
	}
}

func TestSendTimes(t *testing.T) {
	t.Parallel()
	r, c := sender(t)
	slackTown(r)
	nylasTown(r)
	for _, vendor := range []string{"slack", "nylas"} {
		got := c.json("send", vendor, "--source", "main", "--target", r.url, "--times", "3")
		if sent, stored := rows(got, "sent"), rows(got, "stored"); len(sent) != 3 || len(stored) != 1 || len(rows(got, "dropped")) != 0 {
			t.Errorf("%s: %v", vendor, got)
		}
		if n := r.metric(`gateway_deliveries_dropped_total{provider="` + vendor + `",reason="duplicate"}`); n != 2 {
			t.Errorf("%s: %v duplicates, want 2", vendor, n)
		}
	}
	text := c.run("send", "slack", "--source", "main", "--target", r.url, "--times", "2")
	for _, says := range []string{"POST " + r.url + "/webhooks/slack/sources/main", "200 OK in ", "empty body", "app_mention", "sent 2 times, stored once"} {
		if text.status != exitOK || !strings.Contains(text.stdout, says) {
			t.Errorf("does not say %q: %s%s", says, text.stdout, text.err)
		}
	}
}

func TestSendToJob(t *testing.T) {
	t.Parallel()
	r, c := sender(t)
	one, _ := slackTown(r)
	own := r.addJob(jobs.NewJob{Provider: "slack", Secret: r.secret("mine"), Pins: []jobs.Identity{{Name: "enterprise_id", Value: "E7"}, {Name: "api_app_id", Value: "A7"}}})
	for _, id := range []uuid.UUID{one.ID, own.ID} {
		got := rows(c.json("send", "slack", "--job", id.String(), "--target", r.url), "stored")
		if len(got) != 1 || got[0]["job_id"] != id.String() {
			t.Errorf("job %s: stored %v", id, got)
		}
	}
}

func TestSendRefused(t *testing.T) {
	t.Parallel()
	r, c := sender(t)
	r.addSource("slack", "main", "a secret")
	r.addSource("slack", "bare", "")
	answers := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	send := func(target string, args ...string) result {
		return c.run(append([]string{"send", "slack", "--json", "--target", target}, args...)...)
	}
	for _, tt := range []struct {
		r    result
		says string
	}{
		{send(answers(401, ""), "--source", "main"), "answers 401: the signature"},
		{send(answers(503, ""), "--source", "main"), "answers 503: try again"},
		{send(answers(404, ""), "--source", "main"), "answers 404: unknown URL"},
		{send(answers(200, "hello"), "--source", "main"), `answers 200 with "hello"`},
		{send(answers(200, ""), "--source", "main"), "neither a row nor a drop"},
		{c.run("send", "slack", "url_verification", "--json", "--target", answers(200, ""), "--source", "main"), "but the vendor expects"},
	} {
		tt.r.object(t) // the report is printed all the same
		if tt.r.status != exitFailed || !strings.Contains(tt.r.err, tt.says) {
			t.Errorf("status %d, stderr %q, want %q", tt.r.status, tt.r.err, tt.says)
		}
	}
	send(r.url, "--source", "bare").wants(t, exitFailed, "no secret to sign with yet")
	send(r.url, "--source", "nope").wants(t, exitFailed, `slack has no source "nope"`)
	send(r.url, "--job", uuid.NewString()).wants(t, exitFailed, "slack has no job")
	cliFor(t, c.url, otherKey).run("send", "slack", "--source", "main", "--target", r.url).
		wants(t, exitConfig, "GATEWAY_SECRETS_KEY does not open the secret of source main")
	cliFor(t, c.url, "").run("send", "slack", "--source", "main", "--target", r.url).
		wants(t, exitConfig, "GATEWAY_SECRETS_KEY: is not set")
	send("http://127.0.0.1:1", "--source", "main").wants(t, exitUnreachable, "no gateway answers at 127.0.0.1:1")
}

func TestSendRefusesBeforeItSends(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	tests := []struct {
		args   string
		status int
		says   string
	}{
		{"", exitUsage, "give the vendor"},
		{"slack message x", exitUsage, "give the vendor"},
		{"teams", exitUsage, "known: nylas and slack"},
		{"slack slash_comand", exitUsage, `unknown slack sample "slash_comand" (known: app_mention`},
		{"slack --source a --job " + testOrg, exitUsage, "give one of them"},
		{"slack --source a --times 0", exitUsage, "--times 0"},
		{"slack --source a --times 1001", exitUsage, "--times 1001"},
		{"slack --job 12", exitUsage, "--job"},
		{"slack --source a --target http://192.0.2.7:8080", exitUsage, "192.0.2.7:8080 is not this machine"},
		{"slack --source a --target https://gateway.example.com", exitUsage, "add --yes"},
		{"slack --source a --target http://127.0.0.1.example.com", exitUsage, "add --yes"},
		{"slack --source a --target 127.0.0.1:8080", exitUsage, "write the gateway's address"},
		{"slack --source a --target http://127.0.0.1:8080/webhooks", exitUsage, "without a path"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"send"}, strings.Fields(tt.args)...), "--config", c.file)
			call(t, untouched{t}, args...).wants(t, tt.status, tt.says)
		})
	}
}

func TestSendWithoutDev(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	call(t, untouched{t}, "send", "slack", "--dir", dir).wants(t, exitConfig, "no gateway dev runs in "+dir, "--dir", " dev")
	// What a killed run leaves.
	env := dev.Env{DatabaseURL: "postgres://gateway@127.0.0.1:1/gateway", SecretsKey: testKey, Listen: "127.0.0.1:1"}
	if err := dev.Folder(dir).WriteEnv(env); err != nil {
		t.Fatal(err)
	}
	call(t, untouched{t}, "send", "slack", "--dir", dir).wants(t, exitUnreachable, "the gateway dev that ran in "+dir+" has ended")
}

func TestCommandToCopy(t *testing.T) {
	t.Parallel()
	b, ok := debug.ReadBuildInfo()
	if !ok {
		t.Fatal("no build info")
	}
	ran := "go run " + b.Path // the tests do not run where ./cmd/gateway is
	tests := []struct{ executable, typed, want string }{
		{"/tmp/go-build1648355020/b001/exe/gateway", "/tmp/go-build1648355020/b001/exe/gateway", ran},
		{"/home/kim/.cache/go-build/21/21ffa6234953222cbef757d62988140ae20c67bd27743f87b8a0351f6df59a34-d/gateway", "x", ran},
		{"/mnt/cache/21/21ffa6234953222cbef757d62988140ae20c67bd27743f87b8a0351f6df59a34-d/gateway", "x", ran},
		{"/srv/checkout/bin/gateway", "bin/gateway", "bin/gateway"},
		{"/srv/my checkout/gateway", "/srv/my checkout/gateway", "'/srv/my checkout/gateway'"},
		{"/usr/bin/sh", "sh", "sh"},
		{"/opt/gateway", "a-name-that-is-not-in-the-path", "/opt/gateway"},
	}
	for _, tt := range tests {
		if got := invocationOf(tt.executable, tt.typed); got != tt.want {
			t.Errorf("%s typed as %s: %s, want %s", tt.executable, tt.typed, got, tt.want)
		}
	}
}

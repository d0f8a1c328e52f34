package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func TestSourcesAdd(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	got := c.with("a secret\n", "sources", "add", "--provider", "slack", "--name", "main",
		"--ref", "api_app_id=A1", "--secret-stdin", "--json").json(t)
	id, _ := got["id"].(string)
	if _, err := uuid.Parse(id); err != nil {
		t.Errorf("id %q is not a UUID", id)
	}
	delete(got, "id")
	delete(got, "created_at")
	want := map[string]any{
		"name": "main", "provider": "slack", "path": "/webhooks/slack/sources/main",
		"refs": map[string]any{"api_app_id": "A1"}, "has_secret": true, "secrets": 1.0, "rotating_until": nil, "active_jobs": 0.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSourcesAddWithoutSecret(t *testing.T) {
	t.Parallel()
	c := cliFor(t, newCLI(t).url, "")
	got := c.json("sources", "add", "eu", "--provider", "nylas")
	if got["path"] != "/webhooks/nylas/sources/eu" || got["has_secret"] != false {
		t.Errorf("got %v", got)
	}
	r := c.run("sources", "show", "eu", "--provider", "nylas")
	if !strings.Contains(r.stdout, "/webhooks/nylas/sources/eu") || !strings.Contains(r.err, "no secret yet") {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.err)
	}
}

func TestSourcesErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.json("sources", "add", "--provider", "slack", "--name", "main")
	c.json("jobs", "add", "--provider", "slack", "--organization", testOrg, "--source", "main", "--ref", "team_id=T1")
	tests := []struct {
		name   string
		stdin  string
		args   string
		status int
		says   []string
	}{
		{"no provider", "", "add --name x", exitUsage, []string{"--provider is missing", "nylas or slack"}},
		{"unknown provider", "", "add --provider teams --name x", exitUsage, []string{`unknown --provider "teams"`, "nylas or slack"}},
		{"list of an unknown provider", "", "list --provider teams", exitUsage, []string{`unknown --provider "teams"`}},
		{"no name", "", "add --provider slack", exitUsage, []string{"--name is missing"}},
		{"two names", "", "add a --name b --provider slack", exitUsage, []string{"two different things"}},
		{"bad name", "", "add --name ../x --provider slack", exitUsage, []string{"cannot be named", "letters, digits"}},
		{"ref without value", "", "add --name x --provider slack --ref api_app_id", exitUsage, []string{"--ref", "NAME=VALUE"}},
		{"ref with an empty value", "", "add --name x --provider slack --ref api_app_id=", exitUsage, []string{"--ref", "NAME=VALUE"}},
		{"ref too long", "", "add --name x --provider slack --ref a=" + strings.Repeat("v", 201), exitUsage, []string{"1 to 200 bytes"}},
		{"ref given twice", "", "add --name x --provider slack --ref a=1 --ref a=2", exitUsage, []string{`"a" is given twice`}},
		{"taken name", "", "add --name main --provider slack", exitFailed, []string{"exists already", `"main"`}},
		{"empty secret", "", "add --name x --provider slack --secret-stdin", exitUsage, []string{"secret on stdin", "blank"}},
		{"blank secret", " \n", "add --name x --provider slack --secret-stdin", exitUsage, []string{"blank"}},
		{"long secret", strings.Repeat("s", 201), "add --name x --provider slack --secret-stdin", exitUsage, []string{"201 bytes, 200 at most"}},
		{"show nothing", "", "show", exitUsage, []string{"which source?"}},
		{"name without provider", "", "show main", exitUsage, []string{"--provider is missing"}},
		{"unknown name", "", "show nope --provider slack", exitFailed, []string{"not found", "sources list"}},
		{"name of another provider's", "", "show main --provider nylas", exitFailed, []string{"not found"}},
		{"unknown id", "", "show " + testOrg, exitFailed, []string{"there is no source " + testOrg}},
		{"bad id", "", "show --id 12", exitUsage, []string{"--id", "not a UUID"}},
		{"named twice", "", "show main --name main --provider slack", exitUsage, []string{"named twice"}},
		{"remove with jobs", "", "remove main --provider slack", exitUsage, []string{"has active jobs, 1 of them", "jobs close"}},
		{"rotation too long", "", "set-secret main --provider slack --rotating 61m", exitUsage, []string{"--rotating", "at most 1h"}},
		{"rotation of nothing", "", "set-secret main --provider slack --rotating 0s", exitUsage, []string{"--rotating", "at most 1h"}},
		{"rotation with a secret", "x", "set-secret main --provider slack --rotating 1m --secret-stdin", exitUsage, []string{"--rotating sets and ends no secret"}},
		{"rotation that drops", "", "set-secret main --provider slack --rotating 1m --drop-previous", exitUsage, []string{"--rotating sets and ends no secret"}},
		{"set an empty secret", "\r\n", "set-secret main --provider slack", exitUsage, []string{"blank"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"sources"}, strings.Fields(tt.args)...), "--config", c.file)
			call(t, strings.NewReader(tt.stdin), args...).wants(t, tt.status, tt.says...)
		})
	}
}

func TestSealedWithGatewaysKey(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.with("s", "sources", "add", "--provider", "slack", "--name", "main", "--secret-stdin", "--json").json(t)

	cliFor(t, c.url, "").with("s", "sources", "add", "--provider", "slack", "--name", "b", "--secret-stdin").
		wants(t, exitConfig, "GATEWAY_SECRETS_KEY", "is not set")
	cliFor(t, c.url, "c2hvcnQ=").with("s", "sources", "add", "--provider", "slack", "--name", "b", "--secret-stdin").
		wants(t, exitConfig, "GATEWAY_SECRETS_KEY", "32 are needed")
	other := cliFor(t, c.url, otherKey)
	other.with("s", "sources", "add", "--provider", "slack", "--name", "b", "--secret-stdin").
		wants(t, exitConfig, "GATEWAY_SECRETS_KEY does not open every stored secret")
	other.with("s", "sources", "set-secret", "main", "--provider", "slack").
		wants(t, exitConfig, "GATEWAY_SECRETS_KEY does not open every stored secret")
	if got := c.json("sources", "list"); len(got["sources"].([]any)) != 1 {
		t.Errorf("a refused source was added: %v", got)
	}
	// The way out of a lost key: what it sealed is replaced.
	other.with("s", "sources", "set-secret", "main", "--provider", "slack", "--secret-stdin", "--drop-previous", "--json").json(t)
	if got := secretsOfSource(t, other, "main"); !cmp.Equal(got, []string{"s"}) {
		t.Errorf("secrets %q", got)
	}
}

func TestSourcesAreNamedByNameOrID(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	first := c.json("sources", "add", "--provider", "slack", "--name", "main")
	c.json("sources", "add", "--provider", "nylas", "--name", "main")
	id := first["id"].(string)
	for _, args := range [][]string{
		{"main", "--provider", "slack"}, {"--name", "main", "--provider", "slack"}, {id}, {"--id", id},
		{id, "--provider", "slack"}, {"--id", id, "--provider", "slack"},
	} {
		if diff := cmp.Diff(first, c.json(append([]string{"sources", "show"}, args...)...)); diff != "" {
			t.Errorf("show %q: %s", args, diff)
		}
	}
	c.run("sources", "show", id, "--provider", "nylas").wants(t, exitFailed, "there is no source")
}

func TestSourcesListAndRemove(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	if got := c.json("sources", "list"); !cmp.Equal(got, map[string]any{"sources": []any{}}) {
		t.Errorf("empty list: %v", got)
	}
	c.json("sources", "add", "--provider", "slack", "--name", "main", "--ref", "api_app_id=A1")
	c.json("sources", "add", "--provider", "nylas", "--name", "eu")
	r := c.run("sources", "list")
	if !strings.HasPrefix(r.stdout, "PROVIDER") || !strings.Contains(r.stdout, "api_app_id=A1") || r.err != "" {
		t.Errorf("list prints %q, stderr %q", r.stdout, r.err)
	}
	if got := c.json("sources", "list", "--provider", "nylas")["sources"].([]any); len(got) != 1 || got[0].(map[string]any)["name"] != "eu" {
		t.Errorf("list --provider nylas: %v", got)
	}
	got := c.json("sources", "remove", "eu", "--provider", "nylas")
	if got["removed"] != true || got["name"] != "eu" {
		t.Errorf("remove: %v", got)
	}
	if got := c.json("sources", "list")["sources"].([]any); len(got) != 1 {
		t.Errorf("after the removal: %v", got)
	}
	c.run("sources", "show", "eu", "--provider", "nylas").wants(t, exitFailed, "not found")
}

func TestSetSecretDropPrevious(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.with("one\n", "sources", "add", "--provider", "slack", "--name", "main", "--secret-stdin", "--json").json(t)
	set := func(stdin string, flags ...string) {
		t.Helper()
		c.with(stdin, append([]string{"sources", "set-secret", "main", "--provider", "slack", "--json"}, flags...)...).json(t)
	}
	check := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, secretsOfSource(t, c, "main")); diff != "" {
			t.Errorf("live secrets: %s", diff)
		}
	}
	check("one")
	set("two\r\n")
	check("two", "one")
	set("three\n\n", "--secret-stdin") // one newline is dropped, and one alone
	check("three\n", "two", "one")
	if got := c.json("sources", "set-secret", "main", "--provider", "slack", "--drop-previous"); got["secrets"] != 1.0 {
		t.Errorf("--drop-previous alone: %v", got)
	}
	check("three\n")
	set("four")
	set("five", "--secret-stdin", "--drop-previous")
	check("five")
}

func TestSetSecretRotating(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.with("one", "sources", "add", "--provider", "slack", "--name", "main", "--secret-stdin", "--json").json(t)
	began := time.Now()
	got := c.json("sources", "set-secret", "main", "--provider", "slack", "--rotating", "10m")
	until, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got["rotating_until"]))
	if err != nil || until.Before(began.Add(9*time.Minute)) || until.After(time.Now().Add(11*time.Minute)) {
		t.Errorf("rotating until %v, %v", got["rotating_until"], err)
	}
	if got["secrets"] != 1.0 {
		t.Errorf("a rotation changes no secret: %v", got)
	}
	got = c.with("two", "sources", "set-secret", "main", "--provider", "slack", "--json").json(t)
	if got["rotating_until"] != nil || got["secrets"] != 2.0 {
		t.Errorf("after the new secret: %v", got)
	}
}

func TestNoSecretIsEverPrinted(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	const secret = "xoxb-very-secret-text"
	results := []result{
		c.with(secret, "sources", "add", "--provider", "slack", "--name", "main", "--secret-stdin"),
		c.with(secret+strings.Repeat("x", 200), "sources", "set-secret", "main", "--provider", "slack"),
		c.with(secret, "sources", "set-secret", "main", "--provider", "slack", "--json"),
		c.run("sources", "show", "main", "--provider", "slack"),
		c.run("sources", "list", "--json"),
		c.run("config", "check", "--connect"),
		cliFor(t, c.url, otherKey).run("config", "check", "--connect", "--json"),
	}
	for i, r := range results {
		for _, text := range []string{secret, testKey, otherKey, "gateway:"} {
			if strings.Contains(r.stdout+r.err, text) {
				t.Errorf("result %d holds %q: %s%s", i, text, r.stdout, r.err)
			}
		}
	}
}

func TestADatabaseWithoutOurTablesIsNamed(t *testing.T) {
	t.Parallel()
	c := cliFor(t, emptyDatabase(t), testKey)
	c.run("sources", "list").wants(t, exitFailed, "gateway migrate up")
	c.with("s", "sources", "add", "--provider", "slack", "--name", "x", "--secret-stdin").wants(t, exitFailed, "gateway migrate up")
	c.run("sweep").wants(t, exitFailed, "gateway migrate up")
	cliFor(t, "postgres://gateway@127.0.0.1:1/gateway", testKey).run("jobs", "list").
		wants(t, exitUnreachable, "PostgreSQL at DATABASE_URL does not answer")
	cliFor(t, "", testKey).run("jobs", "list").wants(t, exitConfig, "DATABASE_URL: is not set")
}

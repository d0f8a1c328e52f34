package main

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestConfigCheckReportsEveryProblemByName(t *testing.T) {
	t.Parallel()
	c := cliFor(t, "", "bm90IDMyIGJ5dGVz")
	text := readFile(t, c.file)
	if err := os.WriteFile(c.file, append(text, "max_body_bytes: 1\nread_timeout: soon\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"GATEWAY_MAX_BODY_BYTES", "GATEWAY_READ_TIMEOUT", "DATABASE_URL", "GATEWAY_SECRETS_KEY"}

	r := c.run("config", "check", "--json")
	got := r.object(t)
	if r.status != exitConfig || got["ok"] != false {
		t.Errorf("status %d, ok %v", r.status, got["ok"])
	}
	problems := got["problems"].([]any)
	if len(problems) != len(names) {
		t.Errorf("problems %q, want one for each of %q", problems, names)
	}
	for _, name := range names {
		found := false
		for _, p := range problems {
			found = found || strings.HasPrefix(p.(string), name)
		}
		if !found {
			t.Errorf("no problem begins with %s: %q", name, problems)
		}
		if !strings.Contains(r.err, name) {
			t.Errorf("stderr does not name %s: %s", name, r.err)
		}
	}
}

func TestConfigCheckPrintsTheValuesInForce(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	r := c.run("config", "check")
	if r.status != exitOK || r.err != "" {
		t.Fatalf("status %d, stderr %s", r.status, r.err)
	}
	for _, text := range []string{"GATEWAY_LISTEN", ":8080", "GATEWAY_SECRETS_KEY", "[redacted]"} {
		if !strings.Contains(r.stdout, text) {
			t.Errorf("stdout does not hold %q:\n%s", text, r.stdout)
		}
	}
	if got := c.json("config", "check"); got["ok"] != true || len(got["problems"].([]any)) != 0 {
		t.Errorf("ok %v, problems %v", got["ok"], got["problems"])
	}
}

func TestConfigCheckConnects(t *testing.T) {
	t.Parallel()
	check := func(c *cli, status int, says string) {
		t.Helper()
		r := c.run("config", "check", "--connect", "--json")
		got := r.object(t)
		if r.status != status || len(got["problems"].([]any)) != 1 || !strings.Contains(r.err, says) {
			t.Errorf("status %d, want %d and %q; problems %v", r.status, status, says, got["problems"])
		}
	}
	check(cliFor(t, "postgres://gateway@127.0.0.1:1/gateway", testKey), exitUnreachable, "does not answer")
	// The tests' server does not write through, which serve refuses.
	check(newCLI(t), exitUnreachable, "fsync")
	// What is wrong already is not tried.
	check(cliFor(t, "", testKey), exitConfig, "DATABASE_URL")
}

func TestAProblemThatStandsAloneIsNotLost(t *testing.T) {
	t.Parallel()
	for want, err := range map[int]error{0: nil, 1: io.EOF, 2: withStatus(exitConfig, errors.Join(io.EOF, io.ErrNoProgress))} {
		if got := joined(err); len(got) != want {
			t.Errorf("%v is taken apart into %q, want %d", err, got, want)
		}
	}
}

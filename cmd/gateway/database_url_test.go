package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"webhook-gateway/internal/pgtest"
)

// databaseCommands are all that use DATABASE_URL, and one that only loads the settings.
func databaseCommands(t *testing.T) [][]string {
	vector, target, id := testdata+"/vectors/slack/slack-go", "--target=http://127.0.0.1:1", "019c3f2b-8c1e-7d0a-8c57-9a550c6f3a1d"
	return [][]string{
		{"config", "check"}, {"config", "check", "--json"}, {"config", "check", "--connect"}, {"serve"}, {"healthcheck"},
		{"migrate", "up"}, {"migrate", "status", "--json"}, {"sweep"},
		{"sources", "list"}, {"sources", "show", "main", "--provider", "slack"}, {"jobs", "list"}, {"jobs", "show", id},
		{"sources", "set-secret", "main", "--provider", "slack"}, {"secrets", "reseal"},
		{"drops", "list"}, {"drops", "show", id}, {"drops", "redrive", id, "--dry-run"},
		{"keys", "stuck"}, {"keys", "list", "--organization", id},
		{"send", "slack", "--source", "main", target}, {"sign", "--provider", "slack", "--source", "main"},
		{"replay", testdata + "/slack/message-im", target}, {"export", id, "--out", t.TempDir()}, {"doctor", vector, "--provider", "slack"},
	}
}

// withURL is a command line whose settings name the database.
func withURL(t *testing.T, text string) *cli {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	settings := fmt.Sprintf("database_url: %q\nsecrets_key: %s\nstate_dir: %s\nwait_for_postgres: false\n", text, testKey, t.TempDir())
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return &cli{t: t, file: file, url: text}
}

func TestMistypedPasswordHidden(t *testing.T) {
	t.Parallel()
	commands := databaseCommands(t)
	for text, says := range map[string]string{
		"postgres://me:zq1@zq2@127.0.0.1:1/db":                 "write all except the one before the host as %40",
		"postgres://me:zq1/zq2@127.0.0.1:1/db":                 "write it as %2F",
		"postgres://me:zq1%zq2@127.0.0.1:1/db":                 "write a literal % as %25",
		"postgres://me:zq1 zq2@127.0.0.1:1/db":                 "write it as %20",
		"postgres://me:zq1@127.0.0.1:1/db\n":                   "a line break",
		"postgres://me:zq1":                                    "there must be an @ and the host",
		"postgres://me:zq1@127.0.0.1:zq2/db":                   "a port that is not a number",
		"postgres://me:zq1@127.0.0.1:1/db?pgbouncer=true":      "the parameter pgbouncer",
		"postgres://me:zq1@127.0.0.1:1/db?schema=public":       "the parameter schema",
		"postgres://127.0.0.1:1/db?password=zq1&zq2=zq3":       "an unknown parameter after password",
		`"postgres://me:zq1@127.0.0.1:1/db"`:                   "remove the quotes",
		"host=127.0.0.1 port=1 password=zq1 zq2 dbname=db":     "single quotes",
		"host=127.0.0.1 port=1 password=zq1 zq2=zq3 dbname=db": "an unknown parameter after password",
		"host=127.0.0.1 port=1 password='zq1'zq2 dbname=db":    "quote the whole value",
		"me:zq1@127.0.0.1:1/db":                                "is not a PostgreSQL connection string",
	} {
		c := withURL(t, text)
		for _, args := range commands {
			r := c.with("", args...)
			if strings.Contains(r.stdout+r.err, "zq") {
				t.Errorf("%q, %v shows a part of the password: %s%s", text, args, r.stdout, r.err)
			}
			if r.status != exitConfig || !strings.Contains(r.err, "DATABASE_URL: ") || !strings.Contains(r.err, says) {
				t.Errorf("%q, %v: status %d, want %d and %q: %s", text, args, r.status, exitConfig, says, r.err)
			}
		}
	}
}

func TestCommandsNameConnectError(t *testing.T) {
	t.Parallel()
	good, err := url.Parse(pgtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	wrong, unknown, away := *good, *good, *good
	wrong.User = url.UserPassword(good.User.Username(), "zq1@zq2/zq3")
	unknown.RawQuery += "&bouncer=true"
	away.User, away.Host = url.UserPassword("zqme", "zq1"), "127.0.0.1:1,127.0.0.1:2"
	commands := databaseCommands(t)
	for text, says := range map[string]string{
		wrong.String():   "refuses the connection: wrong password, or no such role",
		unknown.String(): "refuses the connection: unknown parameter bouncer in DATABASE_URL",
		away.String():    "PostgreSQL at DATABASE_URL does not answer: 127.0.0.1:1",
	} {
		c := withURL(t, text)
		for _, args := range commands {
			if of := strings.Join(args, " "); of == "healthcheck" || of == "config check" || of == "config check --json" {
				continue // they connect to nothing
			}
			r := c.with("a secret", args...)
			if strings.Contains(r.stdout+r.err, "zq") || strings.Contains(r.stdout+r.err, "failed to connect to") {
				t.Errorf("%v shows the user or a part of the password: %s%s", args, r.stdout, r.err)
			}
			if r.status != exitUnreachable || !strings.Contains(r.err, says) {
				t.Errorf("%v: status %d, want %d and %q: %s", args, r.status, exitUnreachable, says, r.err)
			}
		}
	}
}

func TestQuotedSecretsKey(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	if err := os.WriteFile(c.file, []byte("database_url: "+c.url+"\nsecrets_key: '\""+testKey+"\"'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"config check", "serve", "secrets reseal"} {
		r := c.run(strings.Fields(command)...)
		if r.status != exitConfig || !strings.Contains(r.err, "GATEWAY_SECRETS_KEY has quotes in it: remove them") ||
			strings.Contains(r.err, "openssl") || strings.Contains(r.err, testKey[:8]) {
			t.Errorf("%s: status %d, %s", command, r.status, r.err)
		}
	}
}

func TestConfigCheckURLLikeServe(t *testing.T) {
	t.Parallel()
	for parameters, says := range map[string]string{
		"default_query_exec_mode=exec":                                 "DATABASE_URL has default_query_exec_mode=exec",
		"sslmode=verify-full&sslrootcert=/nowhere/ca.crt":              "/nowhere/ca.crt",
		"target_session_attrs=read-write&pool_max_conn_lifetime=never": "a parameter with a value that cannot be used",
	} {
		r := withURL(t, "postgres://me:zq1@127.0.0.1:1,127.0.0.1:2/db?"+parameters).run("config", "check")
		if r.status != exitConfig || !strings.Contains(r.err, says) || strings.Contains(r.stdout+r.err, "zq") ||
			!strings.Contains(r.stdout, "postgres://127.0.0.1:1,127.0.0.1:2/db (user, password and parameters not shown)") {
			t.Errorf("%s: status %d, want %q: %s%s", parameters, r.status, says, r.stdout, r.err)
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"webhook-gateway/configs"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/safetext"
)

// hostile holds a control of each kind, and a line that would pass for one of ours.
const hostile = "x\x1b[2J\u0085\u009b31m\u202e\u2066\u200f\u061c\u2028\u007f\r\n" + "FORGED\tcell"

// wantSafe checks that nothing a command prints can change a terminal, and that no line of it is forged.
func (r result) wantSafe(t *testing.T, of string) {
	t.Helper()
	for name, text := range map[string]string{"stdout": r.stdout, "stderr": r.err} {
		if text != strings.ToValidUTF8(text, "") {
			t.Errorf("%s: %s is not UTF-8: %q", of, name, text)
		}
		for _, c := range "\x1b\r\x7f\u0080\u0085\u009b\u009f\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069" {
			if strings.ContainsRune(text, c) {
				t.Errorf("%s: %s holds %U: %q", of, name, c, text)
			}
		}
	}
	for line := range strings.Lines(r.stdout) {
		if strings.HasPrefix(strings.TrimSpace(line), "FORGED") {
			t.Errorf("%s: stdout holds a forged line: %q", of, r.stdout)
		}
	}
	// Escaped as JSON does it, or as Go does.
	if all := r.stdout + r.err; !strings.Contains(all, `\u001b[2J\u0085\u009b31m`) && !strings.Contains(all, `\x1b[2J`) {
		t.Errorf("%s does not print the text, escaped: %q %q", of, r.stdout, r.err)
	}
}

// holds reports whether a JSON value is, or has in it, the text.
func holds(value any, text string) bool {
	switch v := value.(type) {
	case string:
		return strings.Contains(v, text)
	case []any:
		for _, inner := range v {
			if holds(inner, text) {
				return true
			}
		}
	case map[string]any:
		for name, inner := range v {
			if strings.Contains(name, text) || holds(inner, text) {
				return true
			}
		}
	}
	return false
}

func (c *cli) wantSafe(args ...string) {
	c.t.Helper()
	c.run(args...).wantSafe(c.t, strings.Join(args[:2], " "))
}

// wantSafeJSON checks as well that a program reads back the text as it is.
func (c *cli) wantSafeJSON(args ...string) {
	c.t.Helper()
	c.wantSafe(args...)
	r := c.run(append(args, "--json")...)
	of := strings.Join(args[:2], " ") + " --json"
	r.wantSafe(c.t, of)
	if !holds(any(r.object(c.t)), hostile) {
		c.t.Errorf("%s does not hold the text as it is: %q", of, r.stdout)
	}
}

func TestOutputSafeOnTerminal(t *testing.T) {
	t.Parallel()
	c, org := toolKeys(t)
	c.exec(`UPDATE agent.idempotency_keys SET key = key || $1, resource_id = $1, response = to_json($1::text) WHERE status = 'completed'`, hostile)
	c.exec(`UPDATE agent.idempotency_keys SET key = key || $1 WHERE status = 'processing'`, hostile)
	c.wantSafeJSON("keys", "list", "--organization", org.String())
	c.wantSafeJSON("keys", "stuck", "--since", "1m")
	c.wantSafeJSON("keys", "show", "--organization", org.String(), "--scope", "tool.email.send", "job_17:3:send"+hostile)

	if r := c.run("sources", "add", "--provider", "slack", "--name", "main"); r.status != exitOK {
		t.Fatal(r.err)
	}
	job := c.json("jobs", "add", "--provider", "slack", "--organization", testOrg, "--source", "main", "--ref", "team_id=T1")["id"].(string)
	c.exec(`UPDATE agent.provider_sources SET identity = jsonb_build_object('api_app_id', $1::text)`, hostile)
	c.exec(`UPDATE agent.provider_jobs SET identity = jsonb_build_object('team_id', $1::text)`, hostile)
	c.wantSafeJSON("sources", "list")
	c.wantSafeJSON("sources", "show", "main", "--provider", "slack")
	c.wantSafeJSON("jobs", "list")
	c.wantSafeJSON("jobs", "show", job)

	encoded, err := json.Marshal([][2]string{{"user-agent", hostile}})
	if err != nil {
		t.Fatal(err)
	}
	_, pool := dropsCLI(t)
	row := sampleDrop()
	row.EventType, row.DeliveryKey, row.Detail, row.ContentType, row.ContentEncoding = hostile, hostile, hostile, hostile, hostile
	row.Headers, row.Body = string(encoded), []byte(`"`+hostile+`"`)
	keepDrops(t, pool, row)
	d := &cli{t: t, file: cliFor(t, pool.Config().ConnString(), testKey).file, url: pool.Config().ConnString()}
	d.exec(`INSERT INTO agent.webhook_redrives (drop_id, redriven_by, why, outcome, detail) VALUES ($1, $2, $2, 'failed', $2)`, dropID, hostile)
	d.wantSafeJSON("drops", "list")
	d.wantSafeJSON("drops", "show", dropID)
	d.exec(`UPDATE agent.webhook_drops SET provider = $1`, hostile)
	d.wantSafe("drops", "redrive", dropID, "--dry-run")
}

func TestFilesAreSafeOnATerminal(t *testing.T) {
	t.Parallel()
	c := cliFor(t, "", "")
	file := filepath.Join(t.TempDir(), "message.http")
	if err := os.WriteFile(file, []byte("POST /x\x1b[2J\u0085\u009b31m\u202e HTTP/1.1\r\n\r\n{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.wantSafe("import", file, "--provider", "slack", "--out", t.TempDir())
	dir := copied(t, testdata+"/slack/message-im", func(text string) string {
		return strings.Replace(text, "headers:\n", "headers:\n  - [x-slack-evil, \"\\u0085\\u009b31m\\u202e'\\\\\"]\n", 1)
	})
	r := c.run("export", dir, "--curl")
	if !strings.Contains(r.stdout, `$'x-slack-evil: \xc2\x85\xc2\x9b31m\xe2\x80\xae\'\\'`) {
		t.Errorf("export --curl: %s%s", r.stdout, r.err)
	}
	c.wantSafe("export", "captures"+hostile, "--curl")
	c.wantSafe("doctor", "captures"+hostile, "--provider", "slack")
	c.wantSafe("sources", hostile)
	if err := os.WriteFile(c.file, []byte(`"x\e[2J\u0085\u009b31m\u202e\nFORGED": 1`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.wantSafe("config", "check")
	c.wantSafe("config", "check", "--json")
}

// Every table is a table of ours, whose cells are escaped; and whatever is printed goes through the command's streams.
func TestOnlySafeStreams(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := string(readFile(t, name))
		for what, only := range map[string]string{`"text/tabwriter"`: "table.go", "os.Stdout": "main.go", "os.Stderr": "main.go", "fmt.Print(": "", "fmt.Println(": "", "fmt.Printf(": ""} {
			if strings.Contains(text, what) && name != only {
				t.Errorf("%s uses %s", name, what)
			}
		}
	}
}

func TestRawBytesUnlessTerminal(t *testing.T) {
	t.Parallel()
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	var file bytes.Buffer
	if got := forBytes(safetext.NewWriter(&file)); got != io.Writer(&file) {
		t.Errorf("a file is written through %T", got)
	}
	if safe := safetext.NewWriter(device); forBytes(safe) != io.Writer(safe) {
		t.Error("a terminal gets the bytes as they are")
	}
}

func TestTheLogIsSafeOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	root := newRoot(streams{in: untouched{t}, out: io.Discard, err: &out})
	gateway.NewLogger(root.ErrOrStderr(), configs.Config{}).Info("webhook", "type", hostile)
	result{stdout: out.String()}.wantSafe(t, "the log")
	if line := (result{stdout: out.String()}).object(t); line["type"] != hostile {
		t.Errorf("the log holds %q", line["type"])
	}
}

func TestAnswersAreSafeOnATerminal(t *testing.T) {
	t.Parallel()
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(hostile)) }))
	defer liar.Close()
	r, c := sender(t)
	r.addSource("slack", "main", "a secret")
	c.wantSafeJSON("send", "slack", "--target", liar.URL, "--source", "main")
	c.wantSafe("healthcheck", "--url", liar.URL)
}

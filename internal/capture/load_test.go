package capture

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// sample is a capture with nothing wrong.
func sample() *Capture {
	c := &Capture{
		Format: Format, About: "a sample", Provider: "slack",
		Source: &Party{Name: "app", Pins: map[string]string{"api_app_id": "A1"}},
		Job:    &Party{Name: "team", Pins: map[string]string{"team_id": "T1"}},
		Method: "POST", Target: "/webhooks/slack/sources/{source}?q=1",
		Headers:    []Header{{"Content-Type", "application/json"}, {"user-agent", "Slackbot 1.0 (+https://x)"}, {"X-Slack-Retry-Num", "1"}},
		ReceivedAt: time.Date(2026, 3, 1, 12, 0, 0, 250e6, time.UTC),
		Sign:       Sign{Mode: Resign},
		Expect:     Expect{Once: Result{Status: 200, Outcomes: Outcomes{Accepted: 1}, Rows: 1}},
	}
	c.SetContent([]byte(`{"type":"event_callback","a":"<é>"}` + "\r\n"))
	return c
}

// written writes a capture into a new folder.
func written(t *testing.T, c *Capture) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "one")
	if err := c.Write(dir, Private); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	flip := -3
	for name, edit := range map[string]func(*Capture){
		"json":      func(*Capture) {},
		"binary":    func(c *Capture) { c.SetContent([]byte{0, 1, 0xff, '\r', '\n', 0x1a}) },
		"gzip":      func(c *Capture) { c.SetContent([]byte("\x1f\x8b\x08\x00rest")) },
		"empty":     func(c *Capture) { c.SetContent(nil) },
		"form":      func(c *Capture) { c.Headers[0][1] = "application/x-www-form-urlencoded"; c.SetContent([]byte("a=b")) },
		"challenge": func(c *Capture) { c.Method = "GET"; c.Sign.Mode = Unsigned; c.SetContent(nil) },
		"recorded":  func(c *Capture) { c.Sign = Sign{Mode: Recorded, Secret: "s3"} },
		"own secret": func(c *Capture) {
			c.Source, c.Target = nil, "/webhooks/slack/{job}"
		},
		"altered": func(c *Capture) {
			c.Sign.Alter = &Alter{FlipByte: &flip, Age: 10 * time.Minute, DropHeader: "X-A", Replace: []string{"a", ""}, SetHeader: &Header{"X-B", "1"}}
		},
		"everything expected": func(c *Capture) {
			c.Expect.Again = &Result{Status: 200, Outcomes: Outcomes{"duplicate": 1}}
			c.Expect.Twenty = &Result{Status: 200, Answer: "a\nb", Outcomes: Outcomes{"duplicate": 19, Accepted: 1}, Rows: 1, Drops: 2}
			c.Expect.Stored = []Row{{Type: "a: b", ID: "Ev1", Order: "C1", Hash: "c1:00"}}
		},
		"odd texts": func(c *Capture) { c.About = "yes: \"no\" # \u2028 é\n- x"; c.Headers[1][1] = "null" },
	} {
		c := sample()
		edit(c)
		dir := written(t, c)
		got, err := Load(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		c.Name, c.Dir = got.Name, dir
		if diff := cmp.Diff(c, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestFileModes(t *testing.T) {
	t.Parallel()
	for privacy, want := range map[Privacy][2]os.FileMode{Private: {0o700, 0o600}, Shared: {0o755, 0o644}} {
		dir := filepath.Join(t.TempDir(), "one")
		if err := sample().Write(dir, privacy); err != nil {
			t.Fatal(err)
		}
		folder, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{File, "body.json"} {
			file, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if folder.Mode().Perm() != want[0] || file.Mode().Perm() != want[1] {
				t.Errorf("folder %v, %s %v, want %v", folder.Mode(), name, file.Mode(), want)
			}
		}
	}
}

func TestSaveIsAtomic(t *testing.T) {
	t.Parallel()
	dir := written(t, sample())
	if err := sample().Write(dir, Private); !errors.Is(err, os.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	kept := sample()
	kept.Sign.Mode = Kept
	if err := kept.Write(dir+"2", Shared); err == nil {
		t.Error("a signature that came was written for everybody")
	}
	bad := sample()
	bad.Target = "/elsewhere"
	if err := bad.Write(dir+"3", Private); err == nil {
		t.Error("a capture that cannot be read was written")
	}
	entries, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(entries) != 1 {
		t.Errorf("%d entries are left, %v", len(entries), err)
	}
}

func TestCheckProblems(t *testing.T) {
	t.Parallel()
	replace := func(old, with string) func(string) string {
		return func(text string) string { return strings.Replace(text, old, with, 1) }
	}
	for _, tt := range []struct {
		name string
		edit func(text string) string
		says string
	}{
		{"another version", replace("capture/v1", "capture/v2"), `"gateway.capture/v2"`},
		{"unknown key", replace("about:", "abuot:"), "abuot"},
		{"unknown inner key", replace("sha256:", "sha265:"), "sha265"},
		{"key twice", func(s string) string { return s + "method: POST\n" }, "already defined"},
		{"second document", func(s string) string { return s + "---\na: 1\n" }, "more than one document"},
		{"empty", func(string) string { return "" }, "it is empty"},
		{"no YAML", func(string) string { return "\t{" }, "delivery.yaml"},
		{"a header of three", replace(`[X-Slack-Retry-Num, "1"]`, `[X-Slack-Retry-Num, "1", "2"]`), "want 2 elements"},
		{"a header with a line end", replace(`[X-Slack-Retry-Num, "1"]`, `[X-A, "1\r\nX-B: 2"]`), "is not a header"},
		{"a signature", replace(`[X-Slack-Retry-Num, "1"]`, `[X-Slack-Signature, v0=00]`), "X-Slack-Signature carries"},
		{"a timestamp of one", replace(`[X-Slack-Retry-Num, "1"]`, `[x-slack-request-timestamp, "1"]`), "x-slack-request-timestamp carries"},
		{"a cookie", replace(`[X-Slack-Retry-Num, "1"]`, `[Cookie, a]`), "Cookie carries"},
		{"a credential", replace(`[X-Slack-Retry-Num, "1"]`, `[Authorization, a]`), "Authorization carries"},
		{"other body", replace("sha256: ", "sha256: 00"), "was it edited"},
		{"other length", replace("bytes: ", "bytes: 1"), "was it edited"},
		{"a body elsewhere", replace("body.json", "../body.json"), "it is one of body.json"},
		{"no body there", replace("body.json", "body.gz"), "body.gz"},
		{"no provider", replace("provider: slack", "provider: ''"), "provider"},
		{"method", replace("method: POST", "method: PUT"), "method"},
		{"a GET with a body", replace("method: POST", "method: GET"), "a GET has none"},
		{"no time", replace("received_at: 2026-03-01T12:00:00.25Z\n", ""), "received_at is missing"},
		{"target of another provider", replace("/webhooks/slack/", "/webhooks/nylas/"), "does not begin with /webhooks/slack/"},
		{"target elsewhere", replace("/webhooks/slack/sources/{source}", "http://example.com/webhooks/slack/x"), "does not begin with"},
		{"mark without its party", replace("sources/{source}", "{job}x{job}"), "needs a job"},
		{"source's mark in a job's place", replace("sources/{source}", "{source}"), "needs a source"},
		{"two pins of a source's job", replace("{team_id: T1}", "{team_id: T1, enterprise_id: E1}"), "exactly one identity"},
		{"a source that falls back", replace("  name: app\n", "  name: app\n  fallback: true\n"), "only a job can be a fallback"},
		{"a party's name", replace("name: app", "name: a/b"), "source: the name"},
		{"unknown mode", replace("mode: resign", "mode: trust"), `no mode "trust"`},
		{"a secret beside resign", replace("mode: resign", "mode: resign\n  secret: s"), "a secret lies beside"},
		{"recorded without its secret", replace("mode: resign", "mode: recorded"), "needs the secret"},
		{"unsigned and altered", replace("mode: resign", "mode: none\n  alter: {age: 1m}"), "only what is signed anew"},
		{"half a replacement", replace("mode: resign", "mode: resign\n  alter: {replace: [a]}"), "replace takes two"},
		{"unknown outcome", replace("{accepted: 1}", "{kept: 1}"), `no outcome "kept"`},
		{"no outcome", replace("{accepted: 1}", "{}"), "no outcome is expected"},
		{"not a status", replace("status: 200", "status: 20"), "not a status"},
		{"no times", replace("{accepted: 1}", "{accepted: 0}"), "counted 0 times"},
	} {
		dir := written(t, sample())
		path := filepath.Join(dir, File)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		edited := tt.edit(string(text))
		if edited == string(text) {
			t.Errorf("%s: nothing is edited in\n%s", tt.name, text)
		}
		if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

func TestEditedBodyAndExtraFile(t *testing.T) {
	t.Parallel()
	dir := written(t, sample())
	file, err := os.OpenFile(filepath.Join(dir, "body.json"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	file.Close()
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "was it edited") {
		t.Errorf("a newline more: %v", err)
	}
	dir = written(t, sample())
	if err := os.WriteFile(filepath.Join(dir, "body.bin"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), `"body.bin" does not belong here`) {
		t.Errorf("another body: %v", err)
	}
}

func TestLoadAll(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"b/two", "a"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, dir)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := sample().Write(filepath.Join(root, dir), Private); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, ".new-x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, ".new-x", File), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := func(paths ...string) []string {
		list, err := LoadAll(paths...)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range list {
			names = append(names, c.Name)
		}
		return names
	}
	if diff := cmp.Diff([]string{"a", "b/two"}, names(root)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"two", "a"}, names(filepath.Join(root, "b", "two"), filepath.Join(root, "a"))); diff != "" {
		t.Error(diff)
	}
	if _, err := LoadAll(filepath.Join(root, ".new-x", "none")); err == nil {
		t.Error("a path that is not there is none")
	}
	if _, err := LoadAll(t.TempDir()); !errors.Is(err, ErrNone) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestNamesAreConsistent(t *testing.T) {
	t.Parallel()
	other := sample()
	other.Source = &Party{Name: "app", Pins: map[string]string{"api_app_id": "A2"}}
	other.Name = "the other"
	if _, err := Parties([]*Capture{sample(), other}); err == nil || !strings.Contains(err.Error(), "the other") {
		t.Errorf("two pins of one name: %v", err)
	}
	own := sample()
	own.Source, own.Target, own.Job.Name = nil, "/webhooks/slack/{job}", "own"
	cast, err := Parties([]*Capture{sample(), sample(), own})
	if err != nil || len(cast.Sources) != 1 || len(cast.Jobs) != 2 || cast.Jobs[0].Source != "app" || cast.Jobs[1].Source != "" {
		t.Errorf("%+v %v", cast, err)
	}
}

func TestRewrite(t *testing.T) {
	t.Parallel()
	dir := written(t, sample())
	path := filepath.Join(dir, File)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	commented := strings.Replace(string(text), "sign:\n", "# signed with the team's secret\nsign:\n", 1)
	if err := os.WriteFile(path, []byte(commented), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := c.Expect
	e.Once.Outcomes = Outcomes{"malformed": 1}
	if err := c.Rewrite(e); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != strings.Replace(commented, "accepted", "malformed", 1) {
		t.Errorf("%v\n%s", err, cmp.Diff(commented, string(got)))
	}
}

func TestExampleInDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/replaying.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	var c Capture
	if err := decode([]byte(example), &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
}

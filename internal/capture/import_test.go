package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestReadRaw(t *testing.T) {
	t.Parallel()
	body := zipped(t, `{"type":"message.created"}`) // bytes of every kind
	raw := fmt.Appendf(nil, "POST /webhooks/nylas/sources/main?a=1 HTTP/1.1\r\nHost: hooks.example.com\r\nx-nylas-SIGNATURE: 00\r\n"+
		"Content-encoding: gzip\r\nX-Two: 1\r\nX-Two:2 \r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	m, err := ReadMessage(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := &Message{Method: "POST", Target: "/webhooks/nylas/sources/main?a=1", Host: "hooks.example.com", Exact: true, Body: body,
		Headers: []Header{{"Host", "hooks.example.com"}, {"x-nylas-SIGNATURE", "00"}, {"Content-encoding", "gzip"}, {"X-Two", "1"}, {"X-Two", "2"},
			{"Content-Length", fmt.Sprint(len(body))}}}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
}

func TestRawMessagesOfManyForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, raw, target, body string }{
		{"LF alone", "POST /a HTTP/1.1\nA: b\n\n{}\n", "/a", "{}\n"},
		{"no headers", "POST /a HTTP/1.1\r\n\r\n{}", "/a", "{}"},
		{"no version", "POST /a\n\nx", "/a", "x"},
		{"no body", "GET /a?challenge=1 HTTP/1.1\r\n\r\n", "/a?challenge=1", ""},
		{"a whole URL", "POST https://h.example.com/a?b=c HTTP/1.1\r\n\r\nx", "/a?b=c", "x"},
		{"chunks", "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;ext=1\r\ndefg\r\n0\r\n\r\n", "/a", "abcdefg"},
	} {
		m, err := ReadMessage([]byte(tt.raw))
		if err != nil || m.Target != tt.target || string(m.Body) != tt.body {
			t.Errorf("%s: %+v, %v", tt.name, m, err)
		}
	}
	for name, raw := range map[string]string{
		"empty":               "",
		"an answer":           "HTTP/1.1 200 OK\r\n\r\n",
		"no path":             "POST\r\n\r\n",
		"no end of headers":   "POST /a HTTP/1.1\r\nA: b\r\n",
		"no header":           "POST /a HTTP/1.1\r\nnonsense\r\n\r\n",
		"a header's name":     "POST /a HTTP/1.1\r\nA b: c\r\n\r\n",
		"longer than it says": "POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nabc",
		"cut":                 "POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nabc",
		"cut chunks":          "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc",
		"a long line":         "POST /a HTTP/1.1\r\nA: " + strings.Repeat("x", maxHead) + "\r\n\r\n",
	} {
		if m, err := ReadMessage([]byte(raw)); err == nil {
			t.Errorf("%s: read as %+v", name, m)
		}
	}
}

// entry is one request of an HTTP archive.
func entry(method, headers, data string, size int) string {
	return fmt.Sprintf(`{"startedDateTime":"2026-03-01T12:00:00.250+01:00","request":{"method":%q,"url":"https://h.example.com/webhooks/slack/sources/main?q=1",
		"httpVersion":"h2","headers":[{"name":":path","value":"/"},{"name":"Content-Type","value":"application/json"}%s],"bodySize":%d%s}}`, method, headers, size, data)
}

func archive(entries ...string) []byte {
	return []byte(`{"log":{"version":"1.2","entries":[` + strings.Join(entries, ",") + `]}}`)
}

func readHAR(raw []byte) ([]*Message, error) { return ReadHAR(bytes.NewReader(raw)) }

func TestReadHAR(t *testing.T) {
	t.Parallel()
	gzipped := zipped(t, "{}")
	list, err := readHAR(archive(
		entry("GET", "", "", 0),
		entry("POST", "", `,"postData":{"mimeType":"application/json","text":"{\"a\":\"\u00e9\"}"}`, 10),
		entry("POST", `,{"name":"content-encoding","value":"gzip"}`, fmt.Sprintf(`,"postData":{"text":%q,"encoding":"base64"}`, base64.StdEncoding.EncodeToString(gzipped)), len(gzipped)),
		entry("POST", `,{"name":"content-encoding","value":"UTF-8"}`, `,"postData":{"text":"x"}`, -1),
	))
	if err != nil || len(list) != 3 {
		t.Fatal(len(list), err)
	}
	m := list[0]
	if string(m.Body) != `{"a":"é"}` || m.Target != "/webhooks/slack/sources/main?q=1" || m.Exact || m.At.UTC().Format("15:04:05.000") != "11:00:00.250" ||
		!cmp.Equal(m.Headers, []Header{{"Content-Type", "application/json"}}) {
		t.Errorf("%+v", m)
	}
	if !bytes.Equal(list[1].Body, gzipped) {
		t.Error("base64 is not what was sent")
	}
	for says, raw := range map[string][]byte{
		"not JSON of that form":   []byte("no"),
		"headers cannot be read":  archive(`{"request":{"method":"POST","url":"/a","headers":{}}}`),
		"more than 500 headers":   archive(`{"request":{"method":"POST","url":"/a","headers":[` + strings.Repeat("{},", 500) + `{}]}}`),
		"more than 262144 bytes":  archive(`{"request":{"method":"POST","url":"/a","headers":[` + strings.Repeat("{},", 1<<20) + `{}]}}`),
		"32 MiB of their headers": archive(strings.Repeat(`{"request":{"method":"POST","url":"/","headers":[`+strings.Repeat(`{"name":"a","value":"`+strings.Repeat("x", 1000)+`"},`, 200)+`{}]}},`, 170) + "{}"),
		"holds more than 10000":   archive(strings.Repeat(`{"request":{"method":"POST","url":"/"}},`, 10000) + `{"request":{"method":"POST","url":"/"}}`),
		"no POST request":         archive(entry("GET", "", "", 0)),
		"the archive changed it":  archive(entry("POST", "", `,"postData":{"text":"abc"}`, 4)),
		"compressed":              archive(entry("POST", `,{"name":"Content-Encoding","value":"gzip"}`, `,"postData":{"text":"abc"}`, -1)),
		"was no text":             archive(entry("POST", "", `,"postData":{"text":"a\ufffdb"}`, -1)),
		"the fields of its form":  archive(entry("POST", "", `,"postData":{"text":"","params":[{"name":"a"}]}`, -1)),
		"not base64":              archive(entry("POST", "", `,"postData":{"text":"?","encoding":"base64"}`, -1)),
		"not known here":          archive(entry("POST", "", `,"postData":{"text":"","encoding":"hex"}`, -1)),
	} {
		if _, err := readHAR(raw); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

func TestReadHARForm(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{``, `[]`, `{"log":[]}`, `{"log":{"entries":{}}}`, `{"log":{"entries":[7]}}`, `{"log":{"entries":[{}`, `{"log":{"entries":[{}]}} {}`} {
		if _, err := readHAR([]byte(raw)); !errors.Is(err, errNoHAR) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// emptyEntries reads as an archive of so many bytes, and watches how much of the heap is in use meanwhile.
type emptyEntries struct {
	rest int
	most uint64
}

func (r *emptyEntries) Read(p []byte) (int, error) {
	const piece = "{},"
	if r.rest%(1<<20) < len(p) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		r.most = max(r.most, m.HeapAlloc)
	}
	n := 0
	for r.rest > 0 && n+len(piece) <= len(p) {
		n += copy(p[n:], piece)
		r.rest -= len(piece)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestEmptyEntriesTakeNoMemory(t *testing.T) {
	// Not parallel: the memory is the process's.
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	entries := &emptyEntries{rest: 9 << 20}
	_, err := ReadHAR(io.MultiReader(strings.NewReader(`{"log":{"entries":[`), entries, strings.NewReader(`{}]}}`)))
	if err == nil || !strings.Contains(err.Error(), "holds no POST request") {
		t.Fatal(err)
	}
	if took := int64(entries.most) - int64(before.HeapAlloc); took > 8<<20 || entries.most == 0 {
		t.Errorf("%d bytes of memory for 9 MiB of empty entries", took)
	}
}

const slackEvent = `{"token":"secret-token","team_id":"T1","api_app_id":"A1","type":"event_callback","event_id":"Ev1","event":{"type":"message","channel":"C1"}}`

func TestRawKeepsNoSecret(t *testing.T) {
	t.Parallel()
	m, err := ReadMessage([]byte("POST /hook?access_token=abc&x=1&key=k HTTP/1.1\r\nCookie: a\r\nAuthorization: Bearer b\r\nX-Slack-Signature: v0=0\r\n" +
		"X-Slack-Request-Timestamp: 1\r\nX-Api-Key: c\r\nX-Forwarded-For: 192.0.2.1\r\ncontent-type: application/json\r\nX-Slack-Retry-Num: 1\r\nUser-Agent: Slackbot\r\n\r\n" + slackEvent))
	if err != nil {
		t.Fatal(err)
	}
	p := slack.New()
	origin := Origin{Vendor: p, Source: &Party{Name: "main"}, Job: &Party{Name: "team"}}
	c, err := origin.Capture(m)
	if err != nil {
		t.Fatal(err)
	}
	want := []Header{{"content-type", "application/json"}, {"X-Slack-Retry-Num", "1"}, {"User-Agent", "Slackbot"}}
	if diff := cmp.Diff(want, c.Headers); diff != "" {
		t.Error(diff)
	}
	if c.Target != "/webhooks/slack/sources/{source}?access_token=xxx&x=1&key=x" || !c.HeadersExact {
		t.Errorf("target %s", c.Target)
	}
	if got := string(c.Content); got != strings.Replace(slackEvent, "secret-token", "xxxxxxxxxxxx", 1) {
		t.Errorf("body %s", got)
	}
	if diff := cmp.Diff([]string{"query", "token", "headers"}, c.Scrubbed); diff != "" {
		t.Error(diff)
	}
	c.Pin(p)
	c.Describe(p)
	if c.Job.Pins["team_id"] != "T1" || c.Source.Pins["api_app_id"] != "A1" || c.Expect.Once.Outcomes[Accepted] != 1 || len(c.Expect.Stored) != 1 || c.Expect.Stored[0].ID != "Ev1" {
		t.Errorf("%+v %+v %+v", c.Job, c.Source, c.Expect)
	}

	origin.KeepSignature = true
	kept, err := origin.Capture(m)
	if err != nil {
		t.Fatal(err)
	}
	if kept.Sign.Mode != Kept || string(kept.Content) != slackEvent || kept.Value("X-Slack-Signature") != "v0=0" || kept.Value("Cookie") != "" || kept.Value("Authorization") != "" || kept.Value("X-Api-Key") != "" {
		t.Errorf("for a diagnosis: %+v", kept)
	}
}

func TestNoFunctionToken(t *testing.T) {
	t.Parallel()
	const event = `{"team_id":"T1","type":"event_callback","event_id":"Ev1","event":{"type":"function_executed","bot_access_token":"xwfp-1"}}`
	m, err := ReadMessage([]byte("POST /webhooks/slack/sources/main HTTP/1.1\r\nContent-Type: application/json\r\n\r\n" + event))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Origin{Vendor: slack.New(), Source: &Party{Name: "main"}}.Capture(m)
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(event, "xwfp-1", "", 1); string(c.Content) != want || !slices.Contains(c.Scrubbed, "token") {
		t.Errorf("captured %s, scrubbed %v", c.Content, c.Scrubbed)
	}
}

func TestScrubKeepsKind(t *testing.T) {
	t.Parallel()
	p := nylas.New()
	body := `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":"Rm3QxW7bT9","data":{"application_id":"app-one","object":{"grant_id":"grant-one","subject":"Pay rise for Greta"}}}`
	make := func(content []byte) *Capture {
		c := &Capture{Format: Format, Provider: "nylas", Method: "POST", Target: "/webhooks/nylas/sources/{source}?who=greta", ReceivedAt: sample().ReceivedAt,
			Source: &Party{Name: "gretas-app", Pins: map[string]string{"application_id": "app-one"}}, Job: &Party{Name: "greta", Pins: map[string]string{"grant_id": "grant-one"}},
			Sign: Sign{Mode: Resign}, About: "Greta's", Headers: []Header{{"Content-Encoding", "gzip"}}}
		c.SetContent(content)
		c.Describe(p)
		return c
	}
	list := []*Capture{make(zipped(t, body)), make(zipped(t, strings.Replace(body, "Rm3QxW7bT9", "Rm3QxW7bT0", 1)))}
	if _, err := Scrub(list, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		c.Describe(p)
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		plain, err := c.Plain()
		if err != nil {
			t.Fatal(err)
		}
		text, err := Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"reta", "Pay", "app-one", "grant-one"} {
			if strings.Contains(string(plain)+string(text), secret) {
				t.Errorf("%q is still there:\n%s\n%s", secret, plain, text)
			}
		}
		d := c.Deliveries(p)
		if len(d) != 1 || d[0].Type != "message.created" || d[0].Tenant.Value != c.Job.Pins["grant_id"] || d[0].VendorID != c.Expect.Stored[0].ID {
			t.Errorf("%+v of %+v", d, c.Job)
		}
	}
	if list[0].Job.Pins["grant_id"] != list[1].Job.Pins["grant_id"] || list[0].Expect.Stored[0].ID == list[1].Expect.Stored[0].ID {
		t.Error("two captures have lost what they shared, or share what they did not")
	}
}

func TestCurlInShell(t *testing.T) {
	t.Parallel()
	c := sample()
	c.Headers = append(c.Headers, Header{"X-Slack-Retry-Reason", "it's $HOME; `id`"})
	dir := filepath.Join(t.TempDir(), "a b")
	if err := c.Write(dir, Private); err != nil {
		t.Fatal(err)
	}
	command, err := c.Curl(dir, "http://127.0.0.1:8080", "/webhooks/slack/sources/main")
	if err != nil {
		t.Fatal(err)
	}
	// A shell takes it apart: curl and gateway are functions that print what they are given.
	out, err := exec.Command("sh", "-c", `gateway() { cat >/dev/null; printf '%s\n' "$@" >&2; }; curl() { cat >/dev/null; for a in "$@"; do printf '%s\n' "$a"; done; };`+command).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := "-sS\n-X\nPOST\n-H\n@-\n-H\nContent-Type: application/json\n-H\nuser-agent: Slackbot 1.0 (+https://x)\n-H\nX-Slack-Retry-Num: 1\n" +
		"-H\nX-Slack-Retry-Reason: it's $HOME; `id`\n--data-binary\n@" + dir + "/body.json\nhttp://127.0.0.1:8080/webhooks/slack/sources/main?q=1\n"
	if diff := cmp.Diff(want, string(out)); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(command, "gateway sign --provider slack --source app < ") {
		t.Error(command)
	}
	c.Sign.Mode = Kept
	if _, err := c.Curl(dir, "", ""); err == nil {
		t.Error("a signature that came was made a command")
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add([]byte("POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"))
	f.Add([]byte("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ReadMessage(raw)
		if err == nil && len(m.Body) > len(raw) {
			t.Errorf("a body of %d bytes in a message of %d", len(m.Body), len(raw))
		}
	})
}

package doctor

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"webhook-gateway/internal/capture"
)

func remarshalled(t *testing.T, body string, indent string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if indent != "" {
		out, err = json.MarshalIndent(v, "", indent)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func zipped(t *testing.T, text string, level int) string {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func set(name string, change func(string) string) func(http.Header) {
	return func(h http.Header) { h[name] = []string{change(h.Get(name))} }
}

func to(text string) func(string) string { return func(string) string { return text } }

// damage is a request that something was done to on its way, and the causes that should be found.
type damage struct {
	name   string
	r      request
	proved bool
	want   []Code
}

const sig, ts, nsig = "X-Slack-Signature", "X-Slack-Request-Timestamp", "X-Nylas-Signature"

func damagedBodies(t *testing.T) []damage {
	sorted := remarshalled(t, nylasBody, "") // a map's members, sorted, < and & escaped
	form := "token=t&team_id=T1&command=%2Fdoor&text=two+words+%26+%C3%A9&trigger_id=1.2"
	formType := []capture.Header{{"Content-Type", "application/x-www-form-urlencoded"}}
	gz := []capture.Header{{"Content-Encoding", "gzip"}}
	return []damage{
		{"compact, indented on the way", request{"nylas", current, nylasBody, pretty(t, nylasBody), 0, nil, nil}, true, []Code{Reencoded}},
		{"HTML left alone, escaped on the way", request{"nylas", current, unescaped(sorted), sorted, 0, nil, nil}, true, []Code{Reencoded}},
		{"escaped slashes and letters undone", request{"slack", current, `{"text":"caf\u00e9 \/ \ud83d\ude9a"}`, `{"text":"café / 🚚"}`, 0, nil, nil}, true, []Code{Reencoded}},
		{"Python's blanks taken out", request{"slack", current, `{"a": [1.50, true, null], "b": {"c": "d"}}`, `{"a":[1.50,true,null],"b":{"c":"d"}}`, 0, nil, nil}, true, []Code{Reencoded}},
		{"a form's blanks", request{"slack", current, form, strings.ReplaceAll(form, "+", "%20"), 0, nil, formType}, true, []Code{Reencoded}},
		{"a form's escapes", request{"slack", current, form, strings.NewReplacer("%C3%A9", "%c3%a9", "%2F", "%2f").Replace(form), 0, nil, formType}, true, []Code{Reencoded}},
		{"a newline more", request{"nylas", current, nylasBody, nylasBody + "\n", 0, nil, nil}, true, []Code{NewlineAdded}},
		{"a newline less", request{"slack", current, slackBody + "\n", slackBody, 0, nil, nil}, true, []Code{NewlineRemoved}},
		{"CRLF for LF", request{"slack", current, "{\n}", "{\r\n}", 0, nil, nil}, true, []Code{LineEnds}},
		{"a byte order mark", request{"nylas", current, nylasBody, "\xef\xbb\xbf" + nylasBody, 0, nil, nil}, true, []Code{ByteOrderMark}},
		{"inflated before it was verified", request{"nylas", current, zipped(t, nylasBody, 6), nylasBody, 0, nil, gz}, true, []Code{Inflated}},
		{"inflated, as another compressor wrote it", request{"nylas", current, zipped(t, nylasBody, 6) + "x", nylasBody, 0, nil, gz}, false, []Code{Inflated}},
		{"compressed after it was signed", request{"nylas", current, nylasBody, zipped(t, nylasBody, 9), 0, nil, gz}, true, []Code{Compressed}},
		{"recorded in base64", request{"slack", current, slackBody, base64.StdEncoding.EncodeToString([]byte(slackBody)), 0, nil, nil}, true, []Code{BodyBase64}},
		{"chunks not joined", request{"nylas", current, nylasBody, fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(nylasBody), nylasBody), 0, nil, nil}, true, []Code{Chunked}},
		{"read as Latin-1", request{"nylas", current, nylasBody, latin(nylasBody), 0, nil, nil}, true, []Code{Charset}},
		{"bytes replaced", request{"slack", current, "{\"a\":\"\xff\"}", "{\"a\":\"\uFFFD\"}", 0, nil, nil}, false, []Code{LostBytes}},
		{"a string of the body", request{"slack", current, `{"a":1}`, `"{\"a\":1}"`, 0, nil, nil}, true, []Code{QuotedBody}},
		{"the payload without its form", request{"slack", current, "payload=%7B%22type%22%3A%22shortcut%22%7D", `{"type":"shortcut"}`, 0, nil, nil}, true, []Code{PayloadAlone}},
		{"a byte flipped beside a charset", request{"slack", current, slackBody, strings.Replace(slackBody, "Ev1", "Ev2", 1), 0, nil, []capture.Header{{"Content-Encoding", "UTF-8"}}}, false, []Code{Unknown}},
		{"a byte flipped", request{"slack", current, slackBody, strings.Replace(slackBody, "Ev1", "Ev2", 1), 0, nil, nil}, false, []Code{Unknown}},
	}
}

func damagedSignatures() []damage {
	base64Of := func(prefix string) func(string) string {
		return func(s string) string {
			raw, _ := hex.DecodeString(strings.TrimPrefix(s, prefix))
			return base64.StdEncoding.EncodeToString(raw)
		}
	}
	return []damage{
		{"base64 for hex", request{"nylas", current, nylasBody, "", 0, set(nsig, base64Of("")), nil}, true, []Code{Base64}},
		{"base64 for hex, with the prefix", request{"slack", current, slackBody, "", 0, set(sig, func(s string) string { return "v0=" + base64Of("v0=")(s) }), nil}, true, []Code{Base64}},
		{"prefix missing", request{"slack", current, slackBody, "", 0, set(sig, func(s string) string { return strings.TrimPrefix(s, "v0=") }), nil}, true, []Code{PrefixMissing}},
		{"another prefix", request{"nylas", current, nylasBody, "", 0, set(nsig, func(s string) string { return "sha256=" + s }), nil}, true, []Code{PrefixOther}},
		{"upper case", request{"nylas", current, nylasBody, "", 0, set(nsig, strings.ToUpper), nil}, true, []Code{UpperCase}},
		{"in quotes", request{"nylas", current, nylasBody, "", 0, set(nsig, func(s string) string { return `"` + s + `"` }), nil}, true, []Code{Quoted}},
		{"cut", request{"nylas", current, nylasBody, "", 0, set(nsig, func(s string) string { return s[:60] }), nil}, false, []Code{Truncated}},
		{"SHA-1", request{"nylas", current, nylasBody, "", 0, set(nsig, to(sha1Of(current, nylasBody))), nil}, false, []Code{OtherAlgorithm}},
		{"no signature at all", request{"nylas", current, nylasBody, "", 0, set(nsig, to("hello")), nil}, false, []Code{NotASignature}},
		{"header missing", request{"nylas", current, nylasBody, "", 0, func(h http.Header) { h.Del(nsig) }, nil}, false, []Code{SignatureMissing}},
		{"header twice", request{"nylas", current, nylasBody, "", 0, func(h http.Header) { h.Add(nsig, "00") }, nil}, false, []Code{SignatureTwice}},
	}
}

func otherDamages() []damage {
	return []damage{
		// The time.
		{"timestamp missing", request{"slack", current, slackBody, "", 3 * time.Second, func(h http.Header) { h.Del(ts) }, nil}, true, []Code{TimeMissing}},
		{"too late", request{"slack", current, slackBody, "", 7 * time.Minute, nil, nil}, true, []Code{Stale}},
		{"too early", request{"slack", current, slackBody, "", -2 * time.Hour, nil, nil}, true, []Code{Stale}},
		{"milliseconds", request{"slack", current, slackBody, "", 0, set(ts, func(s string) string { return s + "123" }), nil}, true, []Code{Stale, TimeMillis}},
		{"another timestamp", request{"slack", current, slackBody, "", 0, set(ts, func(string) string { return fmt.Sprint(received.Unix() - 100) }), nil}, true, []Code{TimeChanged}},
		{"signed without time", request{"slack", current, slackBody, "", 0, set(sig, func(string) string { return "v0=" + macOf(current, slackBody) }), nil}, true, []Code{PlainSignature}},

		// The secret.
		{"another source's secret", request{"slack", other, slackBody, "", 0, nil, nil}, true, []Code{OtherSecret}},
		{"the vendor's test secret", request{"nylas", "mock-webhook-secret", nylasBody, "", 0, nil, nil}, true, []Code{TestSecret}},
		{"a line end behind the secret", request{"nylas", current + "\n", nylasBody, "", 0, nil, nil}, true, []Code{SecretBlanks}},
		{"the secret in quotes", request{"nylas", `"` + current + `"`, nylasBody, "", 0, nil, nil}, true, []Code{SecretQuoted}},
		{"a stranger's secret", request{"slack", "a stranger's", slackBody, "", 0, nil, nil}, false, []Code{Unknown}},

		// Two at once.
		{"a newline and the test secret", request{"nylas", "mock-webhook-secret", nylasBody, nylasBody + "\n", 0, nil, nil}, true, []Code{NewlineAdded, TestSecret}},
		{"prefix and newline", request{"slack", current, slackBody, slackBody + "\n", 0, set(sig, func(s string) string { return s[3:] }), nil}, true, []Code{NewlineAdded, PrefixMissing}},
		{"too late and written anew", request{"slack", current, slackBody + "\n", slackBody, time.Hour, nil, nil}, true, []Code{NewlineRemoved, Stale}},
	}
}

func TestTheCauseOfADamageIsNamed(t *testing.T) {
	t.Parallel()
	all := slices.Concat(damagedBodies(t), damagedSignatures(), otherDamages())
	if len(all) < 15 {
		t.Errorf("only %d damages", len(all))
	}
	for _, tt := range all {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := tt.r.examine()
			if d.Accepted || d.Status != http.StatusUnauthorized || len(d.Causes) != len(tt.want) {
				t.Errorf("accepted %v with %d, causes %+v", d.Accepted, d.Status, d.Causes)
			}
			for _, code := range tt.want {
				if !d.Has(code) {
					t.Errorf("%s is not among %+v", code, d.Causes)
				}
			}
			for _, c := range d.Causes {
				if c.Proved != tt.proved {
					t.Errorf("%s is proved %v, want %v", c.Code, c.Proved, tt.proved)
				}
			}
			tt.r.saysNothingSecret(t, d)
		})
	}
}

func macOf(secret, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func sha1Of(secret, body string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func latin(text string) string {
	var wide []rune
	for _, b := range []byte(text) {
		wide = append(wide, rune(b))
	}
	return string(wide)
}

func pretty(t *testing.T, body string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(body), "", "  "); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func unescaped(text string) string {
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(text)
}

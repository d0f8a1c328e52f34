package scrub

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func scrubbed(t *testing.T, contentType, body string) string {
	t.Helper()
	s := newScrubber([]byte("a key"))
	if err := s.Learn(contentType, []byte(body), ours); err != nil {
		t.Fatal(err)
	}
	out, err := s.Body(contentType, []byte(body), ours)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// ours are the words of the vendors whose bodies are in the tests.
var ours = Words{Kinds: []string{"subtype", "channel_type", "provider"}, Metadata: []string{"event_type", "event_payload"}, ID: regexp.MustCompile(`^(Ev|[A-Z])[A-Z0-9]{7,}$`)}

const slackMessage = `{"token":"xyzz0Wb","team_id":"T0MOUNTAIN","type":"event_callback","event_id":"Ev0SUNRISE1","event_time":1531420618,
 "event":{"type":"message","channel":"C0VALLEY01","user":"U0TRAVELLER","text":"<@U0GUIDE0001> ask Gret\u0061 in #C0VALLEY01, caf\u00e9 \ud83c\udfd4 \"now\"",
 "ts":"1531420618.000200","event_ts":"1531420618.000200","blocks":[{"type":"rich_text","block_id":"Hq7"}],"edited":{"user":"U0TRAVELLER"}},
 "greeting":"Greta","authorizations":[{"team_id":"T0MOUNTAIN","user_id":"U0GUIDE0001"}],"mail":"greta@mountains.example.com","when":"2026-03-01T12:00:00Z","none":null,"n":7.50}`

func TestSubstitutesKeepStructure(t *testing.T) {
	t.Parallel()
	out := scrubbed(t, "application/json", slackMessage)
	if len(out) != len(slackMessage) {
		t.Errorf("%d bytes of %d", len(out), len(slackMessage))
	}
	for _, secret := range []string{"xyzz0Wb", "MOUNTAIN", "SUNRISE", "VALLEY", "TRAVELLER", "GUIDE", "Greta", `Gret\u0061`, "ask ", "caf", "greta", "mountains", "2026-03-01", "1531420618."} {
		if strings.Contains(out, secret) {
			t.Errorf("%q is still there:\n%s", secret, out)
		}
	}
	var was, is struct {
		TeamID    string `json:"team_id"`
		EventTime int    `json:"event_time"`
		Event     struct {
			Channel, User, Text, Type, TS string
			EventTS                       string `json:"event_ts"`
			Edited                        struct{ User string }
		}
		Greeting, Mail, When string
		Authorizations       []struct {
			TeamID string `json:"team_id"`
			UserID string `json:"user_id"`
		}
		N json.Number
	}
	if err := errors.Join(json.Unmarshal([]byte(slackMessage), &was), json.Unmarshal([]byte(out), &is)); err != nil {
		t.Fatal(err, out)
	}
	if is.Event.Type != "message" || is.EventTime != was.EventTime || is.N != "7.50" {
		t.Errorf("something other than a text, or the name of a kind, has changed: %s", out)
	}
	if is.TeamID != is.Authorizations[0].TeamID || is.Event.User != is.Event.Edited.User || is.Event.TS != is.Event.EventTS {
		t.Errorf("what was equal is not: %s", out)
	}
	guide := is.Authorizations[0].UserID
	for _, linked := range []string{"<@" + guide + "> ", " " + is.Greeting, "#" + is.Event.Channel + ", "} {
		if !strings.Contains(is.Event.Text, linked) {
			t.Errorf("the text %q has lost its link to %q", is.Event.Text, linked)
		}
	}
	if is.TeamID[0] != 'T' || guide[0] != 'U' || is.Event.Channel[0] != 'C' || !strings.Contains(out, `"Ev`) {
		t.Errorf("ids do not tell their kinds: %s", out)
	}
	if !regexp.MustCompile(`^[a-z]{5}@[a-z]{9}\.[a-z]{7}\.zzz$`).MatchString(is.Mail) || !strings.HasSuffix(is.When, "T12:00:00Z") {
		t.Errorf("an address or a date is none any more: %q %q", is.Mail, is.When)
	}
	if !strings.Contains(out, `\u`) || strings.Contains(out, "\\u0301") {
		t.Errorf("escapes are written in another way: %s", out)
	}
}

func TestWordsOfAProseAreNoCode(t *testing.T) {
	t.Parallel()
	out := scrubbed(t, "", `{"body":"the sea and the sky and the sand"}`)
	var is struct{ Body string }
	if err := json.Unmarshal([]byte(out), &is); err != nil {
		t.Fatal(err)
	}
	w := strings.Fields(is.Body)
	if w[0] == w[3] && w[3] == w[6] {
		t.Errorf("one word has one stand-in throughout: %q", is.Body)
	}
}

func TestAScrubberHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	if a, b := New().Text("somebody@example.com"), New().Text("somebody@example.com"); a == b {
		t.Errorf("two give the same stand-in %q", a)
	}
}

func TestUserNamesReplaced(t *testing.T) {
	t.Parallel()
	const body = `{"type":"view_submission","actions":[{"block_id":"salary_block","action_id":"amount"}],` +
		`"view":{"state":{"values":{"salary_block":{"amount":{"type":"plain_text_input","value":"42k"}}}}},` +
		`"data":{"metadata":{"customer":"ACME"}}}`
	out := scrubbed(t, "application/json", body)
	for _, secret := range []string{"salary", "amount", "42k", "customer", "ACME"} {
		if strings.Contains(out, secret) {
			t.Errorf("%q is still there: %s", secret, out)
		}
	}
	var is struct {
		Actions []struct {
			Block  string `json:"block_id"`
			Action string `json:"action_id"`
		}
		View struct {
			State struct {
				Values map[string]map[string]struct{ Type, Value string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &is); err != nil {
		t.Fatal(err)
	}
	field, ok := is.View.State.Values[is.Actions[0].Block][is.Actions[0].Action]
	if !ok || field.Type != "plain_text_input" {
		t.Errorf("the fields have lost their link: %s", out)
	}
}

func TestFormsAndCompressedBodies(t *testing.T) {
	t.Parallel()
	form := url.Values{"command": {"/payroll"}, "text": {"raise Greta by 10%"}, "user_name": {"Greta"}, "is_enterprise_install": {"false"},
		"payload": {`{"type":"shortcut","user":{"username":"Greta"}}`}}.Encode()
	out := scrubbed(t, "application/x-www-form-urlencoded; charset=utf-8", form)
	is, err := url.ParseQuery(out)
	if err != nil {
		t.Fatal(err)
	}
	var payload struct {
		Type string
		User struct{ Username string }
	}
	if err := json.Unmarshal([]byte(is.Get("payload")), &payload); err != nil || payload.Type != "shortcut" ||
		payload.User.Username != is.Get("user_name") || !strings.Contains(is.Get("text"), is.Get("user_name")) || is.Get("is_enterprise_install") != "false" {
		t.Errorf("%v %v", is, err)
	}
	if strings.Contains(out, "Greta") || strings.Contains(out, "payroll") {
		t.Errorf("still there: %s", out)
	}

	zipped, err := deflate([]byte(`{"a":"Greta"}`))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(strings.NewReader(scrubbed(t, "application/json", string(zipped))))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || strings.Contains(string(plain), "Greta") || len(plain) != len(`{"a":"Greta"}`) {
		t.Errorf("%s %v", plain, err)
	}
}

func TestBinaryRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"plain words", `{"cut":"of`, "\x1f\x8bnot gzip"} {
		if out, err := New().Body("text/plain", []byte(body), ours); !errors.Is(err, ErrNoText) || out != nil {
			t.Errorf("%q: %q, %v", body, out, err)
		}
	}
}

func TestSignsInAFormAreText(t *testing.T) {
	t.Parallel()
	out, err := New().Body("application/x-www-form-urlencoded", []byte("command=%2Fx&text=100% of Greta;%zz"), ours)
	if err != nil || strings.Contains(string(out), "Greta") || !strings.HasPrefix(string(out), "command=") || strings.Count(string(out), "&") != 1 {
		t.Errorf("%s, %v", out, err)
	}
}

func TestOnlyWhatNamesAKindIsKept(t *testing.T) {
	t.Parallel()
	s := New()
	body := `{"type":"message.created","source":"/google/emails/realtime","data":{"object":{"object":"message","source":"/google/emails","type":"A Name",` +
		`"metadata":{"type":"hidden"},"provider":"google"}}}`
	out, err := s.Body("", []byte(body), ours)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"object=message", "provider=google", "source=/google/emails/realtime", "type=message.created"}
	if diff := cmp.Diff(want, s.Kept()); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(string(out), "A Name") || strings.Contains(string(out), "hidden") || strings.Count(string(out), "emails") != 1 {
		t.Errorf("%s", out)
	}
	if out, err := New().Body("", []byte(body), Words{}); err != nil || strings.Contains(string(out), `"google"`) {
		t.Errorf("another vendor's word is kept: %s, %v", out, err)
	}
}

func TestTokensRemoved(t *testing.T) {
	t.Parallel()
	const form = "application/x-www-form-urlencoded"
	zip := func(text string) string { z, _ := deflate([]byte(text)); return string(z) }
	for _, tt := range []struct{ name, contentType, body, want string }{
		{"json", "", `{ "token" : "aF5y", "event":{"token":"stays"}}`, `{ "token" : "xxxx", "event":{"token":"stays"}}`},
		{"twice", "", `{"token":"a","token":"b"}`, `{"token":"x","token":"x"}`},
		{"escaped", "", `{"token":"a\u0041"}`, `{"token":"xxxxxxx"}`},
		{"an escaped name", "", `{"t\u006fken":"abc"}`, `{"t\u006fken":"xxx"}`},
		{"cut json", "", `{"token":"secret","a":`, `{"token":"xxxxxx","a":`},
		{"cut token", "", `{"token":"secr`, `{"token":"xxxx`},
		{"none", "", `{"a":1}`, `{"a":1}`},
		{"no string", "", `{"token":12}`, `{"token":12}`},
		{"form", form, "token=abc&team_id=T1", "token=xxx&team_id=T1"},
		{"form, not first", form, "team_id=T1&token=ab%2B", "team_id=T1&token=xxxxx"},
		{"not a token's field", form, "mytoken=abc&text=token%3Dabc", "mytoken=abc&text=token%3Dabc"},
		{"payload", form, "payload=%7B%22type%22%3A%22a%22%2C%22token%22%3A%22abc%22%7D", "payload=%7B%22type%22%3A%22a%22%2C%22token%22%3A%22xxx%22%7D"},
		{"payload with other escapes", form, "payload=%7b%22token%22:+%22abc%22%7d&x=1", "payload=%7b%22token%22:+%22xxx%22%7d&x=1"},
		{"payload without escapes", form, `payload={"token":"abc"}`, `payload={"token":"xxx"}`},
		{"compressed without one", "", zip(`{"a":1}`), zip(`{"a":1}`)},
		{"not to be read", "", "\x1f\x8bno", "\x1f\x8bno"},
		{"empty", "", "", ""},
	} {
		got, n, err := Tokens(tt.contentType, []byte(tt.body))
		if err != nil || string(got) != tt.want || (n == 0) != (tt.body == tt.want) {
			t.Errorf("%s: %q, %d found, %v; want %q", tt.name, got, n, err, tt.want)
		}
	}
	if _, _, err := Tokens("", []byte(zip(`{"token":"abc"}`))); !errors.Is(err, ErrCompressed) {
		t.Errorf("compressed with a token: %v", err)
	}
}

// leaf is any text that JSON can hold.
func leaf() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Z][A-Z0-9]{8}`), rapid.SampledFrom([]string{"greta@example.com", "héllo wörld", "1531420618.000200", "日本 語", "🎉x"}))
}

func TestAnyJSONKeepsLength(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(leaf(), 1, 8).Draw(t, "texts")
		doc := map[string]any{"list": texts, "again": texts, "n": 12.5}
		body, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		s := newScrubber([]byte("a key"))
		if err := s.Learn("", body, ours); err != nil {
			t.Fatal(err)
		}
		out, err := s.Body("", body, ours)
		if err != nil {
			t.Fatal(err)
		}
		var is struct {
			List, Again []string
			N           float64
		}
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if len(out) != len(body) || is.N != 12.5 || !cmp.Equal(is.List, is.Again) || bytes.Count(out, []byte(`"`)) != bytes.Count(body, []byte(`"`)) {
			t.Fatalf("%s\n%s", body, out)
		}
		for i := range texts {
			for j := range texts {
				if texts[i] == texts[j] && is.List[i] != is.List[j] {
					t.Fatalf("%q and %q were equal", is.List[i], is.List[j])
				}
			}
		}
	})
}

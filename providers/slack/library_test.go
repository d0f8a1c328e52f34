package slack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/slackevents"
)

// The tests of this file measure slack-go at the version in go.mod, next to what is done about it here.
// Where one says that slack-go is sound now, the guard stays as a second line; where one fails because
// slack-go has become sound, the guard may stay too, and the test should say so.

// accepts reports what slack-go's verifier says, used as its documentation shows.
func accepts(h http.Header, secret string, body []byte) (bool, error) {
	verifier, err := slack.NewSecretsVerifier(h, secret)
	if err != nil {
		return false, err
	}
	if _, err := verifier.Write(body); err != nil {
		return false, err
	}
	err = verifier.Ensure()
	return err == nil, err
}

// signed signs the body with a timestamp of any spelling.
func signed(secret, timestamp string, body []byte) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + timestamp + ":"))
	mac.Write(body)
	return http.Header{"X-Slack-Signature": {"v0=" + hex.EncodeToString(mac.Sum(nil))}, "X-Slack-Request-Timestamp": {timestamp}}
}

func TestGuardsAroundTheVerifier(t *testing.T) {
	t.Parallel()
	now := strconv.FormatInt(time.Now().Unix(), 10)
	body := []byte(`{"type":"event_callback"}`)
	good := signed(secret, now, body)
	with := func(change func(h http.Header)) http.Header {
		h := good.Clone()
		change(h)
		return h
	}
	for _, c := range []struct {
		name    string
		header  http.Header
		secret  string
		slackGo bool // whether slack-go accepts it
	}{
		{"a blank secret", signed(" ", now, body), " ", true},
		{"hex in upper case", with(func(h http.Header) {
			h.Set("X-Slack-Signature", "v0="+strings.ToUpper(h.Get("X-Slack-Signature")[3:]))
		}), secret, true},
		{"a timestamp with a plus", signed(secret, "+"+now, body), secret, true},
		{"a timestamp with leading zeros", signed(secret, "00"+now, body), secret, true},
		{"a second signature", with(func(h http.Header) { h.Add("X-Slack-Signature", "v0=00") }), secret, true},
		{"a second timestamp", with(func(h http.Header) { h.Add("X-Slack-Request-Timestamp", "1") }), secret, true},

		{"an empty secret", signed("", now, body), "", false},
		{"hex without its version", with(func(h http.Header) {
			h.Set("X-Slack-Signature", h.Get("X-Slack-Signature")[3:])
		}), secret, false},
		{"a short signature", with(func(h http.Header) {
			h.Set("X-Slack-Signature", h.Get("X-Slack-Signature")[:65])
		}), secret, false},
		{"a time thousands of years ahead", signed(secret, "99999999999", body), secret, false},
		{"the last time there is", signed(secret, "9223372036854775807", body), secret, false},
		{"six minutes ago", signed(secret, strconv.FormatInt(time.Now().Unix()-360, 10), body), secret, false},
		{"names in lower case, not by net/http", http.Header{
			"x-slack-signature": good["X-Slack-Signature"], "x-slack-request-timestamp": good["X-Slack-Request-Timestamp"],
		}, secret, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := accepts(c.header, c.secret, body); got != c.slackGo {
				t.Errorf("slack-go accepts it: %v (%v), was %v", got, err, c.slackGo)
			}
			proof, err := New().Prove(c.header, time.Now())
			if err == nil && proof.Verify(c.secret, body) {
				t.Error("accepted")
			}
		})
	}
	if ok, err := accepts(good, secret, body); !ok {
		t.Errorf("slack-go refuses what is right: %v", err)
	}
}

// Up to v0.30 the error of a mismatch held the signature that would have been right. Verify returns no
// error at all, so that no later version can leak it again.
func TestMismatchTellsNoSignature(t *testing.T) {
	t.Parallel()
	now := strconv.FormatInt(time.Now().Unix(), 10)
	h := signed("another secret", now, []byte("body"))
	_, err := accepts(h, secret, []byte("body"))
	if err == nil || strings.Contains(err.Error(), signed(secret, now, []byte("body")).Get("X-Slack-Signature")[3:]) {
		t.Errorf("slack-go's error: %v", err)
	}
}

// slack-go's parsers decide by type, and refuse what Slack may send tomorrow. Parse keeps all of it.
func TestParseKeepsWhatSlackGoRefuses(t *testing.T) {
	t.Parallel()
	asEvent := func(body string) error {
		_, err := slackevents.ParseEvent(json.RawMessage(body), slackevents.OptionNoVerifyToken())
		return err
	}
	asInteraction := func(body string) error { return json.Unmarshal([]byte(body), new(slack.InteractionCallback)) }
	for _, c := range []struct {
		name    string
		parse   func(string) error
		body    string
		refuses bool
		kind    string
	}{
		{"an event without its inner event", asEvent, `{"type":"event_callback"}`, true, "event_callback"},
		{"a null inner event", asEvent, `{"type":"event_callback","event":null}`, true, "event_callback"},
		{"an unknown inner type", asEvent, `{"type":"event_callback","event":{"type":"of_tomorrow"}}`, true, "of_tomorrow"},
		{"a field of another type", asEvent, `{"type":"event_callback","event_time":"7","event":{"type":"message"}}`, true, "message"},
		{"a type that it did not know", asEvent, `{"type":"event_callback","event":{"type":"workflow_step_execute"}}`, true, "workflow_step_execute"},
		{"an unknown outer type", asEvent, `{"type":"of_tomorrow"}`, false, "of_tomorrow"},
		{"state that is an array", asInteraction, `{"type":"block_actions","state":{"values":[]}}`, true, "block_actions"},
		{"a channel that is a text", asInteraction, `{"type":"block_actions","channel":"C1"}`, true, "block_actions"},
		{"an unknown block element", asInteraction, `{"type":"block_actions","message":{"blocks":[{"type":"actions","elements":[{"type":"of_tomorrow"}]}]}}`, true, "block_actions"},
		{"an unknown interaction", asInteraction, `{"type":"of_tomorrow"}`, false, "of_tomorrow"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := c.parse(c.body); (err != nil) != c.refuses {
				t.Errorf("slack-go refuses it: %v (%v), was %v", err != nil, err, c.refuses)
			}
			got, err := New().Parse("application/json", []byte(c.body))
			if err != nil || got[0].Type != c.kind {
				t.Errorf("got %+v, %v; want type %s", got, err, c.kind)
			}
		})
	}
}

// Slack signs the body only. slack-go took an interaction from the URL's query until v0.35, and reads no
// command, without an error, when the content type is not a form's.
func TestOnlyBodyIsRead(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodPost, `/?payload=%7B%22type%22%3A%22shortcut%22%7D`, strings.NewReader(`{"type":"event_callback"}`))
	r.Header.Set("Content-Type", "application/json")
	if got, err := slack.InteractionCallbackParse(r); err == nil {
		t.Errorf("slack-go takes %q from the query", got.Type)
	}
	r = httptest.NewRequest(http.MethodPost, `/`, strings.NewReader(`command=%2Fx&team_id=T1`))
	r.Header.Set("Content-Type", "text/plain")
	if got, err := slack.SlashCommandParse(r); err != nil || got.Command != "" {
		t.Errorf("slack-go reads %q from plain text, %v", got.Command, err)
	}
	if got, err := New().Parse("text/plain", []byte(`command=%2Fx&team_id=T1`)); err == nil {
		t.Errorf("plain text is read as %+v", got)
	}
}

package doctor

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"webhook-gateway/internal/capture"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

const (
	current  = "8f742231b10e8888abcd99yyyzzz85a5"
	previous = "b64d7f1e0c2a49d3871e5f60aa90c3d2"
	other    = "the secret of another source"
)

var received = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const slackBody = `{"token":"t","team_id":"T1","api_app_id":"A1","event":{"type":"message","text":"a <b> & \"c\" é \/ 🚚","ts":"1.000100","n":1.50},"type":"event_callback","event_id":"Ev1","event_time":1772366399}`

const nylasBody = `{"specversion":"1.0","type":"message.created","source":"/google/emails/realtime","id":"n1","time":1772366399,"data":{"application_id":"a","object":{"grant_id":"g","subject":"café & <b>"}}}`

// request is a capture as it came to be examined: what was signed, and what was made of it on the way.
type request struct {
	provider string
	secret   string
	signed   string        // the body that was signed
	body     string        // the body that came; signed if empty
	at       time.Duration // signed so long before it was received
	header   func(http.Header)
	headers  []capture.Header
}

type signingVendor interface {
	providers.Provider
	providers.Signer
}

func (r request) vendor() signingVendor {
	if r.provider == "nylas" {
		return nylas.New()
	}
	return slack.New()
}

func (r request) examine(edit ...func(*Case)) Diagnosis {
	vendor := r.vendor()
	body := r.body
	if body == "" {
		body = r.signed
	}
	header := vendor.Sign(r.secret, []byte(r.signed), received.Add(-r.at))
	if r.header != nil {
		r.header(header)
	}
	c := &capture.Capture{Provider: r.provider, Method: http.MethodPost, Target: "/webhooks/" + r.provider + "/sources/main", ReceivedAt: received, Sign: capture.Sign{Mode: capture.Kept}}
	c.Headers = append(capture.HeadersOf(header), r.headers...)
	c.SetContent([]byte(body))
	k := Case{Capture: c, Vendor: vendor, MaxBody: 4 << 20,
		Secrets: []Secret{{"current", current}, {"previous", previous}}, Others: []Secret{{"source other", other}}}
	for _, f := range edit {
		f(&k)
	}
	return Examine(k)
}

// saysNothingSecret checks that a diagnosis holds no secret and no signature of what it is about.
func (r request) saysNothingSecret(t *testing.T, d Diagnosis) {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{current, previous, other, r.secret} {
		for _, body := range []string{r.body, r.signed} {
			for _, at := range []time.Duration{0, r.at} {
				for _, values := range r.vendor().Sign(secret, []byte(body), received.Add(-at)) {
					if hexes := values[0]; len(hexes) >= 64 && bytes.Contains(text, []byte(hexes[len(hexes)-64:])) {
						t.Errorf("a signature that would be right is in %s", text)
					}
				}
			}
		}
		if secret != "mock-webhook-secret" && bytes.Contains(text, []byte(secret)) {
			t.Errorf("a secret is in %s", text)
		}
	}
}

func TestSecretWithExtraText(t *testing.T) {
	t.Parallel()
	for registered, want := range map[string]Code{current + " ": SecretBlanks, "\t" + current: SecretBlanks, `"` + current + `"`: SecretQuoted, "'" + current + "'": SecretQuoted} {
		r := request{provider: "nylas", secret: current, signed: nylasBody}
		d := r.examine(func(c *Case) { c.Secrets = []Secret{{"current", registered}} })
		if d.Accepted || len(d.Causes) != 1 || !d.Has(want) || !d.Causes[0].Proved {
			t.Errorf("%q: %+v", registered, d.Causes)
		}
	}
	raw, err := hex.DecodeString(previous)
	if err != nil {
		t.Fatal(err)
	}
	r := request{provider: "slack", secret: string(raw), signed: slackBody}
	if d := r.examine(); !d.Has(SecretEncoded) {
		t.Errorf("hexadecimal taken for bytes: %+v", d.Causes)
	}
}

func TestASignatureOfAnotherCapture(t *testing.T) {
	t.Parallel()
	r := request{provider: "nylas", secret: current, signed: nylasBody, body: strings.Replace(nylasBody, "n1", "n2", 1)}
	near := &capture.Capture{Name: "the other one", Content: []byte(nylasBody)}
	d := r.examine(func(c *Case) { c.Near = []*capture.Capture{near} })
	if !d.Has(OtherBody) || len(d.Causes) != 1 || !strings.Contains(d.Causes[0].Says, "the other one") {
		t.Errorf("%+v", d.Causes)
	}
}

func TestGoodRequest(t *testing.T) {
	t.Parallel()
	gz := []capture.Header{{"Content-Encoding", "gzip"}}
	for name, r := range map[string]request{
		"slack":         {provider: "slack", secret: current, signed: slackBody},
		"late, in time": {provider: "slack", secret: current, signed: slackBody, at: 5 * time.Minute},
		"nylas":         {provider: "nylas", secret: current, signed: nylasBody},
		"previous":      {provider: "nylas", secret: previous, signed: nylasBody},
		"compressed":    {provider: "nylas", secret: current, signed: zipped(t, nylasBody, 6), headers: gz},
		"malformed":     {provider: "slack", secret: current, signed: "test-body"},
		"a form":        {provider: "slack", secret: current, signed: "command=%2Fa&team_id=T1", headers: []capture.Header{{"Content-Type", "application/x-www-form-urlencoded"}}},
	} {
		d := r.examine()
		if !d.Accepted || d.Status != http.StatusOK || len(d.Causes) != 0 {
			t.Errorf("%s: %+v", name, d)
		}
		r.saysNothingSecret(t, d)
		said := fmt.Sprint(d.Steps)
		if (name == "malformed") != strings.Contains(said, "dropped as malformed") || (name == "previous") != strings.Contains(said, "previous secret") {
			t.Errorf("%s: %s", name, said)
		}
	}
	// Without a time of receipt its age is not checked.
	old := request{provider: "slack", secret: current, signed: slackBody, at: 1000 * time.Hour}
	if d := old.examine(func(c *Case) { c.TimeUnknown = true }); !d.Accepted || !strings.Contains(fmt.Sprint(d.Steps), "not known") {
		t.Errorf("%+v", d)
	}
}

func TestOtherFaults(t *testing.T) {
	t.Parallel()
	r := request{provider: "nylas", secret: current, signed: nylasBody}
	if d := r.examine(func(c *Case) { c.MaxBody = 10 }); d.Accepted || d.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %+v", d)
	}
	if d := r.examine(func(c *Case) { c.Secrets = nil }); d.Accepted || d.Status != http.StatusServiceUnavailable || !d.Has(NoSecret) {
		t.Errorf("no secret: %+v", d)
	}
	quiet := struct{ providers.Provider }{nylas.New()}
	if d := r.examine(func(c *Case) { c.Vendor = quiet }); d.Accepted || !strings.Contains(fmt.Sprint(d.Steps), "how nylas signs is not known") {
		t.Errorf("a vendor that is not a Signer: %+v", d)
	}
}

func FuzzExamine(f *testing.F) {
	f.Add("v0=00", "1772366400", slackBody)
	f.Add("", "", "")
	f.Add("sha256=q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=", "1772366400000", "a=b&c=%zz")
	f.Fuzz(func(t *testing.T, signature, timestamp, body string) {
		c := &capture.Capture{Provider: "slack", Method: http.MethodPost, Target: "/webhooks/slack/x", ReceivedAt: received,
			Headers: []capture.Header{{"X-Slack-Signature", signature}, {"X-Slack-Request-Timestamp", timestamp}}}
		c.SetContent([]byte(body))
		d := Examine(Case{Capture: c, Vendor: slack.New(), Secrets: []Secret{{"current", current}}, MaxBody: 1 << 20})
		if d.Accepted {
			t.Errorf("accepted: %q %q %q", signature, timestamp, body)
		}
	})
}

func TestCommittedCapturesPass(t *testing.T) {
	t.Parallel()
	list, err := capture.LoadAll("../../test/replay/testdata/nylas", "../../test/replay/testdata/slack")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range list {
		if c.Sign.Mode != capture.Resign {
			continue
		}
		vendor := request{provider: c.Provider}.vendor()
		c.Headers = append(c.Headers, capture.HeadersOf(vendor.Sign(current, c.Content, c.ReceivedAt))...)
		d := Examine(Case{Capture: c, Vendor: vendor, Secrets: []Secret{{"current", current}}, MaxBody: 4 << 20})
		if !d.Accepted || len(d.Causes) > 0 {
			t.Errorf("%s: %+v", c.Name, d)
		}
		n++
	}
	if n < 70 {
		t.Errorf("only %d captures", n)
	}
}

func TestPublicVectors(t *testing.T) {
	t.Parallel()
	list, err := capture.LoadAll("../../test/replay/testdata/vectors")
	if err != nil {
		t.Fatal(err)
	}
	causes := map[string]Code{
		"nylas/java-sdk-digit-changed": Unknown, "nylas/old-sdks-other-body": OtherBody, "nylas/old-sdks-another-body": OtherBody, "slack/documentation-dashes": OtherBody,
	}
	for _, c := range list {
		vendor := request{provider: c.Provider}.vendor()
		d := Examine(Case{Capture: c, Vendor: vendor, Secrets: []Secret{{"current", c.Sign.Secret}}, Near: list, MaxBody: 4 << 20})
		if d.Status != c.Expect.Once.Status || d.Accepted != (causes[c.Name] == "") || !d.Accepted && (len(d.Causes) != 1 || !d.Has(causes[c.Name])) {
			t.Errorf("%s: %+v", c.Name, d)
		}
	}
}

// Package slack reads Slack's requests: the Events API, interactivity and slash commands.
package slack

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/providers"
)

// Provider is Slack.
type Provider struct {
	docs canonical.Pool
}

var (
	_ providers.Provider   = (*Provider)(nil)
	_ providers.Handshaker = (*Provider)(nil)
	_ providers.Prober     = (*Provider)(nil)
	_ providers.Redactor   = (*Provider)(nil)
	_ providers.PinChecker = (*Provider)(nil)
	_ providers.Signer     = (*Provider)(nil)
	_ providers.Sampler    = (*Provider)(nil)
	_ providers.Retainer   = (*Provider)(nil)
	_ providers.Worded     = (*Provider)(nil)
)

// New returns the provider.
func New() *Provider { return new(Provider) }

// Name is "slack".
func (*Provider) Name() string { return "slack" }

// Retention is two days: Slack's delayed retries run past 24 hours.
func (*Provider) Retention() time.Duration { return 48 * time.Hour }

// Headers keeps the user agent, and Slack's headers about a retry.
func (*Provider) Headers() []string {
	return []string{"user-agent", "x-slack-retry-num", "x-slack-retry-reason"}
}

// Parse reads one request, which is one delivery: an event or a notice in JSON, or a form with an interaction's JSON
// in its payload or a slash command in its fields. It recognizes the kind by the body if possible, because Slack's
// signature does not cover the content type.
func (p *Provider) Parse(contentType string, body []byte) ([]providers.Delivery, error) {
	d, err := p.parse(contentType, body)
	if err != nil {
		return nil, err
	}
	return []providers.Delivery{d}, nil
}

func (p *Provider) parse(contentType string, body []byte) (providers.Delivery, error) {
	body = redact(body)
	if looksLikeJSON(body) {
		return p.parseJSON(body, content)
	}
	fields, err := parseForm(contentType, body)
	if err != nil {
		return providers.Delivery{}, err
	}
	// Slack is not known to repeat a form, so its fingerprint is that of its bytes.
	payloads := fields["payload"]
	switch len(payloads) {
	case 0:
		d, err := command(fields)
		d.Hash = canonical.Raw(body)
		return d, err
	case 1:
		return p.parseJSON([]byte(payloads[0]), func(canonical.Value) string { return canonical.Raw(body) })
	default:
		return providers.Delivery{}, fmt.Errorf("%w: payload is repeated", providers.ErrMalformed)
	}
}

func (p *Provider) parseJSON(text []byte, hash func(canonical.Value) string) (providers.Delivery, error) {
	doc, err := p.docs.Parse(text)
	if err != nil {
		return providers.Delivery{}, fmt.Errorf("%w: %w", providers.ErrMalformed, err)
	}
	defer p.docs.Put(doc)
	d, err := event(doc.Root())
	if err != nil {
		return providers.Delivery{}, err
	}
	if d.Type == urlVerification {
		return providers.Delivery{}, providers.ErrNoDelivery // Handshake answers one with a challenge
	}
	d.Hash = hash(doc.Root())
	return d, nil
}

const urlVerification = "url_verification"

// maxHandshake bounds a URL verification, which has about 150 bytes, so that a large body is not read twice.
const maxHandshake = 8 << 10

// Handshake answers a url_verification with its challenge.
func (p *Provider) Handshake(_ string, body []byte) (answer string, ok bool) {
	if len(body) > maxHandshake {
		return "", false
	}
	doc, err := p.docs.Parse(body)
	if err != nil {
		return "", false
	}
	defer p.docs.Put(doc)
	challenge := doc.Root().Only("challenge").Text()
	if doc.Root().Only("type").Text() != urlVerification || challenge == "" {
		return "", false
	}
	for _, c := range []byte(challenge) {
		if c < ' ' || c > '~' {
			return "", false
		}
	}
	return challenge, true
}

// MayProbe reports whether the content type is a form's.
func (*Provider) MayProbe(contentType string) bool { return isForm(contentType) }

// Probe reports whether the body is a form with which Slack checks the certificate of a command's URL: its ssl_check
// is 1. It need not be signed, so the rest of it must have no effect.
func (*Provider) Probe(contentType string, body []byte) bool {
	if looksLikeJSON(body) {
		return false
	}
	fields, err := parseForm(contentType, body)
	return err == nil && slices.Equal(fields["ssl_check"], []string{"1"})
}

// looksLikeJSON reports whether a body begins like Slack's JSON, which its forms cannot.
func looksLikeJSON(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[' || body[0] == '"')
}

package slack

import (
	"bytes"
	"regexp"

	"webhook-gateway/internal/scrub"
)

// idForm matches an id. Its first letter distinguishes channels, users and teams; an event's id begins with Ev.
var idForm = regexp.MustCompile(`^(Ev|[A-Z])[A-Z0-9]{7,}$`)

// The token of a workflow's function, in JSON and in the payload of a form.
var (
	functionToken        = regexp.MustCompile(`("bot_access_token"\s*:\s*")(?:[^"\\]|\\.)+`)
	encodedFunctionToken = regexp.MustCompile(`(?i)(%22bot_access_token%22(?:\+|%20|%09|%0a|%0d)*(?:%3a|:)(?:\+|%20|%09|%0a|%0d)*%22)(?:%5c%..|[^%&]|%[^2&]|%2[^2&])+`)
)

// Redact empties each bot_access_token. A function can act in the workspace with it until the function completes, and
// bodies are kept for weeks.
func (*Provider) Redact(body []byte) []byte { return redact(body) }

func redact(body []byte) []byte {
	if !bytes.Contains(body, []byte("bot_access_token")) {
		return body
	}
	if looksLikeJSON(body) {
		return functionToken.ReplaceAll(body, []byte("$1"))
	}
	return encodedFunctionToken.ReplaceAll(functionToken.ReplaceAll(body, []byte("$1")), []byte("$1"))
}

// Words keeps what tells one kind of event, interaction, command or id from another.
func (*Provider) Words() scrub.Words {
	return scrub.Words{
		Kinds:    []string{"subtype", "channel_type", "callback_type", "is_enterprise_install", "ssl_check", "response_type"},
		Metadata: []string{"event_type", "event_payload"},
		ID:       idForm,
	}
}

package slack

import (
	"fmt"
	"mime"

	"webhook-gateway/internal/form"
	"webhook-gateway/providers"
)

// fields holds the form fields that are read here. Of a repeated field it holds two values.
type fields map[string][]string

// parseForm reads only the body: Slack does not sign the query of the URL.
func parseForm(contentType string, body []byte) (fields, error) {
	if len(body) == 0 || !isForm(contentType) {
		return nil, fmt.Errorf("%w: neither JSON nor a form", providers.ErrMalformed)
	}
	f := make(fields)
	for name, value := range form.Fields(body) {
		if len(name) > maxFieldName {
			continue
		}
		if name := form.Unescape(name); isRead(name) && len(f[name]) < 2 {
			f[name] = append(f[name], form.Unescape(value))
		}
	}
	return f, nil
}

// maxFieldName is the length of the longest name below with each byte escaped.
const maxFieldName = 3 * len("is_enterprise_install")

func isRead(name string) bool {
	switch name {
	case "payload", "ssl_check", "command", "team_id", "enterprise_id", "is_enterprise_install",
		"api_app_id", "channel_id", "trigger_id", "response_url":
		return true
	}
	return false
}

// only returns a field's value if it has exactly one.
func (f fields) only(name string) string {
	if len(f[name]) != 1 {
		return ""
	}
	return f[name][0]
}

func (f fields) has(name string) bool { return len(f[name]) > 0 }

func isForm(contentType string) bool {
	// A malformed parameter does not matter: the type before it is returned all the same.
	mediaType, _, _ := mime.ParseMediaType(contentType)
	return mediaType == "application/x-www-form-urlencoded"
}

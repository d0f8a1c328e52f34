package slack

import (
	"bytes"
	"fmt"
	"mime"

	"webhook-gateway/providers"
)

// form holds the fields of a form that are read here. Of one that is repeated it holds two values.
type form map[string][]string

// parseForm reads the body, and nothing but the body: Slack does not sign the query of the URL. It splits a
// form as browsers do: at each &, then at the first =. A percent sign that begins no escape stands for itself.
func parseForm(contentType string, body []byte) (form, error) {
	if len(body) == 0 || !isForm(contentType) {
		return nil, fmt.Errorf("%w: neither JSON nor a form", providers.ErrMalformed)
	}
	f := make(form)
	for field := range bytes.SplitSeq(body, []byte("&")) {
		encodedName, encodedValue, _ := bytes.Cut(field, []byte("="))
		if len(encodedName) > maxFieldName {
			continue
		}
		if name := unescape(encodedName); isRead(name) && len(f[name]) < 2 {
			f[name] = append(f[name], unescape(encodedValue))
		}
	}
	return f, nil
}

// maxFieldName is the length of the longest name below, each of its bytes escaped.
const maxFieldName = 3 * len("is_enterprise_install")

func isRead(name string) bool {
	switch name {
	case "payload", "ssl_check", "command", "team_id", "enterprise_id", "is_enterprise_install",
		"api_app_id", "channel_id", "trigger_id", "response_url":
		return true
	}
	return false
}

// only is a field's value when it has exactly one.
func (f form) only(name string) string {
	if len(f[name]) != 1 {
		return ""
	}
	return f[name][0]
}

func (f form) has(name string) bool { return len(f[name]) > 0 }

func isForm(contentType string) bool {
	// A parameter that cannot be read does not matter: the type before it is returned all the same.
	mediaType, _, _ := mime.ParseMediaType(contentType)
	return mediaType == "application/x-www-form-urlencoded"
}

// unescape decodes a name or a value of a form.
func unescape(text []byte) string {
	if bytes.IndexByte(text, '%') < 0 && bytes.IndexByte(text, '+') < 0 {
		return string(text)
	}
	plain := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '+':
			plain = append(plain, ' ')
		case c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]):
			plain = append(plain, hexValue(text[i+1])<<4|hexValue(text[i+2]))
			i += 2
		default:
			plain = append(plain, c)
		}
	}
	return string(plain)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

package httpdoor

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"webhook-gateway/idempotency"
)

// maxHeader is the maximum length of a client's key, in bytes.
const maxHeader = 255

var (
	errNoKey   = errors.New("the Idempotency-Key header is missing")
	errManyKey = errors.New("there is more than one Idempotency-Key header")
	errBadKey  = errors.New(`the Idempotency-Key must be 1 to 255 printable ASCII characters, bare or as a quoted string`)
)

// ParseKey reads the lines of the Idempotency-Key header. The header is a structured field, a quoted string, but most
// clients send it bare. Both forms of a text are the same key.
func ParseKey(lines []string) (string, error) {
	switch {
	case len(lines) == 0:
		return "", errNoKey
	case len(lines) > 1:
		return "", errManyKey
	}
	text := strings.Trim(lines[0], " \t")
	if rest, quoted := strings.CutPrefix(text, `"`); quoted {
		var ok bool
		if text, ok = unquote(rest); !ok {
			return "", errBadKey
		}
	}
	if text == "" || len(text) > maxHeader || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", errBadKey
	}
	return text, nil
}

// unquote reads a structured field's string after its opening quote. Backslashes escape only quotes and backslashes,
// and the closing quote ends the string.
func unquote(rest string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '"':
			return b.String(), i == len(rest)-1
		case '\\':
			i++
			if i == len(rest) || (rest[i] != '"' && rest[i] != '\\') {
				return "", false
			}
		}
		b.WriteByte(rest[i])
	}
	return "", false
}

// fingerprint identifies equal requests: method, path, query with its names in any order, and the content of the body.
// Headers are not part of it: dates, traces and signatures change on a retry.
func fingerprint(r *http.Request, body []byte) idempotency.Fingerprint {
	query := r.URL.RawQuery
	if values, err := url.ParseQuery(query); err == nil {
		query = values.Encode()
	}
	text, _ := json.Marshal(map[string]string{ // strings cannot fail
		"method": r.Method,
		"path":   r.URL.EscapedPath(),
		"query":  query,
		"body":   contentOf(r.Header.Get("Content-Type"), body),
	})
	return idempotency.Content(text).Current()
}

// contentOf returns the fingerprint of a body. The boundary of a multipart body is not part of it: clients make a new
// one for each attempt.
func contentOf(contentType string, body []byte) string {
	mediaType, params, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasPrefix(mediaType, "multipart/") || params["boundary"] == "" {
		return idempotency.Content(body).Current().String()
	}
	sum := sha256.New()
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return fmt.Sprintf("%s:%x", mediaType, sum.Sum(nil))
		}
		if err != nil { // it is not valid multipart
			return idempotency.Content(body).Current().String()
		}
		header, _ := json.Marshal(part.Header) // strings cannot fail; maps are written sorted
		content := sha256.New()
		if _, err := io.Copy(content, part); err != nil {
			return idempotency.Content(body).Current().String()
		}
		fmt.Fprintf(sum, "%d:%s%x", len(header), header, content.Sum(nil))
	}
}

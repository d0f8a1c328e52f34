package inbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"webhook-gateway/providers"
)

// The maximum sizes of stored text from outside, in bytes. Identifiers from vendors are far shorter.
const (
	maxType     = 200
	maxOrdering = 200
	maxHeader   = 1000
)

// storable makes text from outside fit for a text column. PostgreSQL accepts neither NUL nor invalid UTF-8: both become
// \x00-style escapes, and the length is bounded.
func storable(s string, limit int) string {
	clean := len(s) <= limit && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
	if clean {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		piece := s[:size]
		if r == 0 || r == utf8.RuneError && size == 1 {
			piece = fmt.Sprintf(`\x%02x`, s[0])
		}
		if out.Len()+len(piece) > limit {
			break
		}
		out.WriteString(piece)
		s = s[size:]
	}
	return out.String()
}

// headersJSON renders the kept headers as a JSON list of pairs, which keeps order and repetition.
func headersJSON(headers []providers.Header) string {
	if len(headers) == 0 {
		return "[]"
	}
	pairs := make([][2]string, len(headers))
	for i, h := range headers {
		pairs[i] = [2]string{h.Name, storable(h.Value, maxHeader)}
	}
	out, err := json.Marshal(pairs)
	if err != nil {
		return "[]" // strings always marshal
	}
	return string(out)
}

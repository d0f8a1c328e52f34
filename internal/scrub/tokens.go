package scrub

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

var (
	tokenName   = regexp.MustCompile(`^(token|verification_token)$`)
	tokenMember = regexp.MustCompile(`"(?:token|verification_token)"\s*:\s*"([^"]*)`)
	tokenField  = regexp.MustCompile(`(?:^|&)(?:token|verification_token)=([^&]*)`)
	// In a form's payload the same member is percent-encoded.
	tokenEncoded = regexp.MustCompile(`(?i)%22(?:token|verification_token)%22(?:%20|\+)*(?::|%3a)(?:%20|\+)*%22(.*?)(?:%22|&|$)`)
)

// Tokens returns the body without the vendor's verification tokens: each character of a token becomes an x, and no
// other byte changes. count is the number of tokens; without any, the body is returned as it is. The error is
// ErrCompressed if a compressed body contains one.
func Tokens(contentType string, body []byte) (clean []byte, count int, err error) {
	plain, compressed, err := inflate(body)
	if err != nil {
		return body, 0, nil // it cannot be read, and neither can a token in it
	}
	var spans [][2]int
	if looksLikeJSON(plain) {
		spans = tokensInJSON(plain)
	} else {
		for _, pattern := range []*regexp.Regexp{tokenField, tokenEncoded, tokenMember} {
			spans = append(spans, found(pattern, plain)...)
		}
	}
	if len(spans) == 0 {
		return body, 0, nil
	}
	if compressed {
		return nil, 0, fmt.Errorf("take out the verification token: %w", ErrCompressed)
	}
	clean = bytes.Clone(body)
	for _, s := range spans {
		copy(clean[s[0]:s[1]], strings.Repeat("x", s[1]-s[0]))
	}
	return clean, len(spans), nil
}

// tokensInJSON finds the tokens among the outermost members. In text that is not JSON it finds what looks like one.
func tokensInJSON(text []byte) [][2]int {
	var spans [][2]int
	err := stringsOf(text, func(start, end int, at place, name bool) {
		if !name && len(at) == 1 && !at[0].array && tokenName.MatchString(at[0].name) && end > start {
			spans = append(spans, [2]int{start, end})
		}
	})
	if err != nil {
		return found(tokenMember, text)
	}
	return spans
}

// found returns what the pattern's one group matches, unless that is empty.
func found(pattern *regexp.Regexp, text []byte) [][2]int {
	var spans [][2]int
	for _, m := range pattern.FindAllSubmatchIndex(text, -1) {
		if m[3] > m[2] {
			spans = append(spans, [2]int{m[2], m[3]})
		}
	}
	return spans
}

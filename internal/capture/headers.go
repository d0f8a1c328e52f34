package capture

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"webhook-gateway/providers"
)

// ordinary matches the headers that a capture may keep for any vendor: they describe the body.
var ordinary = regexp.MustCompile(`(?i)^(content-type|content-encoding|content-language|user-agent|accept|accept-encoding|accept-charset)$`)

// credential matches the headers that must not be kept, by the words in such names. It is broad on purpose: losing a
// header does no harm.
var credential = regexp.MustCompile(`(?i)signature|authoriz|authentic|cookie|token|secret|password|credential|api-?key|session|request-timestamp|csrf|jwt|hmac|digest`)

// Carries reports whether a header of that name carries a signature or a part of one, a credential or a cookie.
func Carries(name string) bool { return credential.MatchString(name) }

// Keep returns the headers, in their order, that a capture keeps: only the ordinary ones and those of the vendor's
// allow list.
func Keep(headers []Header, p providers.Provider) []Header { return keep(headers, p, nil) }

// KeepSigned is Keep for a diagnosis: it also keeps the headers that the vendor signs with.
func KeepSigned(headers []Header, p providers.Provider) []Header {
	return keep(headers, p, providers.SigningHeaders(p))
}

func keep(headers []Header, p providers.Provider, signing []string) []Header {
	kept := make([]Header, 0, len(headers))
	for _, h := range headers {
		stays := ordinary.MatchString(h[0]) || among(p.Headers(), h[0]) && !Carries(h[0]) || among(signing, h[0])
		if stays && h.valid() {
			kept = append(kept, h)
		}
	}
	return kept
}

func among(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// HeadersOf returns headers from net/http, sorted: net/http does not keep their order.
func HeadersOf(h http.Header) []Header {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	var list []Header
	for _, name := range names {
		for _, value := range h[name] {
			list = append(list, Header{name, value})
		}
	}
	return list
}

// Value returns the value of the first header of that name, in any letter case.
func (c *Capture) Value(name string) string {
	for _, h := range c.Headers {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}

// HTTPHeader returns the headers in net/http's form.
func (c *Capture) HTTPHeader() http.Header {
	header := make(http.Header, len(c.Headers))
	for _, h := range c.Headers {
		header.Add(h[0], h[1])
	}
	return header
}

// StoredHeaders reads headers from the inbox or the drops, where only the gateway writes them. A text that cannot be
// parsed is returned as it is.
func StoredHeaders(text string) []Header {
	var list []Header
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return []Header{{"headers", text}}
	}
	return list
}

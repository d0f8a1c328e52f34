package idempotency

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxResponse is the maximum size in bytes of a response that the row keeps. Store a longer one elsewhere first, and
// complete the claim with its ResourceRef.
const MaxResponse = 64 << 10

const (
	maxDepth    = 1000 // of nested arrays and objects; PostgreSQL's own limit depends on its stack
	maxResource = 1024 // bytes of a resource's type or id
)

// ResourceRef names what the effect created, or where its answer is stored. The zero value means none.
type ResourceRef struct{ Type, ID string }

// Answer is what a completed key replays: a response, a resource, or both. The response is JSON and is returned byte
// for byte. JSON null is a response, nil is none.
type Answer struct {
	Resource ResourceRef
	Response json.RawMessage
}

// Unkept says why a response is not in the row. A stub replaces the response, so that the completion does not fail
// after the effect was made.
type Unkept struct {
	Reason string `json:"reason"` // too_large, too_deep, not_json, reserved or unencodable
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

// stubStart is how a stub begins. Nothing else in the table begins so: a response that does is not kept either.
const stubStart = `{"idempotency:unkept":`

// Unkept returns the stub that replaced the response. False: the response is the original.
func (a Answer) Unkept() (Unkept, bool) {
	rest, ok := bytes.CutPrefix(a.Response, []byte(stubStart))
	if !ok {
		return Unkept{}, false
	}
	var u Unkept
	if err := json.NewDecoder(bytes.NewReader(rest)).Decode(&u); err != nil {
		return Unkept{}, false
	}
	return u, true
}

// validate refuses a completion that records nothing.
func (a Answer) validate() error {
	switch r := a.Resource; {
	case (r.Type == "") != (r.ID == ""):
		return fmt.Errorf("%w: resource %.100q %.100q", ErrEmptyAnswer, r.Type, r.ID)
	case r.Type == "" && a.Response == nil:
		return ErrEmptyAnswer
	}
	return nil
}

// columns returns the values to store. PostgreSQL accepts all of them.
func (a Answer) columns() (response, typ, id *string) {
	if a.Response != nil {
		text := string(a.Response)
		if reason := unkeepable(a.Response); reason != "" {
			text = stub(reason, a.Response)
		}
		response = &text
	}
	if a.Resource.Type != "" {
		t, i := storable(a.Resource.Type), storable(a.Resource.ID)
		typ, id = &t, &i
	}
	return response, typ, id
}

// reserved reports whether a caller's response could be mistaken for one of our stubs.
func reserved(response []byte) bool {
	return bytes.HasPrefix(response, []byte(failureStart)) || bytes.HasPrefix(response, []byte(unencodableStart)) || string(response) == overflowed
}

// unkeepable says why a response cannot be stored as it is; "" means it can.
func unkeepable(response []byte) string {
	switch {
	case len(response) > MaxResponse:
		return "too_large"
	case !utf8.Valid(response) || !json.Valid(response):
		return "not_json"
	case depth(response) > maxDepth:
		return "too_deep"
	case bytes.HasPrefix(response, []byte(stubStart)) && !bytes.HasPrefix(response, []byte(unencodableStart)):
		return "reserved"
	}
	return ""
}

// reasonUnencodable marks a value that could not be encoded. It has no response, so the stub has no size.
const (
	reasonUnencodable = "unencodable"
	unencodableStart  = stubStart + `{"reason":"` + reasonUnencodable + `"`
)

func stub(reason string, response []byte) string {
	u, _ := json.Marshal(unkeptOf(reason, response)) // cannot fail
	return stubStart + string(u) + "}"
}

func unkeptOf(reason string, response []byte) Unkept {
	sum := sha256.Sum256(response)
	return Unkept{Reason: reason, Size: len(response), SHA256: hex.EncodeToString(sum[:])}
}

// depth returns the maximum nesting of arrays and objects in a valid JSON text.
func depth(text []byte) int {
	open, most, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			open++
			most = max(most, open)
		case c == '}' || c == ']':
			open--
		}
	}
	return most
}

// storable makes a resource's text acceptable to PostgreSQL: it percent-escapes what cannot be stored, and replaces a
// text that is too long by its digest.
func storable(text string) string {
	if len(text) <= maxResource && strings.IndexByte(text, 0) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	escape(&b, text, "")
	return bounded(b.String(), maxResource)
}

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

// MaxResponse is the longest response in bytes that is kept in the row. Store a longer one elsewhere
// first, and complete with its ResourceRef.
const MaxResponse = 64 << 10

const (
	maxDepth    = 1000 // of nested arrays and objects; PostgreSQL's own limit hangs on its stack
	maxResource = 1024 // bytes of a resource's type or id
)

// ResourceRef names what the effect made or where its answer lies. The zero value is none.
type ResourceRef struct{ Type, ID string }

// Answer is what a completed key replays: a response, a resource, or both. The response is JSON and comes
// back byte for byte; JSON null is a response, nil is none.
type Answer struct {
	Resource ResourceRef
	Response json.RawMessage
}

// Unkept says why a response is not in the row. Its place is taken by a stub, so that the completion does
// not fail after the effect was made.
type Unkept struct {
	Reason string `json:"reason"` // too_large, too_deep, not_json, reserved or unencodable
	Size   int    `json:"size"`
	SHA256 string `json:"sha256"`
}

// stubStart begins a stub and nothing else: a response that begins so is not kept either.
const stubStart = `{"idempotency:unkept":`

// Unkept returns the stub in place of the response. False: the response is the one that was given.
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

// columns are what is stored: always something that PostgreSQL takes.
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

// reserved reports a response of a caller's that would be taken for one of ours.
func reserved(response []byte) bool {
	return bytes.HasPrefix(response, []byte(failureStart)) || bytes.HasPrefix(response, []byte(unencodableStart)) || string(response) == overflowed
}

// unkeepable says why a response cannot be stored as it is; empty: it can.
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

// reasonUnencodable is of a value that could not be turned into an answer: there is no response to tell the size of.
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

// depth is how many arrays and objects of a valid JSON text are open at once at most.
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

// storable makes a resource's text one that PostgreSQL takes: what it cannot store is percent-escaped,
// what is too long is replaced by its digest.
func storable(text string) string {
	if len(text) <= maxResource && strings.IndexByte(text, 0) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	escape(&b, text, "")
	return bounded(b.String(), maxResource)
}

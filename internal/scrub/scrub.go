// Package scrub removes from captured bodies what must not be kept: verification tokens always, and on request every
// text, each replaced by a stand-in that reveals nothing.
//
// A stand-in has the same length in bytes, with letters for letters and digits for digits. Texts that were equal stay
// equal, and an id inside another text is still that id. The words that say what kind of message a body is stay:
// without them it would be another kind.
package scrub

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"webhook-gateway/internal/form"
	"webhook-gateway/internal/gunzip"
)

// Why a body cannot be scrubbed.
var (
	ErrNoText     = errors.New("the body is neither JSON nor a form, so its texts cannot be told from the rest")
	ErrCompressed = errors.New("the body is compressed and holds a verification token, which cannot be taken out without making other bytes of it")
)

// maxInflated bounds what a compressed body may inflate to.
const maxInflated = 64 << 20

// maxNested is how often a body may be compressed. A gzip file can contain itself endlessly.
const maxNested = 2

// Words are the words in a vendor's bodies that are the vendor's own and not a person's. They stay. Like type, object
// and specversion for every vendor, a value that names a kind stays if it is short, in lower case, and not in
// metadata.
type Words struct {
	Kinds    []string // members and fields whose values name a kind
	Metadata []string // members of metadata whose names stay
	// ID matches the vendor's ids. What its one group matches tells the kind of an id, and stays. Nil: nothing does.
	ID *regexp.Regexp
}

// editing returns the replacement of a text or of a member's name.
type editing func(text string, at place, name bool) string

// Scrubber replaces texts. Use one Scrubber for bodies that belong together, so that equal texts stay equal: first
// Learn each, then Body each. Its key is random and never stored, so that stand-ins cannot be reversed by trying. It
// is not safe for concurrent use.
type Scrubber struct {
	key    []byte
	linked map[string]bool   // words that are a whole text somewhere: their stand-ins are the same everywhere
	made   map[string]string // the stand-in of each word
	taken  map[string]bool   // the stand-ins in use
	kept   map[string]bool
	words  Words // of the last Body
}

// New returns a Scrubber with its own key.
func New() *Scrubber { return newScrubber([]byte(rand.Text())) }

func newScrubber(key []byte) *Scrubber {
	return &Scrubber{key: key, linked: make(map[string]bool), made: make(map[string]string), taken: make(map[string]bool), kept: make(map[string]bool)}
}

// Kept returns the sorted protocol words that were kept, like type=event_callback. Check them before you publish a
// body.
func (s *Scrubber) Kept() []string { return slices.Sorted(maps.Keys(s.kept)) }

// Learn reads the texts of a body before Body is called for it.
func (s *Scrubber) Learn(contentType string, body []byte, words Words) error {
	_, err := s.through(contentType, body, 0, func(text string, at place, name bool) string {
		if !name || words.chosen(at) {
			s.learn(text)
		}
		return text
	})
	return err
}

// Body returns the body with a stand-in for every text in it. A compressed body is compressed again.
func (s *Scrubber) Body(contentType string, body []byte, words Words) ([]byte, error) {
	s.words = words
	return s.through(contentType, body, 0, func(text string, at place, name bool) string {
		switch {
		case name && !words.chosen(at):
			return text
		case words.kind(text, at):
			s.kept[at.name()+"="+text] = true
			return text
		default:
			return s.standIn(text)
		}
	})
}

// Text returns the stand-in of a text outside a body: a pinned identity, a query's value. It uses the words of the
// last Body.
func (s *Scrubber) Text(text string) string { return s.standIn(text) }

// through calls edit for each text of a body, and returns the resulting body.
func (s *Scrubber) through(contentType string, body []byte, depth int, edit editing) ([]byte, error) {
	if len(body) == 0 {
		return body, nil
	}
	if plain, ok, err := inflate(body); err != nil {
		return nil, err
	} else if ok {
		if depth == maxNested {
			return nil, ErrNoText
		}
		edited, err := s.through(contentType, plain, depth+1, edit)
		if err != nil {
			return nil, err
		}
		return deflate(edited)
	}
	if looksLikeJSON(body) {
		edited, err := editJSON(body, edit)
		if err != nil {
			return nil, ErrNoText
		}
		return edited, nil
	}
	if isForm(contentType) {
		return editForm(body, edit)
	}
	return nil, ErrNoText
}

func looksLikeJSON(body []byte) bool {
	body = bytes.TrimLeft(body, " \t\r\n")
	return len(body) > 0 && (body[0] == '{' || body[0] == '[' || body[0] == '"')
}

func isForm(contentType string) bool {
	kind, _, _ := mime.ParseMediaType(contentType)
	return kind == "application/x-www-form-urlencoded"
}

// inflate undoes gzip; false if the body is not gzip.
func inflate(body []byte) (plain []byte, compressed bool, err error) {
	if !gunzip.Is(body) {
		return body, false, nil
	}
	plain, err = gunzip.Inflate(body, maxInflated)
	switch {
	case errors.Is(err, gunzip.ErrTooLarge):
		return nil, true, fmt.Errorf("inflate the body: it becomes more than %d bytes", maxInflated)
	case err != nil:
		return nil, true, fmt.Errorf("inflate the body: %w", ErrNoText)
	}
	return plain, true, nil
}

func deflate(plain []byte) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(plain); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// editForm edits the values of a form. A value that is JSON is edited inside.
func editForm(body []byte, edit editing) ([]byte, error) {
	fields := strings.Split(string(body), "&")
	for i, field := range fields {
		name, raw, ok := strings.Cut(field, "=")
		value := form.Unescape([]byte(raw))
		if !ok || value == "" {
			continue
		}
		edited := ""
		if inner, err := editJSON([]byte(value), edit); err == nil && looksLikeJSON([]byte(value)) {
			edited = string(inner)
		} else {
			edited = edit(value, place{{name: name}}, false)
		}
		if edited != value {
			fields[i] = name + "=" + url.QueryEscape(edited)
		}
	}
	return []byte(strings.Join(fields, "&")), nil
}

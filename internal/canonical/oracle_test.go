package canonical

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// jsontextForm writes the canonical form in the plainest way there is, on another tokeniser. It is good
// for documents of proper UTF-8 only; a repeated member ends up in the text as "!".
func jsontextForm(body []byte, omit []string) (string, error) {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	form, err := formOf(d, omit)
	if err != nil {
		return "", err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return "", errors.New("something follows")
	}
	return form, nil
}

func formOf(d *jsontext.Decoder, omit []string) (string, error) {
	switch d.PeekKind() {
	case '{', '[':
	case '"':
		token, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		return quoted(token.String()), nil
	default:
		value, err := d.ReadValue()
		return string(value), err
	}
	opening, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	var parts []string
	names := map[string]bool{}
	for d.PeekKind() != ']' && d.PeekKind() != '}' {
		var name string
		if opening.Kind() == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return "", err
			}
			name = token.String()
		}
		part, err := formOf(d, nil)
		if err != nil {
			return "", err
		}
		if opening.Kind() == '[' {
			parts = append(parts, part)
		} else if !slices.Contains(omit, name) {
			if names[name] {
				part = "!"
			}
			names[name] = true
			parts = append(parts, name+"\x00"+quoted(name)+":"+part)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return "", err
	}
	if opening.Kind() == '[' {
		return "[" + strings.Join(parts, ",") + "]", nil
	}
	slices.Sort(parts)
	for i, part := range parts {
		_, parts[i], _ = strings.Cut(part, "\x00")
	}
	return "{" + strings.Join(parts, ",") + "}", nil
}

func quoted(s string) string {
	text, _ := jsontext.AppendQuote(nil, s)
	return string(text)
}

func sumOf(form string) string {
	sum := sha256.Sum256([]byte(form))
	return canonicalPrefix + hex.EncodeToString(sum[:])
}

// checkFingerprint compares a document's fingerprint with the plain way's. What is no proper UTF-8, or may
// have become U+FFFD there, cannot be compared.
func checkFingerprint(t *testing.T, body []byte, omit ...string) {
	t.Helper()
	form, err := jsontextForm(body, omit)
	if err != nil || !utf8.Valid(body) || strings.ContainsRune(form, utf8.RuneError) || strings.Contains(string(body), "u0000") {
		return
	}
	want := sumOf(form)
	if strings.Contains(form, "!") && repeats(body, omit) {
		want = Raw(body)
	}
	if got := Hash(body, omit...); got != want {
		t.Errorf("%.200q without %q: fingerprint %s, want %s of %.200s", body, omit, got, want, form)
	}
}

// repeats reports whether a member of a document is repeated, other than one left out.
func repeats(body []byte, omit []string) bool {
	var d Doc
	if err := d.Parse(body); err != nil {
		return false
	}
	var look func(v Value, omit []string) bool
	look = func(v Value, omit []string) bool {
		names := map[string]bool{}
		for i, end := v.at+1, d.nodes[v.at].after(); v.Kind() == Object && i < end; i = d.nodes[i+1].after() {
			name := Value{doc: &d, at: i}.Text()
			if slices.Contains(omit, name) {
				continue
			}
			if names[name] || look(Value{doc: &d, at: i + 1}, nil) {
				return true
			}
			names[name] = true
		}
		for e := range v.Elements() {
			if look(e, nil) {
				return true
			}
		}
		return false
	}
	return look(d.Root(), omit)
}

// checkTexts compares every string and every scalar's bytes with what jsontext reads.
func checkTexts(t *testing.T, doc *Doc, d *jsontext.Decoder) {
	t.Helper()
	for i := range doc.nodes {
		v := Value{doc: doc, at: uint32(i)}
		for d.PeekKind() == ']' || d.PeekKind() == '}' {
			_, _ = d.ReadToken()
		}
		switch v.Kind() {
		case Object, Array:
			if token, err := d.ReadToken(); err != nil || byte(token.Kind()) != v.Raw()[0] {
				t.Fatalf("node %d is %q, jsontext has %v, %v", i, v.Raw(), token, err)
			}
		case String:
			token, err := d.ReadToken()
			if text := v.Text(); err != nil || utf8.ValidString(text) && text != token.String() {
				t.Fatalf("node %d is %q, jsontext has %q, %v", i, text, token.String(), err)
			}
		default:
			if value, err := d.ReadValue(); err != nil || !bytes.Equal(value, v.Raw()) {
				t.Fatalf("node %d is %q, jsontext has %q, %v", i, v.Raw(), value, err)
			}
		}
	}
}

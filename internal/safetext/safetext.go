// Package safetext escapes text that is not safe to print. Control characters in data from outside could move a
// terminal's cursor, hide lines or change the direction of text.
package safetext

import (
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Rune reports whether a character is drawn and does not affect the text around it. That excludes controls (C0, C1,
// DEL), bidirectional controls, line separators and invisible format characters, but not the joiners that scripts and
// emoji need.
func Rune(r rune) bool {
	return unicode.IsGraphic(r) || r == '\u200c' || r == '\u200d'
}

// Text reports whether bytes are lines of safe text: UTF-8 of safe characters, tabs and newlines, also after a carriage
// return.
func Text(body []byte) bool {
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		switch {
		case r == utf8.RuneError && size == 1:
			return false
		case r == '\r' && len(body) > 1 && body[1] == '\n', r == '\n', r == '\t', Rune(r):
			body = body[size:]
		default:
			return false
		}
	}
	return true
}

// Line returns the text for use within one line: it writes every unsafe character, including newline and tab, as
// \uXXXX.
func Line(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return !Rune(r) || r == utf8.RuneError }) < 0 {
		return text
	}
	var out []byte
	for _, r := range text {
		if Rune(r) {
			out = utf8.AppendRune(out, r)
		} else {
			out = appendEscape(out, r)
		}
	}
	return string(out)
}

// appendEscape writes a character as \uXXXX. One beyond the basic plane becomes the two of UTF-16, so that JSON can
// read it back.
func appendEscape(out []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}

// Writer makes output safe for a terminal. It passes newlines and tabs, writes every other unsafe character as \uXXXX,
// and bytes that are not UTF-8 as U+FFFD. JSON keeps its meaning, because such characters occur only inside its
// strings. It is safe for concurrent use.
type Writer struct {
	to   io.Writer
	mu   sync.Mutex
	rest []byte // the start of an incomplete character
	out  []byte
}

// NewWriter returns a Writer to another writer.
func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Raw returns the underlying writer, for bytes that must not change.
func (w *Writer) Raw() io.Writer { return w.to }

// Write writes p with its unsafe characters escaped. An incomplete character at the end of p waits for the next call.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) == 0 && plain(p) {
		return w.to.Write(p)
	}
	text := append(w.rest, p...)
	w.rest, w.out = nil, w.out[:0]
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && !utf8.FullRune(text):
			w.rest, text = text, nil
			continue
		case Rune(r) || r == '\n' || r == '\t':
			w.out = utf8.AppendRune(w.out, r)
		default:
			w.out = appendEscape(w.out, r)
		}
		text = text[size:]
	}
	if _, err := w.to.Write(w.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plain reports whether the text is only printable ASCII, newlines and tabs. Every log line passes here, so it checks
// eight bytes at once.
func plain(p []byte) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; len(p) >= 8; p = p[8:] {
		x := binary.LittleEndian.Uint64(p)
		del := x ^ ones*0x7f
		if (x|(x-ones*' ')|(del-ones))&high != 0 && !plainBytes(p[:8]) {
			return false
		}
	}
	return plainBytes(p)
}

func plainBytes(p []byte) bool {
	for _, b := range p {
		if (b < ' ' || b > '~') && b != '\n' && b != '\t' {
			return false
		}
	}
	return true
}

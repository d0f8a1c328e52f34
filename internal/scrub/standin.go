package scrub

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

var (
	seconds = regexp.MustCompile(`^1[0-9]{9}$`)
	hosts   = regexp.MustCompile(`(?:://|@)([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)`)
	literal = regexp.MustCompile(`^(true|false|null)?$`)
)

// learn records the words of a text that is not prose: a name, an id, an address.
func (s *Scrubber) learn(value string) {
	if isProse(value) {
		return
	}
	for _, w := range words(value) {
		if w.word {
			s.linked[w.text] = true
		}
	}
}

func isProse(value string) bool { return strings.IndexFunc(value, unicode.IsSpace) >= 0 }

// piece is a word, or the characters between two words.
type piece struct {
	text string
	word bool
}

// words splits a text.
func words(text string) []piece {
	var pieces []piece
	for len(text) > 0 {
		r, _ := utf8.DecodeRuneInString(text)
		word := inWord(r)
		end := strings.IndexFunc(text, func(r rune) bool { return inWord(r) != word })
		if end < 0 {
			end = len(text)
		}
		pieces = append(pieces, piece{text[:end], word})
		text = text[end:]
	}
	return pieces
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || unicode.Is(unicode.So, r))
}

// standIn returns the stand-in of a text: as many characters, each with as many bytes.
func (s *Scrubber) standIn(text string) string {
	if literal.MatchString(text) {
		return text
	}
	if moved, ok := s.moveDate(text); ok {
		return moved
	}
	prose := isProse(text)
	ends := hostEnds(text)
	var out strings.Builder
	at := 0
	for i, p := range words(text) {
		at += len(p.text)
		switch {
		case !p.word:
			out.WriteString(p.text)
		case ends[at]: // a top-level domain without registrations
			out.WriteString(nowhere(p.text))
		case prose && !s.linked[p.text]:
			// A word in prose gets a different stand-in each time, so that its frequency reveals nothing.
			out.WriteString(s.spell(p.text, text+"\x00"+strconv.Itoa(i)))
		default:
			out.WriteString(s.word(p.text))
		}
	}
	return out.String()
}

// hostEnds returns the ends of the last label of each host name in a text.
func hostEnds(text string) map[int]bool {
	ends := make(map[int]bool)
	for _, m := range hosts.FindAllStringSubmatchIndex(text, -1) {
		ends[m[3]] = true
	}
	return ends
}

// nowhere returns a top-level domain of the same length that is not delegated.
func nowhere(label string) string {
	switch len(label) {
	case 4:
		return "test"
	case 7:
		return "example"
	default:
		return strings.Repeat("z", len(label))
	}
}

// word returns the stand-in of a word, which is the same everywhere. Two words get different stand-ins as long as
// there are enough.
func (s *Scrubber) word(word string) string {
	if made, ok := s.made[word]; ok {
		return made
	}
	made := ""
	for try := range 100 {
		made = s.spell(word, "word\x00"+strconv.Itoa(try))
		if made != word && !s.taken[made] {
			break
		}
	}
	s.made[word], s.taken[made] = made, true
	return made
}

// spell makes a stand-in for a word; a different salt gives a different one.
func (s *Scrubber) spell(word, salt string) string {
	if seconds.MatchString(word) {
		n, _ := strconv.ParseInt(word, 10, 64)
		return strconv.FormatInt(n-int64(s.number("seconds")%9_000_000+1), 10)
	}
	kept := 0
	if s.words.ID != nil {
		if m := s.words.ID.FindStringSubmatch(word); m != nil {
			kept = len(m[1])
		}
	}
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(salt + "\x00" + word))
	stream := mac.Sum(nil)
	var out strings.Builder
	n := 0
	for at, r := range word {
		if n%len(stream) == len(stream)-1 {
			stream = sum(mac, stream)
		}
		b := stream[n%len(stream)]
		n++
		if at < kept {
			out.WriteRune(r)
		} else {
			out.WriteRune(like(r, b, at == 0))
		}
	}
	return out.String()
}

type hasher interface {
	Write([]byte) (int, error)
	Sum([]byte) []byte
}

// sum continues a stream at its end.
func sum(mac hasher, stream []byte) []byte {
	_, _ = mac.Write(stream) // a hash accepts everything
	return mac.Sum(nil)
}

// like returns a character of the same kind and the same length in UTF-8.
func like(r rune, b byte, first bool) rune {
	n := rune(b)
	switch size := utf8.RuneLen(r); {
	case r >= 'a' && r <= 'z':
		return 'a' + n%26
	case r >= 'A' && r <= 'Z':
		return 'A' + n%26
	case r >= '1' && r <= '9' && first:
		return '1' + n%9
	case r >= '0' && r <= '9' && !(first && r == '0'):
		return '0' + n%10
	case r < utf8.RuneSelf:
		return r
	case unicode.IsMark(r) && size == 2:
		return '\u0301'
	case unicode.Is(unicode.So, r) && size == 3:
		return '■'
	case unicode.Is(unicode.So, r) && size == 4:
		return '🟦'
	case size == 2:
		return 'α' + n%17
	case size == 3:
		return '一' + n
	default:
		return '𠀀' + n
	}
}

// number returns a number that depends on the key and the purpose.
func (s *Scrubber) number(purpose string) uint32 {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte("number\x00" + purpose))
	return binary.BigEndian.Uint32(mac.Sum(nil))
}

// moveDate moves a date by as many days as every other one, so that their order stays.
func (s *Scrubber) moveDate(text string) (string, bool) {
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano, "2006-01-02T15:04:05", time.DateTime} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		day := t.AddDate(0, 0, -int(s.number("days")%300)-1).Format(time.DateOnly)
		return day + text[len(time.DateOnly):], true
	}
	return "", false
}

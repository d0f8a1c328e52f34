package doctor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"webhook-gateway/providers"
)

// shape is how a vendor writes its signature, learned from one that was made here.
type shape struct {
	signer                  providers.Signer
	signatureHeader, prefix string
	timeHeader              string // empty: the vendor signs no time
}

func shapeOf(signer providers.Signer) shape {
	at := time.Unix(1_700_000_000, 0)
	s := shape{signer: signer}
	for name, values := range signer.Sign("a secret", []byte("a body"), at) {
		if values[0] == strconv.FormatInt(at.Unix(), 10) {
			s.timeHeader = name
			continue
		}
		s.signatureHeader = name
		s.prefix = values[0][:max(0, len(values[0])-hex.EncodedLen(sha256.Size))]
	}
	return s
}

func (s shape) names() []string {
	if s.timeHeader == "" {
		return []string{s.signatureHeader}
	}
	return []string{s.signatureHeader, s.timeHeader}
}

// time returns the signed time; false if the vendor signs none or it cannot be parsed.
func (s shape) time(header http.Header) (time.Time, bool) {
	if s.timeHeader == "" {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseInt(header.Get(s.timeHeader), 10, 64)
	return time.Unix(seconds, 0), err == nil
}

func equal(a, b string) bool { return hmac.Equal([]byte(a), []byte(b)) }

// digest holds a signature's bytes, independent of their spelling.
type digest [sha256.Size]byte

// prefixed matches a word and an equals sign before a signature.
var prefixed = regexp.MustCompile(`^([A-Za-z0-9_.-]{1,12})=(.+)$`)

// read decodes a signature as far as possible, and returns what is wrong with its form.
func (s shape) read(given string) (d digest, causes []Cause, ok bool) {
	text := strings.Trim(given, " \t\"'")
	if text != given {
		causes = append(causes, Cause{Code: Quoted, Says: "the signature has quotes or blanks around it"})
	}
	rest, hasPrefix := strings.CutPrefix(text, s.prefix)
	switch m := prefixed.FindStringSubmatch(text); {
	case s.prefix != "" && hasPrefix:
		text = rest
	case m != nil && isDigest(m[2]):
		causes = append(causes, Cause{Code: PrefixOther, Says: "the signature begins with " + shown(m[1]) + "=, and should begin with " + orNothing(s.prefix)})
		text = m[2]
	case s.prefix != "":
		causes = append(causes, Cause{Code: PrefixMissing, Says: "the signature lacks its beginning " + s.prefix})
	}
	raw, form := decode(text)
	switch {
	case form == Base64:
		causes = append(causes, Cause{Code: Base64, Says: "the signature is in base64, and should be in hexadecimal digits"})
	case form == UpperCase:
		causes = append(causes, Cause{Code: UpperCase, Says: "the signature is in upper-case digits, and should be in lower-case ones"})
	}
	if len(raw) != sha256.Size {
		return d, append(causes, wrongLength(text, raw)), false
	}
	return digest(raw), causes, true
}

func orNothing(prefix string) string {
	if prefix == "" {
		return "its digits"
	}
	return prefix
}

func isDigest(text string) bool { raw, _ := decode(text); return len(raw) == sha256.Size }

// decode reads hexadecimal digits or base64. form says which it was, unless it was lower-case digits.
func decode(text string) (raw []byte, form Code) {
	if raw, err := hex.DecodeString(text); err == nil {
		if text != strings.ToLower(text) {
			return raw, UpperCase
		}
		return raw, ""
	}
	if hexadecimal(text) {
		return nil, ""
	}
	plain := strings.TrimRight(text, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		raw, err := encoding.DecodeString(plain)
		if err == nil && (len(raw) == 20 || len(raw) == sha256.Size || len(raw) == 64) {
			return raw, Base64
		}
	}
	return nil, ""
}

func hexadecimal(text string) bool {
	return strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
}

func wrongLength(text string, raw []byte) Cause {
	switch {
	case len(raw) == 20:
		return Cause{Code: OtherAlgorithm, Says: "the signature is as long as one of SHA-1, and should be one of SHA-256"}
	case len(raw) == 64:
		return Cause{Code: OtherAlgorithm, Says: "the signature is as long as one of SHA-512, and should be one of SHA-256"}
	case hexadecimal(text) && len(text) < hex.EncodedLen(sha256.Size):
		return Cause{Code: Truncated, Says: "the signature has " + strconv.Itoa(len(text)) + " digits of 64: it was cut"}
	default:
		return Cause{Code: NotASignature, Says: "the header does not contain a signature"}
	}
}

var (
	digits = regexp.MustCompile(`^[0-9]+$`)
	millis = regexp.MustCompile(`^1[0-9]{12}$`)
)

// misshapen returns what is wrong with the form of the headers.
func (s shape) misshapen(header http.Header) []Cause {
	_, causes, _ := s.read(header.Get(s.signatureHeader))
	if s.timeHeader == "" {
		return causes
	}
	switch sent := header.Get(s.timeHeader); {
	case millis.MatchString(sent):
		causes = append(causes, Cause{Code: TimeMillis, Says: "the timestamp is in milliseconds, and should be in seconds"})
	case sent != "" && (!digits.MatchString(sent) || sent[0] == '0'):
		causes = append(causes, Cause{Code: TimeMalformed, Says: "the timestamp is not plain decimal digits"})
	}
	slices.SortStableFunc(causes, func(a, b Cause) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return causes
}

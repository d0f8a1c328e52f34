package doctor

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"webhook-gateway/providers"
)

// maxPaired bounds the bodies that are tried with two changes at once.
const maxPaired = 64 << 10

// around is how far from a known time signed times are tried.
const around = 15 * time.Minute

// searching is one search for what makes a signature fit.
type searching struct {
	Case
	shape  shape
	given  digest
	at     time.Time
	timed  bool
	bodies []variant
	keys   []variant // secrets to try besides the live ones
}

// variant is another body or another secret, and what it means if it fits.
type variant struct {
	code Code
	says string
	text []byte
}

// search finds what makes the signature fit, and records it. It first undoes what is wrong with the signature's own
// form.
func (c Case) search(d *Diagnosis, s shape, header http.Header) {
	given := header.Get(s.signatureHeader)
	if given == "" {
		return
	}
	read, form, readable := s.read(given)
	if !readable {
		for _, cause := range form {
			d.cause(cause.Code, false, "%s", cause.Says)
		}
		return
	}
	at, timed := s.time(header)
	f := &searching{Case: c, shape: s, given: read, at: at, timed: timed}
	f.bodies, f.keys = append(bodiesLike(c.Capture), c.bodiesNear()...), c.secretsLike()
	found := f.find()
	if found == nil {
		for _, cause := range form {
			d.cause(cause.Code, false, "%s", cause.Says)
		}
		c.suspect(d)
		return
	}
	for i := range d.Causes { // the form was looked at before
		d.Causes[i].Proved = true
	}
	for _, cause := range form {
		d.cause(cause.Code, true, "%s", cause.Says)
	}
	for _, cause := range found {
		d.cause(cause.code, true, "%s", cause.says)
	}
}

// find tries single changes, then pairs. It returns nil if none fits, and an empty list if no change is needed.
func (f *searching) find() []variant {
	asItIs := variant{text: f.Capture.Content}
	for _, secret := range f.Secrets {
		if f.fits(secret.Text, f.at, asItIs.text) {
			return []variant{}
		}
	}
	for _, body := range f.bodies {
		for _, secret := range f.Secrets {
			if f.fits(secret.Text, f.at, body.text) {
				return []variant{body}
			}
		}
	}
	for _, key := range f.keys {
		if f.fits(string(key.text), f.at, asItIs.text) {
			return []variant{key}
		}
	}
	if found := f.times(); found != nil {
		return found
	}
	if len(f.Capture.Content) > maxPaired {
		return nil
	}
	for _, body := range f.bodies {
		for _, key := range f.keys {
			if f.fits(string(key.text), f.at, body.text) {
				return []variant{key, body}
			}
		}
	}
	return nil
}

// fits reports whether the secret makes the received signature for that body at that time.
func (f *searching) fits(secret string, at time.Time, body []byte) bool {
	if strings.TrimSpace(secret) == "" {
		return false
	}
	made, _, ok := f.shape.read(f.shape.signer.Sign(secret, body, at).Get(f.shape.signatureHeader))
	return ok && hmac.Equal(made[:], f.given[:])
}

// times tries other signed times, and no time at all, if the vendor signs one.
func (f *searching) times() []variant {
	if f.shape.timeHeader == "" {
		return nil
	}
	for _, secret := range f.Secrets {
		mac := hmac.New(sha256.New, []byte(secret.Text))
		mac.Write(f.Capture.Content)
		if hmac.Equal(mac.Sum(nil), f.given[:]) {
			return []variant{{code: PlainSignature, says: "only the body was signed, without the version and the timestamp before it"}}
		}
		for _, middle := range []time.Time{f.at, time.Unix(f.at.Unix()/1000, 0), f.Capture.ReceivedAt} {
			if at, ok := f.timeNear(secret.Text, middle); ok {
				return []variant{f.sentAt(at)}
			}
		}
	}
	return nil
}

func (f *searching) timeNear(secret string, middle time.Time) (time.Time, bool) {
	if middle.Unix() <= 0 {
		return time.Time{}, false
	}
	for ago := range int64(around / time.Second) {
		for _, second := range []int64{middle.Unix() - ago, middle.Unix() + ago} {
			if f.fits(secret, time.Unix(second, 0), f.Capture.Content) {
				return time.Unix(second, 0), true
			}
		}
	}
	return time.Time{}, false
}

// sentAt returns the cause when the signature fits another time than the received one.
func (f *searching) sentAt(at time.Time) variant {
	when := offset(f.Capture.ReceivedAt.Sub(at))
	switch {
	case !f.timed:
		return variant{code: TimeMissing, says: "the signature is good, and the header " + f.shape.timeHeader + " that belongs to it did not come: it was " + when}
	case f.at.Unix()/1000 == at.Unix():
		return variant{code: TimeMillis, says: "the signature is good, and its timestamp came in milliseconds, and should be in seconds"}
	default:
		return variant{code: TimeChanged, says: fmt.Sprintf("the signature is good for a timestamp %s from the one that came; it was %s", f.at.Sub(at).Abs().Round(time.Second), when)}
	}
}

// bodiesNear returns the bodies of other captures.
func (c Case) bodiesNear() []variant {
	var list []variant
	for _, near := range c.Near {
		if string(near.Content) != string(c.Capture.Content) {
			list = append(list, variant{OtherBody, "the signature belongs to another body: that of capture " + shown(near.Name), near.Content})
		}
	}
	return list
}

// secretsLike returns secrets to try besides the live ones: the live ones with blanks, quotes or an encoding added or
// removed, the vendor's test secret, and those of other sources and jobs.
func (c Case) secretsLike() []variant {
	var list []variant
	add := func(code Code, text, format string, args ...any) {
		list = append(list, variant{code, fmt.Sprintf(format, args...), []byte(text)})
	}
	if t, ok := c.Vendor.(providers.Tester); ok {
		add(TestSecret, t.TestSecret(), "it was signed with the public secret that %s signs test events with: it is not a delivery", c.Vendor.Name())
	}
	for _, s := range c.Secrets {
		if bare := strings.TrimSpace(s.Text); bare != s.Text {
			add(SecretBlanks, bare, "the %s secret is registered with blanks or a line end around it, and the vendor signs without", s.Name)
		}
		for _, blank := range []string{"\n", "\r\n", " "} {
			add(SecretBlanks, s.Text+blank, "it was signed with the %s secret and a blank or line end behind it", s.Name)
			add(SecretBlanks, blank+s.Text, "it was signed with a blank or line end and the %s secret behind it", s.Name)
		}
		for _, q := range []string{`"`, "'"} {
			if bare := strings.Trim(s.Text, q); bare != s.Text {
				add(SecretQuoted, bare, "the %s secret is registered with quotes around it", s.Name)
			}
			add(SecretQuoted, q+s.Text+q, "it was signed with the %s secret in quotes", s.Name)
		}
		if raw, err := hex.DecodeString(s.Text); err == nil {
			add(SecretEncoded, string(raw), "it was signed with the bytes that the %s secret's hexadecimal digits stand for, and not with its text", s.Name)
		}
		if raw, err := base64.StdEncoding.DecodeString(s.Text); err == nil {
			add(SecretEncoded, string(raw), "it was signed with the bytes that the %s secret stands for in base64, and not with its text", s.Name)
		}
	}
	for _, o := range c.Others {
		add(OtherSecret, o.Text, "it was signed with the secret of %s: the vendor was given the URL of another source or job", o.Name)
	}
	return list
}

// suspect records what looks wrong if no change that was tried fits.
func (c Case) suspect(d *Diagnosis) {
	content := c.Capture.Content
	zipped := len(content) > 1 && content[0] == 0x1f && content[1] == 0x8b
	encoding := c.Capture.Value("Content-Encoding")
	switch {
	case providers.Compressed(encoding) && !zipped:
		d.cause(Inflated, false, "Content-Encoding says %s and the body is not compressed: something inflated it, and the compressed bytes are what was signed", shown(encoding))
	case utf8.Valid(content) && strings.ContainsRune(string(content), utf8.RuneError):
		d.cause(LostBytes, false, "the body holds replacement characters: it was read as text, and bytes of it were lost")
	default:
		d.cause(Unknown, false, "no live secret fits, and no change that was tried: it was signed with another secret, or for another body")
	}
}

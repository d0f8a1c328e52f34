// Package doctor finds out whether a captured request would be accepted. If its signature does not fit, it tries what
// usually goes wrong between a vendor and a verifier until the signature fits. Its texts contain no secret and no
// correct signature.
package doctor

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"webhook-gateway/internal/capture"
	"webhook-gateway/providers"
)

// Secret is a signing secret with its name.
type Secret struct {
	Name string // like: current, previous, source main
	Text string
}

// Case is a request to examine, and what is known about it.
type Case struct {
	Capture *capture.Capture
	Vendor  providers.Provider
	Secrets []Secret // the live ones for the request, the current one first
	Others  []Secret // of other sources and jobs of the vendor
	// Near holds other captures: the signature may be one of theirs.
	Near []*capture.Capture
	// TimeUnknown means that the time of receipt is not known, so the age is not checked.
	TimeUnknown bool
	MaxBody     int64
}

// Step is one check of a gateway, in the gateway's order.
type Step struct {
	Name string `json:"step"`
	OK   bool   `json:"ok"`
	Says string `json:"says"`
}

// Cause is a reason why the signature does not fit.
type Cause struct {
	Code Code   `json:"cause"`
	Says string `json:"says"`
	// Proved: the signature fits once this is undone. Otherwise it only looks wrong.
	Proved bool `json:"proved"`
}

// Diagnosis is the result of an examination.
type Diagnosis struct {
	Accepted bool    `json:"accepted"`
	Status   int     `json:"status"` // what a gateway would answer
	Steps    []Step  `json:"steps"`
	Causes   []Cause `json:"causes"`
}

// Has reports whether a cause was found.
func (d Diagnosis) Has(code Code) bool {
	for _, c := range d.Causes {
		if c.Code == code {
			return true
		}
	}
	return false
}

func (d *Diagnosis) step(name string, ok bool, format string, args ...any) bool {
	d.Steps = append(d.Steps, Step{name, ok, fmt.Sprintf(format, args...)})
	return ok
}

func (d *Diagnosis) cause(code Code, proved bool, format string, args ...any) {
	if !d.Has(code) {
		d.Causes = append(d.Causes, Cause{code, fmt.Sprintf(format, args...), proved})
	}
}

// Examine repeats a gateway's checks step by step, and searches for the cause if the signature does not fit.
func Examine(c Case) Diagnosis {
	d := Diagnosis{Status: http.StatusUnauthorized, Causes: []Cause{}}
	header := c.Capture.HTTPHeader()
	c.method(&d)
	signer, ok := c.Vendor.(providers.Signer)
	if !ok {
		d.step("signature", false, "how %s signs is not known here", c.Vendor.Name())
		return d
	}
	s := shapeOf(signer)
	headers := c.headers(&d, s, header)
	fresh := headers && c.form(&d, s, header)
	if int64(len(c.Capture.Content)) > c.MaxBody {
		d.step("size", false, "the body has %d bytes, and %d are taken", len(c.Capture.Content), c.MaxBody)
		if fresh {
			d.Status = http.StatusRequestEntityTooLarge
		}
		return d
	}
	d.step("size", true, "the body has %d bytes", len(c.Capture.Content))
	if len(c.Secrets) == 0 {
		d.step("signature", false, "there is no secret to verify with")
		d.cause(NoSecret, false, "no secret is set: a gateway answers 503 until one is")
		d.Status = http.StatusServiceUnavailable
		return d
	}
	secret, fits := c.verify(s, header)
	switch {
	case !fits:
		d.step("signature", false, "no live secret signed exactly these bytes")
		c.search(&d, s, header)
	case fresh && secret > 0:
		d.step("signature", true, "it fits, with the %s secret: the current one is another", c.Secrets[secret].Name)
	default:
		d.step("signature", true, "it fits, with the %s secret", c.Secrets[secret].Name)
	}
	if d.Accepted = fits && fresh; d.Accepted {
		d.Status = http.StatusOK
	}
	c.body(&d)
	return d
}

func (c Case) method(d *Diagnosis) {
	path, _, _ := strings.Cut(c.Capture.Target, "?")
	switch {
	case c.Capture.Method != http.MethodPost:
		d.step("request", false, "it is a %s; deliveries are POSTs", c.Capture.Method)
	case !strings.HasPrefix(path, "/webhooks/"+c.Vendor.Name()+"/"):
		d.step("request", true, "it called another URL than a gateway's; that is not signed")
	default:
		d.step("request", true, "a POST to one of %s's URLs", c.Vendor.Name())
	}
}

// headers checks that each signature header is present once.
func (c Case) headers(d *Diagnosis, s shape, header http.Header) bool {
	ok := true
	for _, name := range s.names() {
		values := header.Values(name)
		switch {
		case len(values) == 0:
			ok = d.step("headers", false, "%s is missing", name)
			code := SignatureMissing
			if name == s.timeHeader {
				code = TimeMissing
			}
			d.cause(code, false, "the header %s is missing: a proxy that lets only known headers through takes it out", name)
		case len(values) > 1:
			ok = d.step("headers", false, "%s is there %d times", name, len(values))
			d.cause(SignatureTwice, false, "the header %s is there %d times: it is not clear which one is meant", name, len(values))
		}
	}
	if ok {
		d.step("headers", true, "%s", strings.Join(s.names(), " and "))
	}
	return ok
}

// form lets the vendor's own code check whether the headers are well-formed and fresh.
func (c Case) form(d *Diagnosis, s shape, header http.Header) bool {
	at := c.Capture.ReceivedAt
	sent, timed := s.time(header)
	if c.TimeUnknown && timed {
		at = sent
	}
	_, err := c.Vendor.Prove(header, at)
	switch {
	case err == nil && !timed:
		return d.step("form", true, "as %s documents it; it signs no time", c.Vendor.Name())
	case err == nil && c.TimeUnknown:
		return d.step("form", true, "as %s documents it; its age cannot be checked, because the time of receipt is not known", c.Vendor.Name())
	case err == nil:
		return d.step("form", true, "as %s documents it, %s", c.Vendor.Name(), offset(at.Sub(sent)))
	case errors.Is(err, providers.ErrStale):
		d.cause(Stale, true, "the timestamp is %s: the sender's clock or this one is wrong, or the request was held up or sent again later", offset(at.Sub(sent)))
		return d.step("form", false, "well-formed, and the timestamp is %s, which is out of time", offset(at.Sub(sent)))
	default:
		for _, cause := range s.misshapen(header) {
			d.cause(cause.Code, cause.Proved, "%s", cause.Says)
		}
		return d.step("form", false, "the headers are present, but not as %s documents them", c.Vendor.Name())
	}
}

// offset describes how far a timestamp is from the time of receipt.
func offset(age time.Duration) string {
	switch age = age.Round(time.Second); {
	case age == 0:
		return "signed at the time of receipt"
	case age > 0:
		return fmt.Sprintf("signed %s before it was received", age)
	default:
		return fmt.Sprintf("signed %s after it was received", -age)
	}
}

// verify finds the live secret that makes the received signature.
func (c Case) verify(s shape, header http.Header) (secret int, fits bool) {
	given := header.Get(s.signatureHeader)
	at, _ := s.time(header)
	for i, secret := range c.Secrets {
		if strings.TrimSpace(secret.Text) == "" {
			continue
		}
		if equal(s.signer.Sign(secret.Text, c.Capture.Content, at).Get(s.signatureHeader), given) {
			return i, true
		}
	}
	return 0, false
}

// body describes what a gateway reads in the body once the signature is accepted.
func (c Case) body(d *Diagnosis) {
	then := ""
	if !d.Accepted {
		then = "; but it is refused before that"
	}
	plain, err := c.Capture.Plain()
	if err != nil {
		d.step("body", false, "signed or not, it would be acknowledged and dropped as malformed: %s%s", err, then)
		return
	}
	deliveries, err := c.Vendor.Parse(c.Capture.Value("Content-Type"), plain)
	switch {
	case err != nil:
		d.step("body", false, "it would be acknowledged and dropped as malformed: %s%s", err, then)
	case len(deliveries) == 1 && deliveries[0].Tenant.Name != "":
		d.step("body", true, "one delivery of %s=%s%s", deliveries[0].Tenant.Name, shown(deliveries[0].Tenant.Value), then)
	default:
		d.step("body", true, "deliveries: %d%s", len(deliveries), then)
	}
}

// shown returns a text of the body, shortened, and safe to print on a terminal.
func shown(text string) string {
	if len(text) > 60 {
		text = text[:60] + "…"
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, text), "?")
}

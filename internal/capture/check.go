package capture

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

var (
	nameForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,200}$")
	headerText = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

func (h Header) valid() bool { return headerName.MatchString(h[0]) && headerText.MatchString(h[1]) }

// Check returns everything that is wrong with a capture; nil if it can be written and replayed.
func (c *Capture) Check() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !nameForm.MatchString(c.Provider) {
		add("provider: %.40q is not a provider name", c.Provider)
	}
	if c.Method != http.MethodPost && c.Method != http.MethodGet {
		add("method: %.20q; vendors call with POST, and with GET for a challenge", c.Method)
	}
	if c.Method == http.MethodGet && c.Body != nil {
		add("body: a GET has none")
	}
	if c.ReceivedAt.IsZero() {
		add("received_at is missing")
	}
	errs = append(errs, c.checkParties()...)
	errs = append(errs, c.checkTarget()...)
	errs = append(errs, c.checkHeaders()...)
	errs = append(errs, c.Sign.check()...)
	errs = append(errs, c.Expect.check()...)
	return joinFew(errs)
}

func (c *Capture) checkParties() []error {
	var errs []error
	for kind, p := range map[string]*Party{"source": c.Source, "job": c.Job} {
		if p == nil {
			continue
		}
		if !nameForm.MatchString(p.Name) {
			errs = append(errs, fmt.Errorf("%s: the name %.40q is not of letters, digits, dots, underscores and hyphens", kind, p.Name))
		}
		for name, value := range p.Pins {
			if name == "" || value == "" {
				errs = append(errs, fmt.Errorf("%s: a pin without name or value", kind))
			}
		}
	}
	switch {
	case c.Source == nil && c.Job == nil && c.Sign.Mode != Kept:
		errs = append(errs, errors.New("neither a source nor a job is named: whose secret signs it?"))
	case c.Source != nil && c.Source.Fallback:
		errs = append(errs, errors.New("source: only a job can be a fallback"))
	case c.Source != nil && c.Job != nil && len(c.Job.Pins) != 1:
		errs = append(errs, fmt.Errorf("job: one of a source pins exactly one identity, not %d", len(c.Job.Pins)))
	}
	return errs
}

func (c *Capture) checkTarget() []error {
	path, _, _ := strings.Cut(c.Target, "?")
	base := "/webhooks/" + c.Provider + "/"
	switch {
	case c.Sign.Mode == Kept && strings.HasPrefix(path, "/"):
		return nil // a diagnosis may have called any URL
	case !strings.HasPrefix(path, base) || strings.ContainsAny(c.Target, " #\r\n\t"):
		return []error{fmt.Errorf("target: %.120q does not begin with %s", c.Target, base)}
	case strings.HasSuffix(path, SourceMark) && (c.Source == nil || path != base+"sources/"+SourceMark):
		return []error{fmt.Errorf("target: with %s it is %ssources/%s and needs a source", SourceMark, base, SourceMark)}
	case strings.HasSuffix(path, JobMark) && (c.Job == nil || path != base+JobMark):
		return []error{fmt.Errorf("target: with %s it is %s%s and needs a job", JobMark, base, JobMark)}
	}
	return nil
}

func (c *Capture) checkHeaders() []error {
	var errs []error
	if len(c.Headers) > maxHeaders {
		return []error{fmt.Errorf("headers: there are more than %d", maxHeaders)}
	}
	for _, h := range c.Headers {
		switch {
		case !h.valid():
			errs = append(errs, fmt.Errorf("headers: %.60q is not a header", h[0]))
		case Carries(h[0]) && c.Sign.Mode != Kept && c.Sign.Mode != Recorded:
			errs = append(errs, fmt.Errorf("headers: %s carries a signature, a credential or a cookie, which no capture that is replayed may", h[0]))
		}
	}
	return errs
}

func (s *Sign) check() []error {
	var errs []error
	switch s.Mode {
	case Resign, Unsigned, Kept:
		if s.Secret != "" {
			errs = append(errs, fmt.Errorf("sign: a secret lies beside a %s signature alone", Recorded))
		}
	case Recorded:
		if strings.TrimSpace(s.Secret) == "" {
			errs = append(errs, fmt.Errorf("sign: a %s signature needs the secret that it was made with", Recorded))
		}
	default:
		errs = append(errs, fmt.Errorf("sign: there is no mode %.20q; it is %s, %s, %s or %s", s.Mode, Resign, Recorded, Unsigned, Kept))
	}
	if s.Alter != nil {
		errs = append(errs, s.Alter.check()...)
		if s.Mode != Resign {
			errs = append(errs, fmt.Errorf("sign: only what is signed anew can be altered"))
		}
	}
	return errs
}

func (a *Alter) check() []error {
	var errs []error
	if len(a.Replace) != 0 && (len(a.Replace) != 2 || a.Replace[0] == "") {
		errs = append(errs, errors.New("alter: replace takes two texts, the first not empty"))
	}
	if a.SetHeader != nil && !a.SetHeader.valid() {
		errs = append(errs, errors.New("alter: set_header takes a header's name and value"))
	}
	if a.DropHeader != "" && !headerName.MatchString(a.DropHeader) {
		errs = append(errs, errors.New("alter: drop_header takes a header's name"))
	}
	return errs
}

func (e *Expect) check() []error {
	errs := e.Once.check("expect.once")
	if e.Again != nil {
		errs = append(errs, e.Again.check("expect.again")...)
	}
	if e.Twenty != nil {
		errs = append(errs, e.Twenty.check("expect.twenty")...)
	}
	for _, r := range e.Stored {
		if r.Hash == "" {
			errs = append(errs, errors.New("expect.stored: a row without a hash"))
		}
	}
	return errs
}

func (r *Result) check(of string) []error {
	errs := r.Outcomes.check(of)
	if r.Status < 100 || r.Status > 599 {
		errs = append(errs, fmt.Errorf("%s: %d is not a status", of, r.Status))
	}
	if r.Rows < 0 || r.Drops < 0 {
		errs = append(errs, fmt.Errorf("%s: less than no rows", of))
	}
	return errs
}

// Cast holds the sources and jobs that some captures need, once each, in the order in which they are first named.
type Cast struct {
	Sources []CastMember
	Jobs    []CastMember
}

// CastMember is a source or a job that captures need.
type CastMember struct {
	Party
	Provider string
	Source   string // of a job: the logical name of its source; empty if it has its own secret
	Secret   string // of a recorded capture
}

// Parties returns the sources and jobs that the captures need. The error says where captures use one name for
// different ones.
func Parties(list []*Capture) (Cast, error) {
	var cast Cast
	var errs []error
	seen := make(map[string]CastMember)
	meet := func(kind string, m CastMember, into *[]CastMember, by *Capture) {
		key := m.Provider + " " + kind + " " + m.Name
		known, ok := seen[key]
		switch {
		case !ok:
			seen[key] = m
			*into = append(*into, m)
		case !known.equal(m):
			errs = append(errs, fmt.Errorf("capture %s: the %s is not what other captures say of it: another pin, source or secret", by.Name, key))
		}
	}
	for _, c := range list {
		secret := c.Sign.Secret
		if c.Source != nil {
			meet("source", CastMember{Party: *c.Source, Provider: c.Provider, Secret: secret}, &cast.Sources, c)
			secret = ""
		}
		if c.Job != nil {
			m := CastMember{Party: *c.Job, Provider: c.Provider, Secret: secret}
			if c.Source != nil {
				m.Source = c.Source.Name
			}
			meet("job", m, &cast.Jobs, c)
		}
	}
	return cast, errors.Join(errs...)
}

func (m CastMember) equal(o CastMember) bool {
	if m.Source != o.Source || m.Fallback != o.Fallback || m.Secret != o.Secret || len(m.Pins) != len(o.Pins) {
		return false
	}
	for name, value := range m.Pins {
		if o.Pins[name] != value {
			return false
		}
	}
	return true
}

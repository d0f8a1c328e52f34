package capture

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"webhook-gateway/drops"
	"webhook-gateway/internal/scrub"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// What Scrubbed may list.
const (
	scrubbedHeaders = "headers" // signatures, cookies, credentials, and all headers that are not the vendor's
	scrubbedQuery   = "query"   // values of parameters with names of credentials
	scrubbedToken   = "token"   // verification tokens in the body, and credentials
	scrubbedTexts   = "texts"   // every text of the body
)

// Origin is what is known about a message's origin besides the message.
type Origin struct {
	Vendor providers.Provider
	Source *Party
	Job    *Party
	// KeepSignature makes a capture for a diagnosis: signature and body stay unchanged, including a token in the
	// body.
	KeepSignature bool
	// KeepToken leaves verification tokens in the body.
	KeepToken bool
}

// Capture turns a message into a capture without expectations; see ExpectItems.
func (o Origin) Capture(m *Message) (*Capture, error) {
	c := &Capture{
		Format: Format, Provider: o.Vendor.Name(), Source: o.Source, Job: o.Job,
		Method: m.Method, HeadersExact: m.Exact, ReceivedAt: m.At.UTC().Truncate(time.Millisecond),
		Sign: Sign{Mode: Resign},
	}
	body := m.Body
	if o.KeepSignature {
		c.Sign.Mode = Kept
		c.Headers = KeepSigned(m.Headers, o.Vendor)
		c.Target = m.Target
	} else {
		c.Headers = Keep(m.Headers, o.Vendor)
		c.Target = o.target(m.Target)
		c.noteIf(c.cleanQuery(), scrubbedQuery)
		if !o.KeepToken {
			clean, n, err := scrub.Tokens(m.value("Content-Type"), body)
			if err != nil {
				return nil, err
			}
			if r, ok := o.Vendor.(providers.Redactor); ok {
				clean = r.Redact(clean)
			}
			c.noteIf(n > 0 || len(clean) != len(body), scrubbedToken)
			body = clean
		}
	}
	c.noteIf(len(c.Headers) < len(m.Headers), scrubbedHeaders)
	c.SetContent(body)
	return c, nil
}

func (c *Capture) noteIf(done bool, what string) {
	if done && !slices.Contains(c.Scrubbed, what) {
		c.Scrubbed = append(c.Scrubbed, what)
	}
}

// target puts a mark into a path if the party that it names is known.
func (o Origin) target(target string) string {
	path, query, asked := strings.Cut(target, "?")
	base, named := "/webhooks/"+o.Vendor.Name()+"/", strings.TrimSuffix(path, "/")
	switch {
	case o.Source != nil && (!strings.HasPrefix(path, base) || named == base+"sources/"+o.Source.Name):
		path = base + "sources/" + SourceMark
	case o.Job != nil && (!strings.HasPrefix(path, base) || named == base+o.Job.Name):
		path = base + JobMark
	}
	if asked {
		path += "?" + query
	}
	return path
}

// cleanQuery overwrites the values of parameters with names of credentials.
func (c *Capture) cleanQuery() (cleaned bool) {
	path, query, asked := strings.Cut(c.Target, "?")
	if !asked {
		return false
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		name, value, _ := strings.Cut(part, "=")
		plain, err := url.QueryUnescape(name)
		if value != "" && (err != nil || Carries(plain) || strings.EqualFold(plain, "key") || strings.EqualFold(plain, "sig")) {
			parts[i] = name + "=" + strings.Repeat("x", len(value))
			cleaned = true
		}
	}
	c.Target = path + "?" + strings.Join(parts, "&")
	return cleaned
}

// PartyOf returns a source or job as captures name it.
func PartyOf(name string, pins []jobs.Identity, fallback bool) *Party {
	p := &Party{Name: name, Fallback: fallback}
	for _, pin := range pins {
		if p.Pins == nil {
			p.Pins = make(map[string]string)
		}
		p.Pins[pin.Name] = pin.Value
	}
	return p
}

// Describe fills in what to expect of a capture whose job is registered as the capture says, from the body alone. It
// names unknown parties after the identities in the body.
func (c *Capture) Describe(p providers.Provider) {
	if h, ok := p.(providers.Handshaker); ok {
		if answer, ok := h.Handshake(c.Value("Content-Type"), c.Content); ok {
			c.Expect = ExpectHandshake(answer)
			return
		}
	}
	deliveries := c.Deliveries(p)
	items := make([]providers.Item, len(deliveries))
	for i, d := range deliveries {
		items[i].Delivery = d
		if c.Job == nil && c.Source != nil {
			items[i].Reason = drops.UnknownJob
		}
	}
	if len(items) == 0 {
		items = []providers.Item{{Reason: drops.Malformed}}
	}
	c.Expect = ExpectItems(items)
}

// Pin fills in the identities that the body names: the tenant for a job without pins, the application for a source
// without pins.
func (c *Capture) Pin(p providers.Provider) {
	deliveries := c.Deliveries(p)
	if len(deliveries) == 0 {
		return
	}
	d := deliveries[0]
	if c.Job != nil && len(c.Job.Pins) == 0 && d.Tenant.Name != "" {
		c.Job.Pins = map[string]string{d.Tenant.Name: d.Tenant.Value}
	}
	sampler, ok := p.(providers.Sampler)
	if !ok {
		return // the vendor's name for its applications is not known
	}
	for _, named := range d.Named {
		if c.Source != nil && len(c.Source.Pins) == 0 && named.Name == sampler.Samples().Application.Name {
			c.Source.Pins = map[string]string{named.Name: named.Value}
		}
	}
}

// Scrub replaces every text in the captures and in their descriptions of parties, so that what was linked stays
// linked. It returns the words of the protocol that it kept.
func Scrub(list []*Capture, vendors map[string]providers.Provider) (kept []string, err error) {
	s := scrub.New()
	words := func(c *Capture) (w scrub.Words) {
		if p, ok := vendors[c.Provider].(providers.Worded); ok {
			w = p.Words()
		}
		return w
	}
	for _, c := range list {
		if err := s.Learn(c.Value("Content-Type"), c.Content, words(c)); err != nil {
			return nil, fmt.Errorf("scrub capture %s: %w", c.Name, err)
		}
	}
	for _, c := range list {
		body, err := s.Body(c.Value("Content-Type"), c.Content, words(c))
		if err != nil {
			return nil, fmt.Errorf("scrub capture %s: %w", c.Name, err)
		}
		if c.Method == http.MethodPost {
			c.SetContent(body)
		}
		c.Source, c.Job = scrubParty(s, c.Source), scrubParty(s, c.Job)
		if path, _, asked := strings.Cut(c.Target, "?"); asked && c.Method == http.MethodPost {
			c.Target = path
			c.noteIf(true, scrubbedQuery)
		}
		c.noteIf(true, scrubbedTexts)
		c.About = ""
		if p, ok := vendors[c.Provider]; ok && c.Method == http.MethodPost {
			once := c.Expect.Once
			c.Describe(p)
			if once.Outcomes[Accepted]+once.Outcomes[Handshake] == 0 { // a drop stays the same drop
				c.Expect = Expect{Once: once}
			}
		}
	}
	return s.Kept(), nil
}

func scrubParty(s *scrub.Scrubber, p *Party) *Party {
	if p == nil {
		return nil
	}
	out := &Party{Name: s.Text(p.Name), Fallback: p.Fallback}
	for name, value := range p.Pins {
		if out.Pins == nil {
			out.Pins = make(map[string]string)
		}
		out.Pins[name] = s.Text(value)
	}
	return out
}

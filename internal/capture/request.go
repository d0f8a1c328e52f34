package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Signer returns the headers with which a vendor signs a body that it sends at that time.
type Signer func(secret string, body []byte, at time.Time) http.Header

// Place is where a capture is sent, and the secret that signs it there.
type Place struct {
	Path   string // of the source or the job; not used if the target has no mark
	Secret string
}

// ErrNotReplayed says that a capture carries the received signature. It is only for a diagnosis.
var ErrNotReplayed = errors.New("it carries the signature that came and is for gateway doctor, not to be replayed")

// ErrNoSigner says that this build cannot make the vendor's signatures.
var ErrNoSigner = errors.New("its vendor's signatures cannot be made here")

// errRecorded says that a recorded signature is no longer valid.
var errRecorded = errors.New("its recorded signature is replayed in process, at the time it was made")

// stranger is a secret that is not registered.
const stranger = "a secret that is not registered"

// Request makes a request of the capture, signed now. A non-nil alter replaces the capture's own alteration. base is a
// URL without a path. With a nil sign, a capture that needs a signature is ErrNoSigner.
func (c *Capture) Request(ctx context.Context, base string, place Place, sign Signer, alter *Alter) (*http.Request, error) {
	if c.Sign.Mode == Recorded {
		return nil, fmt.Errorf("capture %s: %w", c.Name, errRecorded)
	}
	if alter == nil {
		alter = c.Sign.Alter
	}
	if alter == nil {
		alter = &Alter{}
	}
	body, err := alter.replace(c.Content)
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", c.Name, err)
	}
	req, err := c.request(ctx, base, place.Path, body)
	if err != nil {
		return nil, err
	}
	if alter.SetHeader != nil {
		req.Header.Set(alter.SetHeader[0], alter.SetHeader[1])
	}
	if c.Sign.Mode == Resign {
		if sign == nil {
			return nil, fmt.Errorf("capture %s: %w", c.Name, ErrNoSigner)
		}
		secret := place.Secret
		if alter.Foreign {
			secret = stranger
		}
		for name, values := range sign(secret, body, time.Now().Add(-alter.Age)) {
			req.Header[name] = values
		}
	}
	if err := alter.spoil(req, body); err != nil {
		return nil, fmt.Errorf("capture %s: %w", c.Name, err)
	}
	return req, nil
}

// RecordedRequest makes a request of a capture with a recorded signature. It is valid at the capture's ReceivedAt.
func (c *Capture) RecordedRequest(ctx context.Context, base, path string) (*http.Request, error) {
	if c.Sign.Mode != Recorded {
		return nil, fmt.Errorf("capture %s: its signature is not recorded", c.Name)
	}
	return c.request(ctx, base, path, c.Content)
}

func (c *Capture) request(ctx context.Context, base, path string, body []byte) (*http.Request, error) {
	if c.Sign.Mode == Kept {
		return nil, fmt.Errorf("capture %s: %w", c.Name, ErrNotReplayed)
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, base+c.PathAndQuery(path), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", c.Name, err)
	}
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	req.Header = c.HTTPHeader()
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "gateway-replay")
	}
	return req, nil
}

// PathAndQuery returns the target with the party's path in place of its mark.
func (c *Capture) PathAndQuery(path string) string {
	own, query, asked := strings.Cut(c.Target, "?")
	if strings.HasSuffix(own, SourceMark) || strings.HasSuffix(own, JobMark) {
		own = path
	}
	if asked {
		own += "?" + query
	}
	return own
}

func (a *Alter) replace(content []byte) ([]byte, error) {
	if len(a.Replace) != 2 {
		return content, nil
	}
	if !bytes.Contains(content, []byte(a.Replace[0])) {
		return nil, fmt.Errorf("alter: the body does not hold %.60q", a.Replace[0])
	}
	return bytes.Replace(content, []byte(a.Replace[0]), []byte(a.Replace[1]), 1), nil
}

// spoil changes a request after it was signed.
func (a *Alter) spoil(req *http.Request, body []byte) error {
	if a.DropHeader != "" {
		if req.Header.Get(a.DropHeader) == "" {
			return fmt.Errorf("alter: there is no header %s to drop", a.DropHeader)
		}
		req.Header.Del(a.DropHeader)
	}
	if a.FlipByte == nil {
		return nil
	}
	at := *a.FlipByte
	if at < 0 {
		at += len(body)
	}
	if at < 0 || at >= len(body) {
		return fmt.Errorf("alter: the body has no byte %d", *a.FlipByte)
	}
	flipped := bytes.Clone(body)
	flipped[at] ^= 1
	flippedReq, err := http.NewRequestWithContext(req.Context(), req.Method, req.URL.String(), bytes.NewReader(flipped))
	if err != nil {
		return err
	}
	flippedReq.Header = req.Header
	*req = *flippedReq
	return nil
}

// Party returns whose path the target needs and whose secret signs it: the job's if the job has its own secret, else
// the source's. kind is "source" or "job".
func (c *Capture) Party() (kind string, p *Party) {
	path, _, _ := strings.Cut(c.Target, "?")
	switch {
	case strings.HasSuffix(path, JobMark), c.Source == nil:
		return "job", c.Job
	default:
		return "source", c.Source
	}
}

// Places holds where captures are sent, by PlaceKey.
type Places map[string]Place

// PlaceKey returns the key of a place: provider, source or job, logical name.
func PlaceKey(provider, kind, name string) string { return provider + " " + kind + " " + name }

// Of returns the place of a capture's Party. The error names the one that is missing.
func (p Places) Of(c *Capture) (Place, error) {
	kind, party := c.Party()
	if party == nil {
		return Place{}, fmt.Errorf("capture %s: no source and no job is named", c.Name)
	}
	place, ok := p[PlaceKey(c.Provider, kind, party.Name)]
	if !ok {
		return Place{}, fmt.Errorf("capture %s needs the %s %s %q, which is missing", c.Name, c.Provider, kind, party.Name)
	}
	return place, nil
}

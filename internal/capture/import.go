package capture

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/internal/safetext"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// The most that is read of a file to import. A gateway accepts no body over 64 MiB; an archive is read entry by
// entry.
const (
	maxRaw     = 66 << 20
	maxArchive = 256 << 20
)

var (
	// ErrTooLarge says that a file is too large to import.
	ErrTooLarge = errors.New("is larger than")
	// ErrNoParty says that a message names neither a source nor a job.
	ErrNoParty = errors.New("names no source and no job of a gateway: name the one that it was for with --source or --job")
)

// ReadMessages reads one raw HTTP/1.1 message, or the POST requests of a HAR file. The format is raw, har, or empty
// to detect it from the content.
func ReadMessages(in io.Reader, format string) ([]*Message, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	if bom, err := buffered.Peek(3); err == nil && string(bom) == "\ufeff" {
		_, _ = buffered.Discard(len(bom)) // it is in the buffer
	}
	start, err := buffered.Peek(1024)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if format == "har" || format == "" && bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte("{")) {
		bounded := &io.LimitedReader{R: buffered, N: maxArchive}
		list, err := ReadHAR(bounded)
		if bounded.N == 0 {
			return nil, fmt.Errorf("%w %d MiB", ErrTooLarge, maxArchive>>20)
		}
		return list, err
	}
	raw, err := io.ReadAll(io.LimitReader(buffered, maxRaw+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the file: %w", err)
	case len(raw) > maxRaw:
		return nil, fmt.Errorf("%w %d MiB, and is not a HAR file", ErrTooLarge, maxRaw>>20)
	}
	m, err := ReadMessage(raw)
	if err != nil {
		return nil, err
	}
	return []*Message{m}, nil
}

// Import turns messages from elsewhere into captures. Without Source and Job, the message's URL names one.
type Import struct {
	Origin
	ReceivedAt time.Time // zero: the time in the message, or else now
}

// Capture turns a message into a capture. Unless it keeps the signature, the capture can be replayed, or else the
// error says why not; the error is ErrNoParty if neither the import nor the URL names a source or a job.
func (i Import) Capture(m *Message) (*Capture, error) {
	origin, p := i.Origin, i.Vendor
	if origin.Source == nil && origin.Job == nil {
		origin.Source, origin.Job = partiesOf(p.Name(), m.Target)
	}
	if origin.Source == nil && origin.Job == nil && !i.KeepSignature {
		return nil, fmt.Errorf("%s %w", safetext.Line(m.Target), ErrNoParty)
	}
	if !i.ReceivedAt.IsZero() {
		m.At = i.ReceivedAt
	}
	if m.At.IsZero() {
		m.At = SignedAt(m, p)
	}
	c, err := origin.Capture(m)
	if err != nil {
		return nil, err
	}
	if i.KeepSignature {
		c.Expect = Expect{Once: Result{Status: 200, Outcomes: Outcomes{Accepted: 1}, Rows: 1}}
		return c, nil
	}
	if c.Job == nil && len(c.Deliveries(p)) > 0 {
		if tenant := c.Deliveries(p)[0].Tenant; tenant.Name != "" {
			c.Job = &Party{Name: Slug(tenant.Value)}
		}
	}
	c.Pin(p)
	c.Describe(p)
	if c.Source != nil && c.Job != nil && len(c.Job.Pins) != 1 {
		c.Job = nil // the body names no tenant: the source decides
		c.Describe(p)
	}
	return c, c.Check()
}

// partiesOf returns the source or the job that a gateway's URL names.
func partiesOf(provider, target string) (source, job *Party) {
	path, _, _ := strings.Cut(target, "?")
	rest, ours := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/webhooks/"+provider+"/")
	name, isSource := strings.CutPrefix(rest, "sources/")
	switch {
	case ours && isSource && jobs.ValidName(name):
		return &Party{Name: name}, nil
	case ours && !isSource:
		if _, err := uuid.Parse(rest); err == nil {
			return nil, &Party{Name: rest}
		}
	}
	return nil, nil
}

// SignedAt returns the signed time of a message, or else the present time.
func SignedAt(m *Message, p providers.Provider) time.Time {
	signing := providers.SigningHeaders(p)
	for _, h := range m.Headers {
		for _, name := range signing {
			if seconds, err := strconv.ParseInt(h[1], 10, 64); err == nil && strings.EqualFold(h[0], name) && seconds > 1e9 && seconds < 1e10 {
				return time.Unix(seconds, 0)
			}
		}
	}
	return time.Now()
}

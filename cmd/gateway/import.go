package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/files"
	"webhook-gateway/internal/safetext"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// importFlags are those of gateway import.
type importFlags struct {
	provider, out, source, job, format string
	receivedAt                         string
	scrub, keepToken, keepSignature    bool
	asJSON                             bool
}

func importCommand() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE --provider P --out DIR",
		Short: "Make captures of a raw HTTP message or of a HAR file",
		Long: `Makes a capture of each request in a file (- is stdin): one raw HTTP/1.1 message, or the POST requests of a HAR
file. A raw message is kept byte for byte; HAR holds text alone, and a body that it cannot have kept is refused.

Headers that are not the vendor's, signatures, cookies and credentials are left out, and verification tokens are
taken out of the body. With --keep-signature signature and body stay as they came: such a capture is for gateway
doctor, is its owner's alone, and is never replayed.

Where the URL is not one of a gateway, --source or --job names whom it was for; tenant and application are read from
the body.`,
		Example: `  gateway import request.http --provider nylas --source main --out captures
  gateway import browser.har --provider slack --source main --out captures --scrub
  gateway import refused.http --provider slack --keep-signature --out private`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	addProviderFlag(cmd, &f.provider)
	cmd.Flags().StringVar(&f.out, "out", "", "write the captures into this folder, which is made if it is missing")
	cmd.Flags().StringVar(&f.source, "source", "", "the source that it was for, where the URL does not tell")
	cmd.Flags().StringVar(&f.job, "job", "", "the job that it was for, where the URL does not tell: its id")
	cmd.Flags().StringVar(&f.format, "format", "", "what the file is: raw or har (default: told from its content)")
	cmd.Flags().StringVar(&f.receivedAt, "received-at", "", "when it was received (RFC 3339), where the file does not tell")
	cmd.Flags().BoolVar(&f.scrub, "scrub", false, "replace every text by a stand-in, so that the captures can be committed")
	cmd.Flags().BoolVar(&f.keepToken, "keep-token", false, "leave verification tokens in the body")
	cmd.Flags().BoolVar(&f.keepSignature, "keep-signature", false, "leave signature and body as they came, for gateway doctor")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f *importFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.validate(args); err != nil {
		return err
	}
	messages, err := readMessages(cmd, args[0], f.format)
	if err != nil {
		return err
	}
	var list []*capture.Capture
	for i, m := range messages {
		c, err := f.capture(m)
		if err != nil {
			return err
		}
		c.Name = fmt.Sprintf("%s-%s-%03d", c.Provider, capture.Slug(kindOf(c)), i+1)
		list = append(list, c)
	}
	w := captureWriter{out: f.out, scrub: f.scrub}
	if err := w.write(cmd, list); err != nil {
		return err
	}
	return w.print(cmd, list, f.asJSON)
}

func (f *importFlags) validate(args []string) error {
	if err := checkProvider(f.provider, false); err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		return usagef("which file? give a raw HTTP message or a HAR file, or - for stdin")
	case f.out == "":
		return usagef("--out is missing: the folder to write the captures into")
	case f.source != "" && f.job != "":
		return usagef("--source and --job name two different URLs; give one of them")
	case f.format != "" && f.format != "raw" && f.format != "har":
		return usagef("--format %q: it is raw or har", f.format)
	case f.keepSignature && f.scrub:
		return usagef("a scrubbed body is not the one that was signed: give --scrub or --keep-signature")
	case f.source != "" && !jobs.ValidName(f.source):
		return usagef("--source %q is no source's name", f.source)
	}
	if f.receivedAt != "" {
		if _, err := time.Parse(time.RFC3339, f.receivedAt); err != nil {
			return usagef("--received-at %q is no instant like 2026-03-01T12:00:00Z", f.receivedAt)
		}
	}
	if f.job != "" {
		_, err := parseID("--job", f.job)
		return err
	}
	return nil
}

// What is read of a file to be imported. A gateway takes no body of more than 64 MiB; an archive is read entry by entry.
const (
	maxRaw     = 66 << 20
	maxArchive = 256 << 20
)

// readMessages reads the requests in a file.
func readMessages(cmd *cobra.Command, path, format string) ([]*capture.Message, error) {
	var in io.Reader = cmd.InOrStdin()
	if path != "-" {
		file, err := files.Open(path)
		if err != nil {
			return nil, usagef("%w", err)
		}
		defer file.Close()
		in = file
	}
	buffered := bufio.NewReaderSize(interruptible(cmd.Context(), in), 64<<10)
	if bom, err := buffered.Peek(3); err == nil && string(bom) == "\ufeff" {
		_, _ = buffered.Discard(len(bom)) // it is in the buffer
	}
	start, err := buffered.Peek(1024)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	}
	if format == "har" || format == "" && bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte("{")) {
		return readArchive(buffered, path)
	}
	raw, err := io.ReadAll(io.LimitReader(buffered, maxRaw+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", filepath.Base(path), err)
	case len(raw) > maxRaw:
		return nil, usagef("%s is larger than %d MiB, and is not a HAR file", path, maxRaw>>20)
	}
	m, err := capture.ReadMessage(raw)
	if err != nil {
		return nil, err
	}
	return []*capture.Message{m}, nil
}

func readArchive(in io.Reader, path string) ([]*capture.Message, error) {
	bounded := &io.LimitedReader{R: in, N: maxArchive}
	list, err := capture.ReadHAR(bounded)
	if bounded.N == 0 {
		return nil, usagef("%s is larger than %d MiB", path, maxArchive>>20)
	}
	return list, err
}

// capture makes a capture of one message.
func (f *importFlags) capture(m *capture.Message) (*capture.Capture, error) {
	p := vendorsByName()[f.provider]
	v, err := samplesOf(f.provider)
	if err != nil {
		return nil, err
	}
	origin := capture.Origin{Vendor: p, Signing: v.signingHeaders(), KeepSignature: f.keepSignature, KeepToken: f.keepToken}
	origin.Source, origin.Job = f.parties(m)
	if origin.Source == nil && origin.Job == nil && !f.keepSignature {
		return nil, usagef("%s names no source and no job of a gateway: say whom it was for with --source or --job", safetext.Line(m.Target))
	}
	if f.receivedAt != "" {
		m.At, _ = time.Parse(time.RFC3339, f.receivedAt) // it was checked
	}
	if m.At.IsZero() {
		m.At = signedAt(m, origin.Signing)
	}
	c, err := origin.Capture(m)
	if err != nil {
		return nil, err
	}
	if f.keepSignature {
		c.Expect = capture.Expect{Once: capture.Result{Status: 200, Outcomes: capture.Outcomes{capture.Accepted: 1}, Rows: 1}}
		return c, nil
	}
	if c.Job == nil && len(c.Deliveries(p)) > 0 {
		if tenant := c.Deliveries(p)[0].Tenant; tenant.Name != "" {
			c.Job = &capture.Party{Name: capture.Slug(tenant.Value)}
		}
	}
	c.Pin(p)
	c.Describe(p)
	return c, describable(c, p)
}

// describable says why a capture cannot be replayed as it is.
func describable(c *capture.Capture, p providers.Provider) error {
	if c.Source != nil && c.Job != nil && len(c.Job.Pins) != 1 {
		c.Job = nil // the body names no tenant: whatever the source makes of it
		c.Describe(p)
	}
	return c.Check()
}

// parties are whom a message was for: as its URL says, or else the flags.
func (f *importFlags) parties(m *capture.Message) (source, job *capture.Party) {
	path, _, _ := strings.Cut(m.Target, "?")
	rest, ours := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/webhooks/"+f.provider+"/")
	name, isSource := strings.CutPrefix(rest, "sources/")
	switch {
	case f.source != "":
		return &capture.Party{Name: f.source}, nil
	case f.job != "":
		return nil, &capture.Party{Name: f.job}
	case ours && isSource && jobs.ValidName(name):
		return &capture.Party{Name: name}, nil
	case ours && !isSource:
		if _, err := uuid.Parse(rest); err == nil {
			return nil, &capture.Party{Name: rest}
		}
	}
	return nil, nil
}

// signedAt is when a message says it was signed, or else now.
func signedAt(m *capture.Message, signing []string) time.Time {
	for _, h := range m.Headers {
		for _, name := range signing {
			if seconds, err := strconv.ParseInt(h[1], 10, 64); err == nil && strings.EqualFold(h[0], name) && seconds > 1e9 && seconds < 1e10 {
				return time.Unix(seconds, 0)
			}
		}
	}
	return time.Now()
}

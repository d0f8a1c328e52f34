package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/files"
	"webhook-gateway/jobs"
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
file. A raw message is kept byte for byte; HAR holds only text, and a body that it cannot hold is refused.

Headers that are not the vendor's, signatures, cookies and credentials are left out, and verification tokens are
removed from the body. With --keep-signature, signature and body stay as they came: such a capture is for gateway
doctor, readable only by its owner, and never replayed.

If the URL is not one of a gateway, name the source or job with --source or --job; tenant and application are read from
the body.`,
		Example: `  gateway import request.http --provider nylas --source main --out captures
  gateway import browser.har --provider slack --source main --out captures --scrub
  gateway import refused.http --provider slack --keep-signature --out private`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	addProviderFlag(cmd, &f.provider)
	cmd.Flags().StringVar(&f.out, "out", "", "write the captures into this folder, which is created if it is missing")
	cmd.Flags().StringVar(&f.source, "source", "", "its source, if the URL does not name it")
	cmd.Flags().StringVar(&f.job, "job", "", "the id of its job, if the URL does not name it")
	cmd.Flags().StringVar(&f.format, "format", "", "the format of the file: raw or har (default: by its content)")
	cmd.Flags().StringVar(&f.receivedAt, "received-at", "", "when it was received (RFC 3339), if the file does not say")
	cmd.Flags().BoolVar(&f.scrub, "scrub", false, "replace every text by a substitute, so that the captures can be committed")
	cmd.Flags().BoolVar(&f.keepToken, "keep-token", false, "leave verification tokens in the body")
	cmd.Flags().BoolVar(&f.keepSignature, "keep-signature", false, "keep signature and body as they came, for gateway doctor")
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
	im := capture.Import{
		Origin: capture.Origin{Vendor: vendorsByName()[f.provider], KeepSignature: f.keepSignature, KeepToken: f.keepToken},
	}
	if f.source != "" {
		im.Source = &capture.Party{Name: f.source}
	}
	if f.job != "" {
		im.Job = &capture.Party{Name: f.job}
	}
	if f.receivedAt != "" {
		im.ReceivedAt, _ = time.Parse(time.RFC3339, f.receivedAt) // validate has checked it
	}
	var list []*capture.Capture
	for i, m := range messages {
		c, err := im.Capture(m)
		if err != nil {
			return err
		}
		c.Name = fmt.Sprintf("%s-%s-%03d", c.Provider, capture.Slug(c.Type(vendorsByName())), i+1)
		list = append(list, c)
	}
	if err := writeCaptures(cmd, list, f.out, f.scrub); err != nil {
		return err
	}
	return printCaptures(cmd, list, f.asJSON)
}

// readMessages reads the requests in a file; - is stdin.
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
	list, err := capture.ReadMessages(files.Interruptible(cmd.Context(), in), format)
	if errors.Is(err, capture.ErrTooLarge) {
		err = usagef("%s %w", path, err)
	}
	return list, err
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
		return usagef("--format %q: write raw or har", f.format)
	case f.keepSignature && f.scrub:
		return usagef("a scrubbed body does not match its signature: give --scrub or --keep-signature")
	case f.source != "" && !jobs.ValidName(f.source):
		return usagef("--source %q is not a valid source name", f.source)
	}
	if f.receivedAt != "" {
		if _, err := time.Parse(time.RFC3339, f.receivedAt); err != nil {
			return usagef("--received-at %q is not an instant like 2026-03-01T12:00:00Z", f.receivedAt)
		}
	}
	if f.job != "" {
		_, err := parseID("--job", f.job)
		return err
	}
	return nil
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/doctor"
	"webhook-gateway/internal/files"
)

// doctorFlags are those of gateway doctor.
type doctorFlags struct {
	provider, source, job, secrets, dir, near, receivedAt string
	secretStdin, asJSON                                   bool
}

func doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor FILE --provider P",
		Short: "Explain step by step whether the gateway would accept a captured request, and if not, why",
		Long: `FILE is a capture with its original signature (from GATEWAY_REJECTED_DIR, or from gateway import
--keep-signature), a folder of those, a raw HTTP message, or a HAR file. The doctor makes every check that a gateway
makes. If a signature does not match, it tries the usual causes until it does: a body that was parsed and written
again, line ends, decompression before verification, hexadecimal or base64, a prefix, other secrets.

The secrets are those of the source or job that the request called (or --source, --job), from the database that
DATABASE_URL and GATEWAY_SECRETS_KEY name, else from gateway dev in --dir, or from --secrets FILE. With
--secret-stdin they are read from stdin, one per line, the current one first, including blanks. With a database, the
doctor also tries the secrets of the vendor's other sources and jobs. It never prints a secret or a valid signature.

The exit status is 0 if every request would be accepted, 5 if one would not.`,
		Example: `  gateway doctor refused/slack/20260301T120000.000Z-0a1b2c3d --provider slack
  printf '%s\n' "$SECRET" | gateway doctor request.http --provider nylas --secret-stdin`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	addProviderFlag(cmd, &f.provider)
	cmd.Flags().BoolVar(&f.secretStdin, "secret-stdin", false, "read the secrets from stdin, one per line, the current one first")
	cmd.Flags().StringVar(&f.source, "source", "", "the source whose secrets should match (default: the one that was called)")
	cmd.Flags().StringVar(&f.job, "job", "", "the job whose secrets, or its source's, should match: an id, or a name in --secrets")
	cmd.Flags().StringVar(&f.secrets, "secrets", "", "take the secrets from this YAML file (mode 0600) instead of the database")
	cmd.Flags().StringVar(&f.dir, "dir", devDirDefault, "the directory of the gateway dev to read the secrets from, if DATABASE_URL is not set")
	cmd.Flags().StringVar(&f.near, "near", "", "a folder of other captures: the signature may be one of theirs")
	cmd.Flags().StringVar(&f.receivedAt, "received-at", "", "when it was received (RFC 3339), if the file does not say")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

// patient is one request to be examined.
type patient struct {
	capture     *capture.Capture
	timeUnknown bool
}

func (f *doctorFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.validate(args); err != nil {
		return err
	}
	patients, err := f.patients(cmd, args[0])
	if err != nil {
		return err
	}
	var near []*capture.Capture
	if f.near != "" {
		if near, err = capture.LoadAll(f.near); err != nil {
			return usagef("--near: %w", err)
		}
	}
	chest, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer chest.close()
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	var list []diagnosisJSON
	for _, p := range patients {
		secrets, others, err := chest.secretsOf(cmd, p.capture)
		if err != nil {
			return err
		}
		d := doctor.Examine(doctor.Case{
			Capture: p.capture, Vendor: vendorsByName()[f.provider],
			Secrets: secrets, Others: others, Near: append(near, capturesOf(patients)...), TimeUnknown: p.timeUnknown, MaxBody: cfg.MaxBodyBytes,
		})
		list = append(list, diagnosisJSON{Name: p.capture.Name, Diagnosis: d})
	}
	return f.report(cmd, list)
}

func (f *doctorFlags) validate(args []string) error {
	if err := checkProvider(f.provider, false); err != nil {
		return err
	}
	switch {
	case len(args) == 0:
		return usagef("which request? give a capture, a raw HTTP message or a HAR file")
	case f.source != "" && f.job != "":
		return usagef("--source and --job name two different secrets; give one of them")
	case f.secretStdin && (f.secrets != "" || args[0] == "-"):
		return usagef("--secret-stdin reads the secrets from stdin: give no --secrets, and the request as a file")
	}
	if f.receivedAt != "" {
		if _, err := time.Parse(time.RFC3339, f.receivedAt); err != nil {
			return usagef("--received-at %q is not an instant like 2026-03-01T12:00:00Z", f.receivedAt)
		}
	}
	return nil
}

// patients reads the requests in a file or folder.
func (f *doctorFlags) patients(cmd *cobra.Command, path string) ([]patient, error) {
	path = strings.TrimSuffix(path, "/"+capture.File)
	info, err := os.Stat(path)
	if path != "-" && err != nil {
		return nil, usagef("%w", err)
	}
	if path != "-" && info.IsDir() {
		return f.captured(path)
	}
	messages, err := readMessages(cmd, path, "")
	if err != nil {
		return nil, err
	}
	vendor := vendorsByName()[f.provider]
	var list []patient
	for i, m := range messages {
		unknown := m.At.IsZero() && f.receivedAt == ""
		if f.receivedAt != "" {
			m.At, _ = time.Parse(time.RFC3339, f.receivedAt) // it was checked
		} else if unknown {
			m.At = capture.SignedAt(m, vendor)
		}
		c, err := capture.Origin{Vendor: vendor, KeepSignature: true}.Capture(m)
		if err != nil {
			return nil, err
		}
		c.Name = fmt.Sprintf("%s %d", path, i+1)
		list = append(list, patient{c, unknown})
	}
	return list, nil
}

// captured reads captures that carry the signature that came.
func (f *doctorFlags) captured(path string) ([]patient, error) {
	captures, err := capture.LoadAll(path)
	if err != nil {
		return nil, usagef("%w", err)
	}
	var list []patient
	for _, c := range captures {
		switch {
		case c.Provider != f.provider:
			return nil, usagef("capture %s is of %s, but --provider says %s", c.Name, c.Provider, f.provider)
		case c.Sign.Mode != capture.Kept && c.Sign.Mode != capture.Recorded:
			return nil, usagef("capture %s has no original signature to examine: set GATEWAY_REJECTED_DIR, or use gateway import --keep-signature", c.Name)
		}
		p := patient{capture: c}
		if f.receivedAt != "" {
			c.ReceivedAt, _ = time.Parse(time.RFC3339, f.receivedAt) // it was checked
		} else {
			// An import knows no better than what the message says of when it was signed.
			p.timeUnknown = c.Sign.Mode == capture.Kept && c.ReceivedAt.Equal(capture.SignedAt(&capture.Message{Headers: c.Headers}, vendorsByName()[f.provider]))
		}
		list = append(list, p)
	}
	return list, nil
}

func capturesOf(patients []patient) []*capture.Capture {
	list := make([]*capture.Capture, len(patients))
	for i, p := range patients {
		list[i] = p.capture
	}
	return list
}

// readSecretLines reads secrets from stdin, one a line, with the blanks that are part of them.
func readSecretLines(cmd *cobra.Command) ([]doctor.Secret, error) {
	if isTerminal(cmd.InOrStdin()) {
		fmt.Fprintln(cmd.ErrOrStderr(), "paste the secrets, one per line, the current one first, then press Ctrl-D")
	}
	text, err := io.ReadAll(files.Interruptible(cmd.Context(), io.LimitReader(cmd.InOrStdin(), maxSecretInput)))
	if err != nil {
		return nil, fmt.Errorf("read the secrets from stdin: %w", err)
	}
	var list []doctor.Secret
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(bytes.TrimSpace(line)) > 0 {
			list = append(list, doctor.Secret{Name: secretName(len(list)), Text: string(line)})
		}
	}
	if len(list) == 0 {
		return nil, usagef("no secret on stdin")
	}
	return list, nil
}

// secretName is what the n-th live secret is called.
func secretName(n int) string {
	switch n {
	case 0:
		return "current"
	case 1:
		return "previous"
	default:
		return fmt.Sprintf("previous (%d)", n)
	}
}

// diagnosisJSON is one request's diagnosis as --json prints it.
type diagnosisJSON struct {
	Name string `json:"name"`
	doctor.Diagnosis
}

// report prints what was found; an error unless all would be accepted.
func (f *doctorFlags) report(cmd *cobra.Command, list []diagnosisJSON) error {
	refused := 0
	for _, d := range list {
		if !d.Accepted {
			refused++
		}
	}
	if f.asJSON {
		if err := printJSON(cmd, map[string]any{"accepted": refused == 0, "requests": list}); err != nil {
			return err
		}
	} else {
		for i, d := range list {
			if i > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			if err := printDiagnosis(cmd.OutOrStdout(), d); err != nil {
				return err
			}
		}
	}
	if refused > 0 {
		return mismatchError{errors.New(plural(refused, "request") + " would not be accepted")}
	}
	return nil
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

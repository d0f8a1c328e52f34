package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/doctor"
	"webhook-gateway/internal/files"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/registry"
	"webhook-gateway/internal/safetext"
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

func (f *doctorFlags) run(cmd *cobra.Command, args []string) error {
	received, err := f.validate(args)
	if err != nil {
		return err
	}
	cases, err := f.cases(cmd, args[0], received)
	if err != nil {
		return err
	}
	var near []*capture.Capture
	if f.near != "" {
		if near, err = capture.LoadAll(f.near); err != nil {
			return usagef("--near: %w", err)
		}
	}
	for _, c := range cases {
		near = append(near, c.Capture)
	}
	secrets, err := f.readSecrets(cmd)
	if err != nil {
		return err
	}
	cfg, err := settings(cmd)
	if err != nil {
		return err
	}
	var list []diagnosisJSON
	for _, c := range cases {
		if c.Secrets, c.Others, err = secrets.Of(c.Capture); err != nil {
			return f.explain(err)
		}
		c.Near, c.MaxBody = near, cfg.MaxBodyBytes
		list = append(list, diagnosisJSON{Name: c.Capture.Name, Diagnosis: doctor.Examine(c)})
	}
	return f.report(cmd, list)
}

// explain adds which flags help.
func (f *doctorFlags) explain(err error) error {
	if errors.Is(err, doctor.ErrUnnamed) || errors.Is(err, doctor.ErrNotInFile) {
		return fmt.Errorf("%w: name the source or job with --source or --job", err)
	}
	return err
}

// validate checks the flags, and returns the time of receipt; zero if the requests have their own.
func (f *doctorFlags) validate(args []string) (received time.Time, err error) {
	if err := checkProvider(f.provider, false); err != nil {
		return received, err
	}
	switch {
	case len(args) == 0:
		return received, usagef("which request? give a capture, a raw HTTP message or a HAR file")
	case f.source != "" && f.job != "":
		return received, usagef("--source and --job name two different secrets; give one of them")
	case f.secretStdin && (f.secrets != "" || args[0] == "-"):
		return received, usagef("--secret-stdin reads the secrets from stdin: give no --secrets, and the request as a file")
	}
	if f.receivedAt != "" {
		if received, err = time.Parse(time.RFC3339, f.receivedAt); err != nil {
			return received, usagef("--received-at %q is not an instant like 2026-03-01T12:00:00Z", f.receivedAt)
		}
	}
	return received, nil
}

// cases reads the requests in a file or folder.
func (f *doctorFlags) cases(cmd *cobra.Command, path string, received time.Time) ([]doctor.Case, error) {
	path = strings.TrimSuffix(path, "/"+capture.File)
	info, err := os.Stat(path)
	if path != "-" && err != nil {
		return nil, usagef("%w", err)
	}
	vendor := vendorsByName()[f.provider]
	if path != "-" && info.IsDir() {
		captures, err := capture.LoadAll(path)
		if err != nil {
			return nil, usagef("%w", err)
		}
		cases, err := doctor.FromCaptures(captures, vendor, received)
		if err != nil {
			return nil, usagef("%w", err)
		}
		return cases, nil
	}
	messages, err := readMessages(cmd, path, "")
	if err != nil {
		return nil, err
	}
	return doctor.FromMessages(path, messages, vendor, received)
}

// readSecrets finds where the secrets come from.
func (f *doctorFlags) readSecrets(cmd *cobra.Command) (doctor.Secrets, error) {
	s := doctor.Secrets{Source: f.source, Job: f.job}
	var err error
	switch {
	case f.secretStdin:
		s.Given, err = readSecretLines(cmd)
	case f.secrets != "":
		s.File, err = registry.ReadFile(f.secrets)
		err = asSetting(err)
	default:
		var pool *pgxpool.Pool
		if pool, s.Registry, err = openRegistry(cmd, f.dir); err == nil {
			pg.Close(pool)
		}
	}
	return s, err
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
	list := doctor.Lines(text)
	if len(list) == 0 {
		return nil, usagef("no secret on stdin")
	}
	return list, nil
}

// diagnosisJSON is one request's diagnosis as --json prints it.
type diagnosisJSON struct {
	Name string `json:"name"`
	doctor.Diagnosis
}

// report prints the diagnoses. It returns an error unless all requests would be accepted.
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

// printDiagnosis prints a diagnosis for people. It escapes received text, which must not control a terminal.
func printDiagnosis(out io.Writer, d diagnosisJSON) error {
	fmt.Fprintln(out, safetext.Line(d.Name))
	w := newTable(out)
	for _, s := range d.Steps {
		mark := "ok"
		if !s.OK {
			mark = "NO"
		}
		w.row("  "+mark, s.Name, s.Says)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if d.Accepted {
		_, err := fmt.Fprintf(out, "it would be accepted: %d\n", d.Status)
		return err
	}
	fmt.Fprintf(out, "it would be refused: %d\n", d.Status)
	for _, c := range d.Causes {
		how := "confirmed by undoing it"
		if !c.Proved {
			how = "likely, not confirmed"
		}
		fmt.Fprintf(out, "  %s (%s): %s\n", c.Code, how, safetext.Line(c.Says))
	}
	return nil
}

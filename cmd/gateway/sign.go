package main

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/files"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/registry"
	"webhook-gateway/providers"
)

// maxSignBody bounds a body to be signed; no gateway takes a larger one.
const maxSignBody = 64 << 20

// signFlags are those of gateway sign.
type signFlags struct {
	provider, source, job, secrets, dir string
	age                                 time.Duration
	asJSON                              bool
}

func signCommand() *cobra.Command {
	var f signFlags
	cmd := &cobra.Command{
		Use:   "sign --provider P (--source NAME | --job NAME) < body",
		Short: "Print the headers with which a vendor would send the body on stdin, for tests in any language",
		Long: `Reads a body from stdin, byte for byte, and prints the headers with which the vendor would sign it now, one
per line, as curl -H @- reads them. Name the source or job as captures do; its secret comes from the database
that DATABASE_URL and GATEWAY_SECRETS_KEY name, else from gateway dev in --dir, or from --secrets FILE (mode 0600).`,
		Example: `  gateway sign --provider slack --source main < body.json |
    curl -H @- -H 'Content-Type: application/json' --data-binary @body.json http://127.0.0.1:8080/webhooks/slack/sources/main
  gateway sign --provider nylas --job "$JOB" --json < body.json`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addProviderFlag(cmd, &f.provider)
	cmd.Flags().StringVar(&f.source, "source", "", "sign with the secret of this source")
	cmd.Flags().StringVar(&f.job, "job", "", "sign with the secret of this job or its source: an id, or a name in --secrets")
	cmd.Flags().StringVar(&f.secrets, "secrets", "", "take the secret from this YAML file (mode 0600) instead of the database")
	cmd.Flags().StringVar(&f.dir, "dir", devDirDefault, "the directory of the gateway dev to read the secret from, if DATABASE_URL is not set")
	cmd.Flags().DurationVar(&f.age, "age", 0, "sign with a time this long ago (like 10m), to test that an old signature is refused")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f *signFlags) run(cmd *cobra.Command) error {
	if err := checkProvider(f.provider, false); err != nil {
		return err
	}
	signer, ok := vendorsByName()[f.provider].(providers.Signer)
	if !ok {
		return usagef("the signatures of %s cannot be made here", f.provider)
	}
	if (f.source == "") == (f.job == "") {
		return usagef("which secret? give either --source NAME or --job NAME")
	}
	secret, err := f.secret(cmd)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(files.Interruptible(cmd.Context(), io.LimitReader(cmd.InOrStdin(), maxSignBody+1)))
	switch {
	case err != nil:
		return fmt.Errorf("read the body from stdin: %w", err)
	case len(body) > maxSignBody:
		return fmt.Errorf("the body on stdin is larger than %d bytes", maxSignBody)
	}
	return printHeaders(cmd, signer.Sign(secret, body, time.Now().Add(-f.age)), f.asJSON)
}

// secret finds the secret of the source or job that is named.
func (f *signFlags) secret(cmd *cobra.Command) (string, error) {
	c := &capture.Capture{Name: "on stdin", Provider: f.provider, Target: "/webhooks/" + f.provider + "/sources/" + capture.SourceMark}
	if f.source != "" {
		c.Source = &capture.Party{Name: f.source}
	} else {
		c.Job, c.Target = &capture.Party{Name: f.job}, "/webhooks/"+f.provider+"/"+capture.JobMark
	}
	if f.secrets != "" {
		places, err := findInFile(f.secrets, []*capture.Capture{c})
		if err != nil {
			return "", err
		}
		place, err := places.Of(c)
		return place.Secret, err
	}
	pool, reg, err := openRegistry(cmd, f.dir)
	if err != nil {
		return "", err
	}
	defer pg.Close(pool)
	ring, err := reg.Keyring(f.provider, f.source, f.job)
	if err != nil {
		return "", err
	}
	return registry.Newest(ring, f.source+f.job)
}

func printHeaders(cmd *cobra.Command, headers http.Header, asJSON bool) error {
	out := make(map[string]string)
	var lines []string
	for name, values := range headers {
		out[name] = values[0]
		lines = append(lines, name+": "+values[0])
	}
	if asJSON {
		return printJSON(cmd, map[string]any{"headers": out})
	}
	slices.Sort(lines)
	for _, line := range lines {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return nil
}

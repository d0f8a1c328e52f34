package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/export"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/safetext"
	"webhook-gateway/providers"
)

// exportFlags are those of gateway export.
type exportFlags struct {
	out, target, dir               string
	scrub, keepToken, curl, asJSON bool
}

func exportCommand() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "export (ID | PATH)… [--out DIR] [--scrub] [--curl]",
		Short: "Make captures of kept deliveries and drops, scrub captures, or print them as curl commands",
		Long: `Writes a capture of each delivery or drop, named by its id, byte for byte: the request itself, or, for one
delivery of many, a request with only that one. A path copies the captures in and below it. The database keeps no
signatures, cookies or credentials. Slack's verification token is removed from the body, unless --keep-token is given.
The content of a form is its bytes, so a form without its token is different content.

--scrub replaces every text by a substitute of the same length, equal texts by equal substitutes in all captures of
one call, so that they can be committed. --curl prints a command per capture, which signs with gateway sign.

The captures are private (folders 0700, files 0600) unless they are scrubbed.`,
		Example: `  gateway export 019c3f2b-8c1e-7d0a-8c57-9a550c6f3a1d --out captures
  gateway export captures --out test/replay/testdata/ours --scrub
  gateway export test/replay/testdata/slack/app-mention --curl --target http://127.0.0.1:8080`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("what? give the id of a delivery or a drop, or the folder of a capture")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVar(&f.out, "out", "", "write the captures into this folder, which is created if it is missing")
	cmd.Flags().BoolVar(&f.scrub, "scrub", false, "replace every text by a substitute, so that the captures can be committed")
	cmd.Flags().BoolVar(&f.keepToken, "keep-token", false, "leave Slack's verification token in the body, so that a form stays the same content")
	cmd.Flags().BoolVar(&f.curl, "curl", false, "print a curl command for each capture")
	cmd.Flags().StringVar(&f.target, "target", "http://127.0.0.1:8080", "the gateway that the curl commands call")
	cmd.Flags().StringVar(&f.dir, "dir", devDirDefault, "the directory of the gateway dev to export from, if DATABASE_URL is not set")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f *exportFlags) run(cmd *cobra.Command, args []string) error {
	var ids []uuid.UUID
	var paths []string
	for _, arg := range args {
		if id, err := uuid.Parse(arg); err == nil && len(arg) == 36 {
			ids = append(ids, id)
		} else {
			paths = append(paths, arg)
		}
	}
	base, err := f.validate(ids)
	if err != nil {
		return err
	}
	var list []*capture.Capture
	if len(paths) > 0 {
		if list, err = capture.LoadAll(paths...); err != nil {
			return usagef("%w", err)
		}
	}
	if len(ids) > 0 {
		made, err := f.fromDatabase(cmd, ids)
		if err != nil {
			return err
		}
		list = append(list, made...)
	}
	if f.out != "" {
		if err := writeCaptures(cmd, list, f.out, f.scrub); err != nil {
			return err
		}
	}
	if f.curl {
		return printCurl(cmd, list, base)
	}
	return printCaptures(cmd, list, f.asJSON)
}

func (f *exportFlags) validate(ids []uuid.UUID) (base string, err error) {
	switch {
	case f.out == "" && (!f.curl || len(ids) > 0):
		return "", usagef("--out is missing: the folder to write the captures into")
	case f.scrub && f.out == "":
		return "", usagef("--scrub writes new captures: give --out")
	case f.curl && f.asJSON:
		return "", usagef("--json and --curl both write to stdout; give one of them")
	case f.scrub && f.keepToken:
		return "", usagef("--scrub replaces every text, including tokens: leave out --keep-token")
	}
	return targetBase(f.target, true)
}

// fromDatabase makes captures of deliveries and drops.
func (f *exportFlags) fromDatabase(cmd *cobra.Command, ids []uuid.UUID) ([]*capture.Capture, error) {
	pool, reg, err := openRegistry(cmd, f.dir)
	if err != nil {
		return nil, err
	}
	defer pg.Close(pool)
	e := export.New(pool, reg, vendorsByName(), f.keepToken)
	var list []*capture.Capture
	for _, id := range ids {
		c, err := e.Capture(cmd.Context(), id)
		switch {
		case errors.Is(err, export.ErrNotFound):
			return nil, fmt.Errorf("%s is %w", id, err)
		case err != nil:
			return nil, fmt.Errorf("export %s: %w", id, err)
		}
		list = append(list, c)
	}
	return list, nil
}

// writeCaptures writes the captures, scrubbed if that is asked for. It then says which texts were kept, for people to
// look at.
func writeCaptures(cmd *cobra.Command, list []*capture.Capture, out string, scrub bool) error {
	if !scrub {
		return capture.WriteAll(out, list, vendorsByName(), capture.Private)
	}
	kept, err := capture.ScrubAll(list, vendorsByName())
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "scrubbed; these texts were kept as part of the protocol, check them before you commit: %s\n", orDash(safetext.Line(strings.Join(kept, ", "))))
	return capture.WriteAll(out, list, vendorsByName(), capture.Shared)
}

// printCaptures says where the captures were written.
func printCaptures(cmd *cobra.Command, list []*capture.Capture, asJSON bool) error {
	if asJSON {
		type made struct {
			Dir      string   `json:"dir"`
			Provider string   `json:"provider"`
			Bytes    int      `json:"bytes"`
			SHA256   string   `json:"sha256"`
			Scrubbed []string `json:"scrubbed"`
		}
		out := []made{}
		for _, c := range list {
			m := made{Dir: c.Dir, Provider: c.Provider, Scrubbed: append([]string{}, c.Scrubbed...)}
			if c.Body != nil {
				m.Bytes, m.SHA256 = c.Body.Bytes, c.Body.SHA256
			}
			out = append(out, m)
		}
		return printJSON(cmd, map[string]any{"captures": out})
	}
	for _, c := range list {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), c.Dir); err != nil {
			return err
		}
	}
	return nil
}

func printCurl(cmd *cobra.Command, list []*capture.Capture, base string) error {
	for i, c := range list {
		kind, party := c.Party()
		if party == nil {
			return usagef("capture %s names neither a source nor a job", c.Name)
		}
		path := "/webhooks/" + c.Provider + "/" + party.Name // the name of a job that a gateway captured is its id
		if kind == "source" {
			path = providers.SourcePath(c.Provider, party.Name)
		}
		text, err := c.Curl(c.Dir, base, path)
		if err != nil {
			return usagef("%w", err)
		}
		if i > 0 {
			text = "\n" + text
		}
		if _, err := fmt.Fprint(cmd.OutOrStdout(), text); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/jobs"
)

// sourceJSON is a source as --json prints it.
type sourceJSON struct {
	ID            uuid.UUID         `json:"id"`
	Name          string            `json:"name"`
	Provider      string            `json:"provider"`
	Path          string            `json:"path"` // what the vendor calls
	Refs          map[string]string `json:"refs"`
	HasSecret     bool              `json:"has_secret"`
	Secrets       int               `json:"secrets"` // how many are live
	RotatingUntil *time.Time        `json:"rotating_until"`
	ActiveJobs    int               `json:"active_jobs"`
	CreatedAt     time.Time         `json:"created_at"`
}

func sourcePath(provider, name string) string { return "/webhooks/" + provider + "/sources/" + name }

func sourceOut(s jobs.StoredSource) sourceJSON {
	return sourceJSON{
		ID: s.ID, Name: s.Name, Provider: s.Provider, Path: sourcePath(s.Provider, s.Name),
		Refs: refsOf(s.Pins), HasSecret: s.Secrets > 0, Secrets: s.Secrets, RotatingUntil: s.RotatingUntil,
		ActiveJobs: s.ActiveJobs, CreatedAt: s.CreatedAt,
	}
}

func printSources(cmd *cobra.Command, list []jobs.StoredSource, asJSON bool) error {
	if asJSON {
		out := make([]sourceJSON, len(list))
		for i, s := range list {
			out[i] = sourceOut(s)
		}
		return printJSON(cmd, map[string]any{"sources": out})
	}
	if len(list) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no sources; add one with: gateway sources add --provider P --name NAME")
		return nil
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tNAME\tPATH\tSECRETS\tJOBS\tREFS\tID")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n",
			s.Provider, s.Name, sourcePath(s.Provider, s.Name), s.Secrets, s.ActiveJobs, refsText(s.Pins), s.ID)
	}
	return w.Flush()
}

func printSource(cmd *cobra.Command, s jobs.StoredSource, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, sourceOut(s))
	}
	w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "source\t%s\nprovider\t%s\nid\t%s\npath\t%s\nrefs\t%s\nactive jobs\t%d\n",
		s.Name, s.Provider, s.ID, sourcePath(s.Provider, s.Name), refsText(s.Pins), s.ActiveJobs)
	printSecrets(w, s.Secrets, s.RotatingUntil)
	fmt.Fprintf(w, "created\t%s\n", s.CreatedAt.Format(time.RFC3339))
	if err := w.Flush(); err != nil {
		return err
	}
	if s.Secrets == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "no secret yet: set it with gateway sources set-secret %s --provider %s\n", s.Name, s.Provider)
	}
	return nil
}

func printSecrets(w io.Writer, secrets int, rotatingUntil *time.Time) {
	fmt.Fprintf(w, "live secrets\t%d\n", secrets)
	if rotatingUntil != nil {
		fmt.Fprintf(w, "rotating until\t%s\n", rotatingUntil.Format(time.RFC3339))
	}
}

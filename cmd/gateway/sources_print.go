package main

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// sourceJSON is a source as --json prints it.
type sourceJSON struct {
	ID            uuid.UUID         `json:"id"`
	Name          string            `json:"name"`
	Provider      string            `json:"provider"`
	Path          string            `json:"path"` // the path for the vendor to call
	Refs          map[string]string `json:"refs"`
	HasSecret     bool              `json:"has_secret"`
	Secrets       int               `json:"secrets"` // how many are live
	RotatingUntil *time.Time        `json:"rotating_until"`
	ActiveJobs    int               `json:"active_jobs"`
	CreatedAt     time.Time         `json:"created_at"`
}

func sourceOut(s jobs.StoredSource) sourceJSON {
	return sourceJSON{
		ID: s.ID, Name: s.Name, Provider: s.Provider, Path: providers.SourcePath(s.Provider, s.Name),
		Refs: jobs.ByName(s.Pins), HasSecret: s.Secrets > 0, Secrets: s.Secrets, RotatingUntil: s.RotatingUntil,
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
	w := newTable(cmd.OutOrStdout())
	w.row("PROVIDER", "NAME", "PATH", "SECRETS", "JOBS", "REFS", "ID")
	for _, s := range list {
		w.row(s.Provider, s.Name, providers.SourcePath(s.Provider, s.Name), s.Secrets, s.ActiveJobs, refsText(s.Pins), s.ID)
	}
	return w.flush()
}

func printSource(cmd *cobra.Command, s jobs.StoredSource, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, sourceOut(s))
	}
	w := newTable(cmd.OutOrStdout())
	w.pairs("source", s.Name, "provider", s.Provider, "id", s.ID, "path", providers.SourcePath(s.Provider, s.Name),
		"refs", refsText(s.Pins), "active jobs", s.ActiveJobs)
	printSecrets(w, s.Secrets, s.RotatingUntil)
	w.row("created", s.CreatedAt.Format(time.RFC3339))
	if err := w.flush(); err != nil {
		return err
	}
	if s.Secrets == 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "no secret yet: set it with gateway sources set-secret %s --provider %s\n", s.Name, s.Provider)
	}
	return nil
}

func printSecrets(w table, secrets int, rotatingUntil *time.Time) {
	w.row("live secrets", secrets)
	if rotatingUntil != nil {
		w.row("rotating until", rotatingUntil.Format(time.RFC3339))
	}
}

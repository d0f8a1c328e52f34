package main

import (
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// jobJSON is a job as --json prints it.
type jobJSON struct {
	ID            uuid.UUID         `json:"id"`
	Organization  uuid.UUID         `json:"organization_id"`
	Provider      string            `json:"provider"`
	Path          string            `json:"path"`
	Source        *string           `json:"source"`      // null: the job has its own secrets
	SourcePath    *string           `json:"source_path"` // the fallback for calls to the source that name no tenant
	Refs          map[string]string `json:"refs"`
	Fallback      bool              `json:"fallback"`
	HasSecret     bool              `json:"has_secret"` // its own secret
	Secrets       int               `json:"secrets"`    // number of its own live ones
	RotatingUntil *time.Time        `json:"rotating_until"`
	CreatedAt     time.Time         `json:"created_at"`
	ClosedAt      *time.Time        `json:"closed_at"` // null: active
}

func jobOut(j jobs.StoredJob) jobJSON {
	out := jobJSON{
		ID: j.ID, Organization: j.Organization, Provider: j.Provider, Path: providers.JobPath(j.Provider, j.ID),
		Refs: jobs.ByName(j.Pins), Fallback: j.Fallback, HasSecret: j.Secrets > 0, Secrets: j.Secrets,
		RotatingUntil: j.RotatingUntil, CreatedAt: j.CreatedAt, ClosedAt: j.ClosedAt,
	}
	if j.SourceID != uuid.Nil {
		path := providers.SourcePath(j.Provider, j.Source)
		out.Source, out.SourcePath = &j.Source, &path
	}
	return out
}

func printJobs(cmd *cobra.Command, list []jobs.StoredJob, asJSON bool) error {
	if asJSON {
		out := make([]jobJSON, len(list))
		for i, j := range list {
			out[i] = jobOut(j)
		}
		return printJSON(cmd, map[string]any{"jobs": out})
	}
	if len(list) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no jobs; add one with gateway jobs add")
		return nil
	}
	w := newTable(cmd.OutOrStdout())
	w.row("PROVIDER", "ID", "ORGANIZATION", "SOURCE", "REFS", "STATE")
	for _, j := range list {
		w.row(j.Provider, j.ID, j.Organization, secretsOf(j), refsText(j.Pins), stateOf(j))
	}
	return w.flush()
}

// secretsOf says which secrets verify the job's calls.
func secretsOf(j jobs.StoredJob) string {
	if j.SourceID != uuid.Nil {
		return j.Source
	}
	return fmt.Sprintf("(own secrets: %d)", j.Secrets)
}

func stateOf(j jobs.StoredJob) string {
	switch {
	case j.ClosedAt != nil:
		return "closed"
	case j.Fallback:
		return "active, fallback"
	default:
		return "active"
	}
}

func printJob(cmd *cobra.Command, j jobs.StoredJob, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, jobOut(j))
	}
	w := newTable(cmd.OutOrStdout())
	w.pairs("job", j.ID, "organization", j.Organization, "provider", j.Provider, "path", providers.JobPath(j.Provider, j.ID))
	if j.SourceID != uuid.Nil {
		w.pairs("source", j.Source, "source's path", providers.SourcePath(j.Provider, j.Source))
	} else {
		printSecrets(w, j.Secrets, j.RotatingUntil)
	}
	w.pairs("refs", refsText(j.Pins), "state", stateOf(j), "created", j.CreatedAt.Format(time.RFC3339))
	if j.ClosedAt != nil {
		w.row("closed", j.ClosedAt.Format(time.RFC3339))
	}
	if err := w.flush(); err != nil {
		return err
	}
	if j.SourceID == uuid.Nil && j.Secrets == 0 && j.ClosedAt == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "no secret yet: set it with gateway jobs set-secret %s\n", j.ID)
	}
	return nil
}

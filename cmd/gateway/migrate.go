package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/pg"
	"webhook-gateway/migrations"
)

func migrateCommand() *cobra.Command {
	return group("migrate", "Migrate the database", migrateUpCommand(), migrateStatusCommand())
}

// migrationJSON is a migration as --json prints it.
type migrationJSON struct {
	Version   int64      `json:"version"`
	Name      string     `json:"name"`
	TookMS    *float64   `json:"took_ms,omitempty"`    // up
	AppliedAt *time.Time `json:"applied_at,omitempty"` // status; absent: pending
	Newer     bool       `json:"newer,omitempty"`      // status; of a later build
}

func migrateUpCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Apply every pending migration",
		Long:  `Applies every pending migration, each in its own transaction. Several processes may run it at once: they take turns.`,
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd, "DATABASE_URL")
			if err != nil {
				return err
			}
			applied, err := migrations.Up(cmd.Context(), cfg.DatabaseURL.Reveal())
			out := make([]migrationJSON, len(applied))
			for i, m := range applied {
				ms := milliseconds(m.Took)
				out[i] = migrationJSON{Version: m.Version, Name: m.Name, TookMS: &ms}
			}
			if err != nil {
				for _, m := range out {
					fmt.Fprintln(cmd.ErrOrStderr(), "applied", m.Name)
				}
				return pg.Unavailable(err)
			}
			if asJSON {
				return printJSON(cmd, map[string]any{"applied": out})
			}
			for _, m := range out {
				fmt.Fprintf(cmd.OutOrStdout(), "applied %s (%.0f ms)\n", m.Name, *m.TookMS)
			}
			if len(out) > 0 {
				return nil
			}
			states, err := migrations.Status(cmd.Context(), cfg.DatabaseURL.Reveal())
			if err != nil {
				return pg.Unavailable(err)
			}
			why := "the schema is up to date with this build"
			if newest := states[len(states)-1]; newest.Newer {
				why = fmt.Sprintf("the schema is newer than this build: it has migration %d", newest.Version)
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "nothing to apply:", why)
			return nil
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func migrateStatusCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List this build's migrations and which of them the database lacks",
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd, "DATABASE_URL")
			if err != nil {
				return err
			}
			states, err := migrations.Status(cmd.Context(), cfg.DatabaseURL.Reveal())
			if err != nil {
				return pg.Unavailable(err)
			}
			return printStates(cmd, states, asJSON)
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func printStates(cmd *cobra.Command, states []migrations.State, asJSON bool) error {
	pending := 0
	out := make([]migrationJSON, len(states))
	for i, s := range states {
		out[i] = migrationJSON{Version: s.Version, Name: s.Name, Newer: s.Newer}
		if s.AppliedAt.IsZero() {
			pending++
		} else {
			out[i].AppliedAt = &s.AppliedAt
		}
	}
	if asJSON {
		return printJSON(cmd, map[string]any{"migrations": out, "pending": pending})
	}
	w := newTable(cmd.OutOrStdout())
	for _, m := range out {
		at := "pending"
		if m.AppliedAt != nil {
			at = m.AppliedAt.Format(time.RFC3339)
		}
		w.row(m.Name, at)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if pending > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d pending; apply with: gateway migrate up\n", pending)
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

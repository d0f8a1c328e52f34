package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/pg"
)

func keysCommand() *cobra.Command {
	cmd := group("keys", "Idempotency keys: completed, in flight, stuck",
		keysShowCommand(), keysListCommand(), keysStuckCommand())
	cmd.Long = `A key records that an effect was made, or that a worker is making it. Take a tool's key from its worker's log,
or a webhook's from delivery_key, to see whether its command may be sent again. These commands only read.`
	return cmd
}

// keyJSON is a key as --json prints it.
type keyJSON struct {
	idempotency.Entry
	LeaseLeft   string `json:"lease_left"`  // negative: it has passed
	RetainLeft  string `json:"retain_left"` // negative: it has passed
	RedriveSafe bool   `json:"redrive_safe"`
	RedriveWhy  string `json:"redrive_why"`
}

func keyOut(e idempotency.Entry) keyJSON {
	safe, why := e.Redrive()
	return keyJSON{
		Entry:     e,
		LeaseLeft: e.LeaseLeft.Round(time.Millisecond).String(), RetainLeft: e.RetainLeft.Round(time.Second).String(),
		RedriveSafe: safe, RedriveWhy: why,
	}
}

func keysShowCommand() *cobra.Command {
	var organization, scope string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show one key, and whether its command may be sent again",
		Example: `  gateway keys show --organization 3f2b8c1e-5d0a-4c57-9a55-0c6f3a1d2b7e --scope tool.email.send job_17:3:send
  gateway keys show --organization 3f2b8c1e-5d0a-4c57-9a55-0c6f3a1d2b7e --scope webhook.slack JOB_ID/Ev08A3DF736 --json`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("the key is missing: as the worker logged it, or a webhook's delivery_key")
			}
			org, err := parseID("--organization", organization)
			if err != nil {
				return err
			}
			if scope == "" {
				return usagef("--scope is missing: the operation, for example webhook.slack")
			}
			pool, _, err := openDatabase(cmd.Context(), cmd)
			if err != nil {
				return err
			}
			defer pg.Close(pool)
			entry, err := idempotency.NewInspector(pool).Show(cmd.Context(), org, scope, args[0])
			switch {
			case err != nil:
				return err
			case entry == nil:
				return errors.New("no such key in this organization and scope: it was never claimed, was released, or its retention has passed")
			case asJSON:
				return printJSON(cmd, keyOut(*entry))
			}
			return printKey(cmd, *entry)
		},
	}
	cmd.Flags().StringVar(&organization, "organization", "", "whose key it is (UUID)")
	cmd.Flags().StringVar(&scope, "scope", "", "the operation, for example webhook.slack or tool.email.send")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func keysListCommand() *cobra.Command {
	var organization string
	var page idempotency.Page
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List an organization's keys, in the order of scope and key",
		Example: `  gateway keys list --organization 3f2b8c1e-5d0a-4c57-9a55-0c6f3a1d2b7e --scope tool.email.send --prefix job_17:`,
		Args:    atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if page.Organization, err = parseID("--organization", organization); err != nil {
				return err
			}
			return listKeys(cmd, page.Limit, asJSON, func(ctx context.Context, inspect *idempotency.Inspector) ([]idempotency.Entry, error) {
				return inspect.List(ctx, page)
			})
		},
	}
	cmd.Flags().StringVar(&organization, "organization", "", "whose keys (UUID)")
	cmd.Flags().StringVar(&page.Scope, "scope", "", "only this operation")
	cmd.Flags().StringVar(&page.Prefix, "prefix", "", "only keys with this prefix")
	cmd.Flags().IntVar(&page.Limit, "limit", 50, fmt.Sprintf("at most this many, up to %d", idempotency.MaxEntries))
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func keysStuckCommand() *cobra.Command {
	var since time.Duration
	var limit int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stuck",
		Short: "List claims whose lease has passed and that no other worker has taken over",
		Long: `Lists the claims of all organizations whose lease passed longer ago than --since and that no other worker has taken
over: their worker died, and their command was not sent again. It reads the whole table: run it by hand, not every
minute.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since < 0 {
				return usagef("--since %s is negative", since)
			}
			return listKeys(cmd, limit, asJSON, func(ctx context.Context, inspect *idempotency.Inspector) ([]idempotency.Entry, error) {
				return inspect.Stuck(ctx, since, limit)
			})
		},
	}
	cmd.Flags().DurationVar(&since, "since", 5*time.Minute, "only claims whose lease passed at least this long ago")
	cmd.Flags().IntVar(&limit, "limit", 50, fmt.Sprintf("at most this many, up to %d", idempotency.MaxEntries))
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func printKey(cmd *cobra.Command, e idempotency.Entry) error {
	out, safe := keyOut(e), "no"
	if out.RedriveSafe {
		safe = "yes"
	}
	w := newTable(cmd.OutOrStdout())
	w.pairs("organization", e.Organization, "scope", e.Scope, "key", e.Key, "status", e.Status,
		"claimed at", e.ClaimedAt.UTC().Format(time.RFC3339), "lease left", out.LeaseLeft, "retention left", out.RetainLeft,
		"fingerprint", e.Hash, "answers for", answersFor(e))
	if e.Response != nil {
		w.row("response", string(e.Response))
	}
	w.row("re-drive safe", safe+": "+out.RedriveWhy)
	return w.flush()
}

// listKeys prints the keys that a function reads.
func listKeys(cmd *cobra.Command, limit int, asJSON bool, read func(context.Context, *idempotency.Inspector) ([]idempotency.Entry, error)) error {
	if limit < 1 || limit > idempotency.MaxEntries {
		return usagef("--limit %d is not between 1 and %d", limit, idempotency.MaxEntries)
	}
	pool, _, err := openDatabase(cmd.Context(), cmd)
	if err != nil {
		return err
	}
	defer pg.Close(pool)
	entries, err := read(cmd.Context(), idempotency.NewInspector(pool))
	if err != nil {
		return err
	}
	if asJSON {
		list := make([]keyJSON, len(entries))
		for i, e := range entries {
			list[i] = keyOut(e)
		}
		return printJSON(cmd, map[string]any{"keys": list})
	}
	if len(entries) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no keys")
		return nil
	}
	w := newTable(cmd.OutOrStdout())
	w.row("ORGANIZATION", "SCOPE", "KEY", "STATUS", "LEASE LEFT", "RETENTION LEFT", "ANSWERS FOR")
	for _, e := range entries {
		out := keyOut(e)
		w.row(e.Organization, e.Scope, e.Key, e.Status, out.LeaseLeft, out.RetainLeft, answersFor(e))
	}
	return w.flush()
}

// answersFor returns what a completed key stands for.
func answersFor(e idempotency.Entry) string {
	if e.Resource == (idempotency.ResourceRef{}) {
		return "-"
	}
	return e.Resource.Type + " " + e.Resource.ID
}

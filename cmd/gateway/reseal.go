package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"webhook-gateway/jobs"
)

func secretsCommand() *cobra.Command {
	return group("secrets", "The vendors' secrets in the database", secretsResealCommand())
}

func secretsResealCommand() *cobra.Command {
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "reseal",
		Short: "Seal every stored secret again with the first key of GATEWAY_SECRETS_KEY",
		Long: `Opens every secret of every source and job, including closed jobs, and seals it again with the first key of
GATEWAY_SECRETS_KEY. Secrets already sealed with it are left alone. It is safe beside gateways and set-secret: a row
that changes meanwhile is read again. Give every gateway the new key first. Afterwards you can remove the old keys.

The exit status is 3 if a secret does not open; it stays as it is, and the others are still sealed.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withStore(cmd, keyRepairs, func(ctx context.Context, store *jobs.Store) error {
				r, err := store.Reseal(ctx, dryRun)
				if printErr := printResealed(cmd, r, dryRun, asJSON); err == nil {
					err = printErr
				}
				if err == nil && len(r.Unopened) > 0 {
					err = unopenedError(r.Unopened)
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "change nothing; print how many rows it would seal again")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func printResealed(cmd *cobra.Command, r jobs.Resealed, dryRun, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, struct {
			DryRun bool `json:"dry_run"`
			jobs.Resealed
		}{dryRun, r})
	}
	did := "sealed again"
	if dryRun {
		did = "to be sealed again"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s with the key %s: %s; already sealed with it: %s\n", did, r.KeyID, plural(r.Resealed, "row"), plural(r.Current, "row"))
	return err
}

func unopenedError(rows []jobs.Unopened) error {
	first, more := rows[0], ""
	if len(rows) > 1 {
		more = fmt.Sprintf(" and %s more", plural(len(rows)-1, "row"))
	}
	return fmt.Errorf("%w does not open the secrets of %s %s%s; they stay as they are (gateway config check --connect says which keys are missing)",
		jobs.ErrKey, first.Holder, first.ID, more)
}

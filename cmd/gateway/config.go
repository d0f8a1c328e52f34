package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/internal/pg"
	"webhook-gateway/jobs"
)

func configCommand() *cobra.Command {
	return group("config", "Look at the settings", configCheckCommand())
}

// configJSON is what config check --json prints.
type configJSON struct {
	OK       bool            `json:"ok"`
	Problems []string        `json:"problems"`
	Settings []configs.Value `json:"settings"`
}

func configCheckCommand() *cobra.Command {
	var connects, asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check every setting and print the values in force, secrets redacted",
		Long: `Reads the settings as gateway serve would, from the environment over the YAML file, and reports every problem
at once, by the setting's name. The exit status is 3 when a setting is wrong or missing, and 4 when only
what --connect looks at is.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			problems := append(joined(err), joined(cfg.Require("DATABASE_URL", "GATEWAY_SECRETS_KEY"))...)
			if cfg.SecretsKey.Reveal() != "" {
				if _, err := jobs.NewKeys(cfg.SecretsKey.Reveal()); err != nil {
					problems = append(problems, err)
				}
			}
			status := exitConfig
			if connects && len(problems) == 0 {
				status = exitUnreachable
				if err := tryDatabase(cmd.Context(), cfg); err != nil {
					problems = append(problems, err)
				}
			}
			if err := printConfig(cmd, cfg, problems, asJSON); err != nil {
				return err
			}
			return withStatus(status, errors.Join(problems...))
		},
	}
	cmd.Flags().BoolVar(&connects, "connect", false, "also connect to the database, and check its version, its migrations and GATEWAY_SECRETS_KEY against the stored secrets")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// joined takes apart what errors.Join has put together.
func joined(err error) []error {
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		return many.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// tryDatabase asks of the database what serve asks of it at its start.
func tryDatabase(ctx context.Context, cfg configs.Config) error {
	keys, err := jobs.NewKeys(cfg.SecretsKey.Reveal())
	if err != nil {
		return err
	}
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), 2)
	if err != nil {
		return err
	}
	defer pg.Close(pool)
	return checkDatabase(ctx, cfg, pool, keys)
}

func printConfig(cmd *cobra.Command, cfg configs.Config, problems []error, asJSON bool) error {
	if asJSON {
		out := configJSON{OK: len(problems) == 0, Problems: []string{}, Settings: cfg.Redacted()}
		for _, p := range problems {
			out.Problems = append(out.Problems, p.Error())
		}
		return printJSON(cmd, out)
	}
	w := newTable(cmd.OutOrStdout())
	for _, v := range cfg.Redacted() {
		w.row(v.Name, v.Value)
	}
	return w.flush()
}

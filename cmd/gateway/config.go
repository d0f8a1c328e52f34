package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/internal/dsn"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/preflight"
	"webhook-gateway/jobs"
)

func configCommand() *cobra.Command {
	return group("config", "Check the settings", configCheckCommand())
}

// configJSON is what config check --json prints.
type configJSON struct {
	OK       bool                `json:"ok"`
	Problems []string            `json:"problems"`
	Settings []configs.Value     `json:"settings"`
	Database *preflight.Database `json:"database,omitempty"` // what --connect found
}

func configCheckCommand() *cobra.Command {
	var connects, asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check every setting and print the values in force, secrets redacted",
		Long: `Reads the settings like gateway serve, from the environment and the YAML file, and reports every problem at
once, by the setting's name. The exit status is 3 if a setting is wrong or missing, and 4 if only the checks of
--connect fail.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			problems := append(joined(err), joined(cfg.Require("DATABASE_URL", "GATEWAY_SECRETS_KEY"))...)
			if cfg.SecretsKey.Reveal() != "" {
				if _, err := jobs.NewKeys(cfg.SecretsKey.Reveal()); err != nil {
					problems = append(problems, err)
				}
			}
			if url := cfg.DatabaseURL.Reveal(); dsn.Check(url) == nil { // else it is among the problems
				if err := pg.Check(url); err != nil {
					problems = append(problems, err)
				}
			}
			var found *preflight.Database
			tried := connects && len(problems) == 0
			if tried {
				found, err = tryDatabase(cmd.Context(), cfg)
				problems = joined(err)
			}
			if err := printConfig(cmd, cfg, found, problems, asJSON); err != nil {
				return err
			}
			switch err := errors.Join(problems...); {
			case err == nil || !tried:
				return asSetting(err)
			default:
				return gateway.DatabaseError{Err: err}
			}
		},
	}
	cmd.Flags().BoolVar(&connects, "connect", false, "also connect to the database, try everything that serve needs of it, and roll it back")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// joined splits what errors.Join has joined.
func joined(err error) []error {
	switch e := err.(type) {
	case nil:
		return nil
	case gateway.SettingError:
		return joined(e.Err)
	case gateway.DatabaseError:
		return joined(e.Err)
	case interface{ Unwrap() []error }:
		var all []error
		var lines []string
		for _, one := range e.Unwrap() {
			all = append(all, joined(one)...)
			lines = append(lines, one.Error())
		}
		if strings.Join(lines, "\n") == err.Error() { // and not a sentence about several errors
			return all
		}
	}
	return []error{err}
}

func printConfig(cmd *cobra.Command, cfg configs.Config, found *preflight.Database, problems []error, asJSON bool) error {
	if asJSON {
		out := configJSON{OK: len(problems) == 0, Problems: []string{}, Settings: cfg.Redacted(), Database: found}
		for _, p := range problems {
			out.Problems = append(out.Problems, p.Error())
		}
		return printJSON(cmd, out)
	}
	w := newTable(cmd.OutOrStdout())
	for _, v := range cfg.Redacted() {
		w.row(v.Name, v.Value)
	}
	if found != nil {
		w.row("PostgreSQL", found.String())
	}
	return w.flush()
}

func tryDatabase(ctx context.Context, cfg configs.Config) (*preflight.Database, error) {
	keys, err := jobs.NewKeys(cfg.SecretsKey.Reveal())
	if err != nil {
		return nil, err
	}
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), 2)
	if err != nil {
		return nil, err
	}
	defer pg.Close(pool)
	return preflight.Try(ctx, preflight.Target{Pool: pool, URL: cfg.DatabaseURL.Reveal(), Keys: keys, AcceptFsyncOff: cfg.AcceptFsyncOff}, vendors()[0])
}

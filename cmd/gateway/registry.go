package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/dev"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/registry"
	"webhook-gateway/jobs"
)

// located is the gateway that a command works on: its database and key, and where it listens.
type located struct {
	dev.Env
	folder dev.Folder // empty: the settings name the gateway
}

// locate finds the gateway in the settings, if they name a database and --dir is not given, or else the gateway dev in
// dir.
func locate(cmd *cobra.Command, dir string) (located, error) {
	if !cmd.Flags().Changed("dir") {
		cfg, err := settings(cmd)
		if err != nil {
			return located{}, err
		}
		if cfg.DatabaseURL.Reveal() != "" {
			env := dev.Env{DatabaseURL: cfg.DatabaseURL.Reveal(), SecretsKey: cfg.SecretsKey.Reveal(), Listen: cfg.Listen}
			return located{Env: env}, asSetting(cfg.Require("GATEWAY_SECRETS_KEY"))
		}
	}
	if cmd.Flags().Lookup("secrets") != nil {
		return locateDev(dir, ", or give --secrets FILE")
	}
	return locateDev(dir, "")
}

// locateDev finds the gateway dev in dir. If there is none, the error says what to do; with is added to what it says
// about settings.
func locateDev(dir, with string) (located, error) {
	env, err := dev.Folder(dir).Env()
	if errors.Is(err, dev.ErrNotRunning) {
		err = fmt.Errorf("%w: start it (%s dev), or name its directory with --dir, or set DATABASE_URL and GATEWAY_SECRETS_KEY%s", err, invocation(), with)
	}
	return located{env, dev.Folder(dir)}, asSetting(err)
}

// open connects to the gateway's database and reads its sources and jobs. The caller closes the pool.
func (l located) open(ctx context.Context) (*pgxpool.Pool, *registry.Registry, error) {
	keys, err := jobs.NewKeys(l.SecretsKey)
	if err != nil {
		return nil, nil, err
	}
	pool, err := connect(ctx, l.DatabaseURL, 2)
	if err != nil && l.folder != "" {
		err = gateway.DatabaseError{Err: fmt.Errorf("the gateway dev that ran in %s has ended; start it again with: %s dev", l.folder, invocation())}
	}
	if err != nil {
		return nil, nil, err
	}
	reg, err := registry.Read(ctx, pool, keys)
	if err != nil {
		pg.Close(pool)
		return nil, nil, err
	}
	return pool, reg, nil
}

// openRegistry opens the database of the gateway that locate finds.
func openRegistry(cmd *cobra.Command, dir string) (*pgxpool.Pool, *registry.Registry, error) {
	l, err := locate(cmd, dir)
	if err != nil {
		return nil, nil, err
	}
	return l.open(cmd.Context())
}

// findInFile finds the places that captures need in a file of secrets.
func findInFile(path string, list []*capture.Capture) (capture.Places, error) {
	file, err := registry.ReadFile(path)
	if err != nil {
		return nil, asSetting(err)
	}
	places, err := file.Find(list)
	return places, asSetting(err)
}

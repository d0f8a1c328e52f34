package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/migrations"
)

// ErrDatabaseEnded says that the private PostgreSQL ended while its gateway was running.
var ErrDatabaseEnded = errors.New("the private PostgreSQL has ended")

// Running is a private PostgreSQL that is up and migrated.
type Running struct {
	*devdb.Server
	Folder Folder
	Env    Env // for a gateway on the database; without the addresses
}

// Run starts the folder's private PostgreSQL, migrates its database, calls use, and stops PostgreSQL when use
// returns. The context of use ends with ctx, or when PostgreSQL ends by itself; the error is then ErrDatabaseEnded.
// The error is a devdb.MissingError without PostgreSQL's programs, and devdb.ErrInUse when another gateway dev runs
// in the folder.
func Run(ctx context.Context, f Folder, use func(context.Context, Running) error) error {
	server, err := devdb.Start(ctx, devdb.Options{Dir: f.Postgres(), Fsync: true})
	var missing *devdb.MissingError
	switch {
	case errors.Is(err, devdb.ErrInUse):
		return fmt.Errorf("another gateway dev runs in %s: stop it, or give this one another directory with --dir (%w)", f, err)
	case errors.As(err, &missing):
		return err
	case err != nil:
		return fmt.Errorf("start the private PostgreSQL: %w", err)
	}
	err = with(ctx, f, server, use)
	err = errors.Join(err, server.Stop())
	// The settings in the file are wrong once no gateway runs.
	if removeErr := os.Remove(f.EnvFile()); !errors.Is(removeErr, os.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	return err
}

func with(ctx context.Context, f Folder, server *devdb.Server, use func(context.Context, Running) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-server.Done():
			cancel(ErrDatabaseEnded)
		case <-ctx.Done():
		}
	}()
	r := Running{Server: server, Folder: f, Env: Env{StateDir: filepath.Join(string(f), "state")}}
	var err error
	if r.Env.DatabaseURL, err = server.Create(ctx, "gateway"); err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, r.Env.DatabaseURL); err != nil {
		return err
	}
	if r.Env.SecretsKey, err = f.key(); err != nil {
		return err
	}
	err = use(ctx, r)
	if errors.Is(context.Cause(ctx), ErrDatabaseEnded) {
		return fmt.Errorf("%w; its log is %s/postgres.log", ErrDatabaseEnded, server.Dir())
	}
	return err
}

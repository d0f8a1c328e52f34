package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/pg"
)

// openDatabase connects to DATABASE_URL and makes sure that it answers.
func openDatabase(ctx context.Context, cmd *cobra.Command) (*pgxpool.Pool, configs.Config, error) {
	cfg, err := settings(cmd, "DATABASE_URL")
	if err != nil {
		return nil, cfg, err
	}
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), 4)
	return pool, cfg, err
}

// openPool opens a pool that has not connected yet.
func openPool(ctx context.Context, url string, connections int32) (*pgxpool.Pool, error) {
	pool, err := pg.Open(ctx, url, connections, idempotency.WatchCommits)
	if err != nil {
		return nil, unconnected(err)
	}
	return pool, nil
}

// connect opens a pool and makes sure that the database answers and may be used.
func connect(ctx context.Context, url string, connections int32) (*pgxpool.Pool, error) {
	pool, err := openPool(ctx, url, connections)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pg.Close(pool)
		return nil, withStatus(exitUnreachable, unconnected(err))
	}
	return pool, nil
}

// unconnected gives the error of a database that cannot be connected to its exit status and words. Other errors
// stay as they are.
func unconnected(err error) error {
	var explained *awayError
	if errors.As(err, &explained) {
		return err
	}
	reason := pg.Explain(err)
	switch {
	case errors.Is(err, pg.ErrSettings):
		return withStatus(exitConfig, err)
	case errors.Is(err, pg.ErrUnfit):
		return withStatus(exitUnreachable, err)
	case reason != "" && !pg.Passing(err):
		return withStatus(exitUnreachable, &awayError{text: "PostgreSQL at DATABASE_URL refuses the connection: " + reason, err: err})
	case reason != "":
		return withStatus(exitUnreachable, &awayError{text: away + reason, err: err})
	case errors.Is(err, context.DeadlineExceeded):
		return withStatus(exitUnreachable, &awayError{text: away + err.Error(), err: err})
	}
	return err
}

const away = "PostgreSQL at DATABASE_URL does not answer: "

// awayError says that PostgreSQL cannot be connected, in other words than the error behind it.
type awayError struct {
	text string
	err  error
}

func (e *awayError) Error() string { return e.text }
func (e *awayError) Unwrap() error { return e.err }

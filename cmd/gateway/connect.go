package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/pg"
)

// openDatabase connects to DATABASE_URL and checks that it answers.
func openDatabase(ctx context.Context, cmd *cobra.Command) (*pgxpool.Pool, configs.Config, error) {
	cfg, err := settings(cmd, "DATABASE_URL")
	if err != nil {
		return nil, cfg, err
	}
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), 4)
	return pool, cfg, err
}

// connect opens a pool and checks that the database answers and may be used.
func connect(ctx context.Context, url string, connections int32) (*pgxpool.Pool, error) {
	pool, err := pg.Open(ctx, url, connections, idempotency.WatchCommits)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pg.Close(pool)
		return nil, gateway.DatabaseError{Err: pg.Unavailable(err)}
	}
	return pool, nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/idempotency"
	"webhook-gateway/internal/safetext"
)

// streams are what a command talks through: data goes to out, everything else to err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// newRoot builds the command tree. One file holds one command.
func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "gateway",
		Short:         "Receive vendors' webhooks: verify, deduplicate, store, acknowledge",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			text := fmt.Sprintf("there is no command %q", args[0])
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				text += "; did you mean " + strings.Join(like, " or ") + "?"
			}
			return usagef("%s (gateway --help lists them)", text)
		},
	}
	root.SetIn(s.in)
	// What a command prints may come from outside, an error's text too. In one place it is made safe for a terminal.
	root.SetOut(safetext.NewWriter(s.out))
	root.SetErr(safetext.NewWriter(s.err))
	root.PersistentFlags().String("config", "", "YAML file with settings (environment variables win over it)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return withStatus(exitUsage, err) })
	root.AddCommand(
		serveCommand(),
		devCommand(),
		migrateCommand(),
		sourcesCommand(),
		jobsCommand(),
		dropsCommand(),
		keysCommand(),
		sendCommand(),
		replayCommand(),
		signCommand(),
		exportCommand(),
		importCommand(),
		doctorCommand(),
		sweepCommand(),
		configCommand(),
		healthcheckCommand(),
		versionCommand(),
	)
	return root
}

// settings loads the settings of a command and demands those named.
func settings(cmd *cobra.Command, required ...string) (configs.Config, error) {
	file, err := cmd.Flags().GetString("config")
	if err != nil {
		return configs.Config{}, err
	}
	cfg, err := configs.Load(file, os.Environ())
	if err == nil {
		err = cfg.Require(required...)
	}
	return cfg, withStatus(exitConfig, err)
}

// openDatabase connects to DATABASE_URL and makes sure that it answers.
func openDatabase(ctx context.Context, cmd *cobra.Command) (*pgxpool.Pool, configs.Config, error) {
	cfg, err := settings(cmd, "DATABASE_URL")
	if err != nil {
		return nil, cfg, err
	}
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), 4)
	return pool, cfg, err
}

// connectTimeout is how long one connection may take to be made, unless DATABASE_URL has a connect_timeout.
const connectTimeout = 5 * time.Second

// connect opens a pool and makes sure that the database answers.
func connect(ctx context.Context, url string, connections int32) (*pgxpool.Pool, error) {
	poolConfig, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, withStatus(exitConfig, fmt.Errorf("DATABASE_URL cannot be read as a PostgreSQL URL"))
	}
	poolConfig.MaxConns = max(poolConfig.MaxConns, connections)
	if poolConfig.ConnConfig.ConnectTimeout == 0 {
		// A server that is gone without a word would hold one of the pool's places for each attempt, for ever.
		poolConfig.ConnConfig.ConnectTimeout = connectTimeout
	}
	poolConfig.AfterConnect = noticeOurEnd
	idempotency.WatchCommits(poolConfig.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, withStatus(exitUnreachable, fmt.Errorf("connect to PostgreSQL: %w", err))
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		// Not pgx's own text: it quotes the URL's user, where a mistyped URL has its password.
		var failed *pgconn.ConnectError
		if errors.As(err, &failed) {
			err = failed.Unwrap()
		}
		return nil, withStatus(exitUnreachable, fmt.Errorf("PostgreSQL at DATABASE_URL does not answer: %w", err))
	}
	return pool, nil
}

// noticeOurEnd has the server ask within half a minute whether a silent connection is alive. None of its
// time-outs runs while it waits for the rest of a batch: a gateway whose network ends in the middle of one
// would hold the keys in it for two hours, and their deliveries could be stored by nobody.
func noticeOurEnd(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SET tcp_keepalives_idle = 15; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3`)
	if err != nil && ctx.Err() == nil && !conn.IsClosed() {
		return nil // not every system has them
	}
	return err
}

// printJSON writes exactly one JSON object to stdout.
func printJSON(cmd *cobra.Command, value any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/internal/devdb"
	"webhook-gateway/migrations"
)

// devFlags are those of gateway dev.
type devFlags struct {
	dir, listen, adminListen string
	asJSON                   bool
}

const (
	devDirDefault = ".dev"
	devListen     = "127.0.0.1:8080"
	devAdmin      = "127.0.0.1:8081"
)

// errDatabaseEnded is why a dev gateway stops without having been told to.
var errDatabaseEnded = errors.New("the private PostgreSQL has ended")

func devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine: a private PostgreSQL, a gateway, samples to send",
		Long: `Starts a private PostgreSQL from the installed binaries (whatever DATABASE_URL says), migrates it, registers
a sample organization with a source and jobs per vendor, receives, and prints what to try next. What it has is
kept between runs in --dir. Ctrl-C stops all of it. GATEWAY_PG_BIN names another folder of PostgreSQL's binaries.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.run(cmd); !interrupted(cmd.Context(), err) {
				return err
			}
			return nil // Ctrl-C before it was up
		},
	}
	cmd.Flags().StringVar(&f.dir, "dir", devDirDefault, "the directory to keep data, key and settings in")
	cmd.Flags().StringVar(&f.listen, "listen", devListen, "where vendors call, as host:port; port 0 takes a free one")
	cmd.Flags().StringVar(&f.adminListen, "admin-listen", devAdmin, "where operators look (/metrics, /livez, /readyz), as host:port")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object in place of the text, once it receives")
	return cmd
}

// interrupted reports whether an error says no more than that ctx has ended.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

func (f *devFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	// Before the seconds that a first start takes.
	for _, l := range [][2]string{{"--listen", f.listen}, {"--admin-listen", f.adminListen}} {
		if err := checkFree(l[0], l[1]); err != nil {
			return err
		}
	}
	dir, err := makeDevDir(f.dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "starting a private PostgreSQL")
	server, err := devdb.Start(ctx, devdb.Options{Dir: dir.postgres(), Fsync: true})
	if err != nil {
		return f.notStarted(dir, err)
	}
	err = f.gateway(cmd, dir, server)
	if stopErr := server.Close(); stopErr != nil {
		err = errors.Join(err, stopErr)
	}
	// Without a gateway behind it, what the file says is wrong.
	if removeErr := os.Remove(dir.envFile()); removeErr != nil && !errors.Is(removeErr, os.ErrNotExist) {
		err = errors.Join(err, removeErr)
	}
	if err == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "stopped, PostgreSQL too; its data are kept in", server.Dir())
	}
	return err
}

func (f *devFlags) notStarted(dir devDir, err error) error {
	var missing *devdb.MissingError
	switch {
	case errors.As(err, &missing):
		return withStatus(exitUnreachable, err)
	case errors.Is(err, devdb.ErrInUse):
		return fmt.Errorf("another gateway dev runs in %s: stop it, or give this one a directory of its own with --dir (%w)", dir, err)
	default:
		return fmt.Errorf("start the private PostgreSQL: %w", err)
	}
}

// checkFree says by the flag's name what is wrong with an address to listen on.
func checkFree(flag, address string) error {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return withStatus(exitConfig, fmt.Errorf("%s is taken by another program (another gateway dev?): stop that, or choose another address with %s", address, flag))
	case err != nil:
		return usagef("%s %q: write host:port of this machine, like 127.0.0.1:9080 (%w)", flag, address, err)
	}
	return l.Close()
}

// gateway runs a gateway on the private server until ctx or the server ends.
func (f *devFlags) gateway(cmd *cobra.Command, dir devDir, server *devdb.Server) error {
	ctx, cancel := context.WithCancelCause(cmd.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-server.Done():
			cancel(errDatabaseEnded)
		case <-ctx.Done():
		}
	}()
	url, err := server.Create(ctx, "gateway")
	if err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, url); err != nil {
		return err
	}
	key, err := dir.key()
	if err != nil {
		return err
	}
	registered, err := registerSamples(ctx, url, key)
	if err != nil {
		return err
	}
	env := devEnv{databaseURL: url, secretsKey: key, stateDir: dir.state(), listen: f.listen, adminListen: f.adminListen}
	cfg, err := f.settings(cmd, env)
	if err != nil {
		return err
	}
	env.adminOpen = cfg.AdminOpen
	err = serve(ctx, cfg, cmd.ErrOrStderr(), func(at addresses) {
		env.listen, env.adminListen = at.Public.String(), at.Admin.String()
		if err := errors.Join(dir.writeEnv(env), f.tell(cmd, dir, env, server, registered)); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", err)
		}
	})
	if errors.Is(context.Cause(ctx), errDatabaseEnded) {
		return fmt.Errorf("%w; its log is %s/postgres.log", errDatabaseEnded, server.Dir())
	}
	return err
}

// settings are the gateway's: the environment's and the file's, but for what is this directory's own.
func (f *devFlags) settings(cmd *cobra.Command, env devEnv) (configs.Config, error) {
	file, err := cmd.Flags().GetString("config")
	if err != nil {
		return configs.Config{}, err
	}
	cfg, err := configs.Load(file, append(os.Environ(), env.vars()...))
	return cfg, withStatus(exitConfig, err)
}

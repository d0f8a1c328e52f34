package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/internal/dev"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/safetext"
	"webhook-gateway/jobs"
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

func devCommand() *cobra.Command {
	var f devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine: a private PostgreSQL, a gateway, samples to send",
		Long: `Starts a private PostgreSQL from the installed binaries (whatever DATABASE_URL says), migrates it, registers
a sample organization with a source and jobs per vendor, receives, and prints what to try next. Its data is kept
between runs in --dir. Ctrl-C stops all of it. GATEWAY_PG_BIN names another folder of PostgreSQL's binaries.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.run(cmd); !interrupted(cmd.Context(), err) {
				return err
			}
			return nil // Ctrl-C before it was up
		},
	}
	cmd.Flags().StringVar(&f.dir, "dir", devDirDefault, "the directory to keep data, key and settings in")
	cmd.Flags().StringVar(&f.listen, "listen", devListen, "public listener for vendors, as host:port; port 0 takes a free one")
	cmd.Flags().StringVar(&f.adminListen, "admin-listen", devAdmin, "admin listener for operators (/metrics, /livez, /readyz), as host:port")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print one JSON object instead of the text, once it receives")
	return cmd
}

// interrupted reports whether an error only says that ctx has ended.
func interrupted(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx)))
}

func (f *devFlags) run(cmd *cobra.Command) error {
	// Check before a first start, which takes seconds.
	if err := errors.Join(checkFree("--listen", f.listen), checkFree("--admin-listen", f.adminListen)); err != nil {
		return err
	}
	folder, err := dev.MakeFolder(f.dir)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "starting a private PostgreSQL")
	var data string
	err = dev.Run(cmd.Context(), folder, func(ctx context.Context, r dev.Running) error {
		data = r.Dir()
		return f.gateway(ctx, cmd, r)
	})
	if err == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "stopped, PostgreSQL too; its data is kept in", data)
	}
	return err
}

// checkFree returns an error with the flag's name if nothing can listen on the address.
func checkFree(flag, address string) error {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return gateway.SettingError{Err: fmt.Errorf("%s is used by another program (another gateway dev?): stop it, or choose another address with %s", address, flag)}
	case err != nil:
		return usagef("%s %q: write host:port of this machine, like 127.0.0.1:9080 (%w)", flag, address, err)
	}
	return l.Close()
}

// gateway runs a gateway on the private server until ctx ends.
func (f *devFlags) gateway(ctx context.Context, cmd *cobra.Command, r dev.Running) error {
	registered, err := registerSamples(ctx, r.Env)
	if err != nil {
		return err
	}
	r.Env.Listen, r.Env.AdminListen = f.listen, f.adminListen
	// The environment and the file set everything except the settings of this directory.
	cfg, err := settingsOver(cmd, r.Env.Vars())
	if err != nil {
		return err
	}
	r.Env.AdminOpen = cfg.AdminOpen
	return gateway.Serve(ctx, cfg, vendors(), cmd.ErrOrStderr(), func(at gateway.Addresses) {
		r.Env.Listen, r.Env.AdminListen = at.Public.String(), at.Admin.String()
		if err := errors.Join(r.Folder.WriteEnv(r.Env), f.print(cmd, r, registered)); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning:", err)
		}
	})
}

func registerSamples(ctx context.Context, env dev.Env) ([]dev.Registered, error) {
	keys, err := jobs.NewKeys(env.SecretsKey)
	if err != nil {
		return nil, err
	}
	pool, err := connect(ctx, env.DatabaseURL, 1)
	if err != nil {
		return nil, fmt.Errorf("connect to the private PostgreSQL: %w", err)
	}
	defer pg.Close(pool)
	return dev.Register(ctx, pool, keys, vendors())
}

// print prints the addresses and what to try next.
func (f *devFlags) print(cmd *cobra.Command, r dev.Running, made []dev.Registered) error {
	again := invocation()
	inDir, envFile := "", "./"+devDirDefault+"/env"
	if f.dir != devDirDefault {
		inDir, envFile = " --dir "+safetext.Shell(string(r.Folder)), r.Folder.EnvFile()
	}
	public, admin := "http://"+configs.Dialable(r.Env.Listen), "http://"+configs.Dialable(r.Env.AdminListen)
	for i := range made {
		made[i].Send = again + " send " + made[i].Provider + inDir
	}
	if f.asJSON {
		return printJSON(cmd, map[string]any{
			"url": public, "admin_url": admin, "dir": string(r.Folder), "postgres_dir": r.Dir(), "env_file": r.Folder.EnvFile(), "vendors": made,
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nReceiving. Ctrl-C stops it, PostgreSQL too.\n\n")
	fmt.Fprintf(&b, "  public    %s   /webhooks/*, /healthz\n  admin     %s   /metrics, /livez, /readyz\n", public, admin)
	fmt.Fprintf(&b, "  data      %s, kept between runs\n", r.Dir())
	if r.Dir() != r.Folder.Postgres() {
		fmt.Fprintf(&b, "            (not in %s: PostgreSQL runs as the user %s, who cannot enter it)\n", r.Folder, r.User())
	} else if r.User() != "" {
		fmt.Fprintf(&b, "            (PostgreSQL runs as the user %s)\n", r.User())
	}
	for _, m := range made {
		fmt.Fprintf(&b, "\n  %-8s  %s%s\n", m.Provider, public, m.SourcePath)
		for _, path := range m.JobPaths {
			fmt.Fprintf(&b, "            %s%s\n", public, path)
		}
	}
	fmt.Fprintf(&b, "\nSend a signed sample and see what is stored, in another terminal and this directory:\n\n")
	for _, m := range made {
		fmt.Fprintf(&b, "  %s\n", m.Send)
	}
	fmt.Fprintf(&b, "\nOther kinds, and the same delivery twice: %s send --help\n", again)
	fmt.Fprintf(&b, "The other commands on this database:\n\n  set -a; . %s; set +a; %s sources list\n\n", safetext.Shell(envFile), again)
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/files"
	"webhook-gateway/internal/pg"
	"webhook-gateway/jobs"
)

// maxSecretInput bounds the input from stdin: enough to say by how much a secret is too long.
const maxSecretInput = 64 << 10

// readSecret reads a signing secret from stdin. A secret is never an argument, because arguments are visible in the
// process list and in the shell's history.
func readSecret(cmd *cobra.Command) (jobs.Secret, error) {
	in := cmd.InOrStdin()
	if isTerminal(in) {
		fmt.Fprintln(cmd.ErrOrStderr(), "paste the signing secret, then press Enter and Ctrl-D")
	}
	text, err := io.ReadAll(files.Interruptible(cmd.Context(), io.LimitReader(in, maxSecretInput)))
	if err != nil {
		return jobs.Secret{}, fmt.Errorf("read the secret from stdin: %w", err)
	}
	secret, err := jobs.NewSecret(string(text))
	if err != nil {
		return jobs.Secret{}, usagef("secret on stdin: %w", err)
	}
	return secret, nil
}

// keyUse says how a command uses GATEWAY_SECRETS_KEY.
type keyUse int

const (
	keyUnused  keyUse = iota // not at all: it need not be set
	keySeals                 // it seals a secret, and must be the gateways' key
	keyRepairs               // it seals, but the old secrets need not open any more
)

// withStore opens the store for a command. Secrets are read inside it, so that people paste them only when everything
// else is right. A command that seals refuses a key that does not open the secrets in the database: it is probably not
// the gateways' key, and they could not use the new secret.
func withStore(cmd *cobra.Command, use keyUse, do func(ctx context.Context, store *jobs.Store) error) error {
	required := []string{"DATABASE_URL"}
	if use != keyUnused {
		required = append(required, "GATEWAY_SECRETS_KEY")
	}
	cfg, err := settings(cmd, required...)
	if err != nil {
		return err
	}
	var keys *jobs.Keys
	if use != keyUnused {
		if keys, err = jobs.NewKeys(cfg.SecretsKey.Reveal()); err != nil {
			return err
		}
	}
	ctx := cmd.Context()
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), 2)
	if err != nil {
		return err
	}
	defer pg.Close(pool)
	if use == keySeals {
		if err := jobs.CheckKeys(ctx, pool, keys); err != nil {
			return err
		}
	}
	return do(ctx, jobs.NewStore(pool, keys))
}

// secretFlags are the flags of both set-secret commands.
type secretFlags struct {
	stdin        bool
	dropPrevious bool
	rotating     time.Duration
	asJSON       bool
}

const setSecretLong = `Reads the new signing secret from stdin and makes it the current one. One trailing newline is dropped.
The previous secrets stay live, so that calls signed before the change are still accepted, until
--drop-previous. At most 8 are live at once.`

func (f *secretFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.stdin, "secret-stdin", false, "read the secret from stdin (the default, except with --drop-previous alone)")
	cmd.Flags().BoolVar(&f.dropPrevious, "drop-previous", false, "end every secret except the current one; with --secret-stdin, every one except the new one")
	cmd.Flags().DurationVar(&f.rotating, "rotating", 0, "declare a rotation open for this long, at most 1h (like 10m), and read no secret:\n"+
		"until it ends or a secret is set, calls that do not match are answered 503 (try again) instead of 401")
	addJSONFlag(cmd, &f.asJSON)
}

func (f *secretFlags) check(cmd *cobra.Command) error {
	switch {
	case !cmd.Flags().Changed("rotating"):
		return nil
	case f.stdin || f.dropPrevious:
		return usagef("--rotating sets and ends no secret; leave out --secret-stdin and --drop-previous")
	case f.rotating <= 0 || f.rotating > jobs.MaxRotation:
		return usagef("--rotating %s: give a duration above 0 and at most 1h, like 10m", f.rotating)
	}
	return nil
}

// apply applies the flags to the source or job that find returns, and prints it.
func (f *secretFlags) apply(cmd *cobra.Command,
	find func(context.Context, *jobs.Store) (of jobs.Verifier, print func() error, err error)) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	reads := f.rotating == 0 && (f.stdin || !f.dropPrevious)
	use := keyUnused
	if reads {
		use = keySeals
		if f.dropPrevious {
			use = keyRepairs
		}
	}
	return withStore(cmd, use, func(ctx context.Context, store *jobs.Store) error {
		of, print, err := find(ctx, store)
		if err != nil {
			return err
		}
		switch {
		case reads:
			var secret jobs.Secret
			if secret, err = readSecret(cmd); err == nil {
				err = store.SetSecret(ctx, of, secret, f.dropPrevious)
			}
		case f.dropPrevious:
			err = store.DropPrevious(ctx, of)
		default:
			_, err = store.OpenRotation(ctx, of, f.rotating)
		}
		if err != nil {
			return err
		}
		return print()
	})
}

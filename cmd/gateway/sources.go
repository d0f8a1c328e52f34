package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/jobs"
)

func sourcesCommand() *cobra.Command {
	cmd := group("sources", "Applications at a vendor that call one URL for many tenants",
		sourcesAddCommand(), sourcesListCommand(), sourcesShowCommand(), sourcesSetSecretCommand(), sourcesRemoveCommand())
	cmd.Long = `A source is one application at a vendor that calls one URL for many tenants: a Slack app, a Nylas webhook
destination. It holds the signing secrets. Each tenant is a job of the source: see gateway jobs.`
	return cmd
}

func sourcesAddCommand() *cobra.Command {
	var provider, name string
	var refs []string
	var secretStdin, asJSON bool
	cmd := &cobra.Command{
		Use:   "add --provider P --name NAME",
		Short: "Add a source and print the path for the vendor to call",
		Long: `Adds a source. A secret is optional: Nylas creates it only after it has called the URL with a challenge, which
the gateway answers at any time. Until a secret is set, signed calls are answered 503 (try again).`,
		Example: `  printf %s "$SLACK_SIGNING_SECRET" | gateway sources add --provider slack --name main --ref api_app_id=A1 --secret-stdin
  gateway sources add --provider nylas --name eu`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkProvider(provider, false); err != nil {
				return err
			}
			name, err := one(args, "name", name)
			if err != nil {
				return err
			}
			n := jobs.NewSource{Provider: provider, Name: name}
			if n.Pins, err = parseRefs(refs); err != nil {
				return err
			}
			use := keyUnused
			if secretStdin {
				use = keySeals
			}
			return withStore(cmd, use, func(ctx context.Context, store *jobs.Store) (err error) {
				if secretStdin {
					if n.Secret, err = readSecret(cmd); err != nil {
						return err
					}
				}
				s, err := store.AddSource(ctx, n)
				if err != nil {
					return err
				}
				return printSource(cmd, s, asJSON)
			})
		},
	}
	addProviderFlag(cmd, &provider)
	cmd.Flags().StringVar(&name, "name", "", "the source's name, unique per provider and part of its URL: letters, digits, dots, underscores and hyphens")
	addRefFlag(cmd, &refs, "pin the application's own identity as NAME=VALUE, like api_app_id=A1 or application_id=…; may repeat.\n"+
		"a call that names another application is dropped as job_mismatch")
	cmd.Flags().BoolVar(&secretStdin, "secret-stdin", false, "read the signing secret from stdin")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func sourcesListCommand() *cobra.Command {
	var provider string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the sources, newest first",
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkProvider(provider, true); err != nil {
				return err
			}
			return withStore(cmd, keyUnused, func(ctx context.Context, store *jobs.Store) error {
				list, err := store.ListSources(ctx, provider)
				if err != nil {
					return err
				}
				return printSources(cmd, list, asJSON)
			})
		},
	}
	addProviderFlag(cmd, &provider)
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// sourceName is how a command names one source: NAME with --provider, the same as two flags, or an id.
type sourceName struct{ provider, name, id string }

func (n *sourceName) add(cmd *cobra.Command) {
	addProviderFlag(cmd, &n.provider)
	cmd.Flags().StringVar(&n.name, "name", "", "the source's name; needs --provider")
	cmd.Flags().StringVar(&n.id, "id", "", "the source's id, instead of its name")
}

// read reads the optional argument, and checks that exactly one source is named.
func (n *sourceName) read(args []string) error {
	if err := checkProvider(n.provider, true); err != nil {
		return err
	}
	if len(args) == 1 {
		if n.name != "" || n.id != "" {
			return usagef("the source is named twice: by %q and by a flag; give one of them", args[0])
		}
		if _, err := uuid.Parse(args[0]); err == nil && n.provider == "" {
			n.id = args[0]
		} else {
			n.name = args[0]
		}
	}
	switch {
	case n.id != "" && n.name != "":
		return usagef("the source is named twice: by --name and by --id; give one of them")
	case n.id != "":
		_, err := parseID("--id", n.id)
		return err
	case n.name == "":
		return usagef("which source? give NAME and --provider, or an id; see them with gateway sources list")
	case n.provider == "":
		return usagef("--provider is missing: a source's name is unique per provider only")
	}
	return nil
}

func (n *sourceName) find(ctx context.Context, store *jobs.Store) (jobs.StoredSource, error) {
	if n.id == "" {
		s, err := store.Source(ctx, n.provider, n.name)
		if id, parseErr := uuid.Parse(n.name); errors.Is(err, jobs.ErrNotFound) && parseErr == nil {
			return sourceByID(ctx, store, n.provider, id)
		}
		return s, err
	}
	return sourceByID(ctx, store, n.provider, uuid.MustParse(n.id))
}

func sourceByID(ctx context.Context, store *jobs.Store, provider string, id uuid.UUID) (jobs.StoredSource, error) {
	list, err := store.ListSources(ctx, provider)
	if err != nil {
		return jobs.StoredSource{}, err
	}
	i := slices.IndexFunc(list, func(s jobs.StoredSource) bool { return s.ID == id })
	if i < 0 {
		return jobs.StoredSource{}, fmt.Errorf("%w: there is no source %s; see them with gateway sources list", jobs.ErrNotFound, id)
	}
	return list[i], nil
}

func sourcesShowCommand() *cobra.Command {
	return sourceCommand(&cobra.Command{Use: "show NAME --provider P | show ID", Short: "Show one source"},
		func(cmd *cobra.Command, _ *jobs.Store, s jobs.StoredSource, asJSON bool) error {
			return printSource(cmd, s, asJSON)
		})
}

func sourcesRemoveCommand() *cobra.Command {
	return sourceCommand(&cobra.Command{
		Use:   "remove NAME --provider P | remove ID",
		Short: "Remove a source that has no active jobs, and its secrets",
	}, func(cmd *cobra.Command, store *jobs.Store, s jobs.StoredSource, asJSON bool) error {
		if err := store.RemoveSource(cmd.Context(), s.Provider, s.Name); err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd, map[string]any{"id": s.ID, "name": s.Name, "provider": s.Provider, "removed": true})
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "removed the %s source %s\n", s.Provider, s.Name)
		return nil
	})
}

// sourceCommand returns a command that finds one source and does something with it.
func sourceCommand(cmd *cobra.Command, do func(*cobra.Command, *jobs.Store, jobs.StoredSource, bool) error) *cobra.Command {
	var name sourceName
	var asJSON bool
	cmd.Args = atMost(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := name.read(args); err != nil {
			return err
		}
		return withStore(cmd, keyUnused, func(ctx context.Context, store *jobs.Store) error {
			s, err := name.find(ctx, store)
			if err != nil {
				return err
			}
			return do(cmd, store, s, asJSON)
		})
	}
	name.add(cmd)
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func sourcesSetSecretCommand() *cobra.Command {
	var name sourceName
	var flags secretFlags
	cmd := &cobra.Command{
		Use:     "set-secret NAME --provider P | set-secret ID",
		Short:   "Set, rotate or clean up a source's signing secrets",
		Long:    setSecretLong,
		Example: `  printf %s "$SECRET" | gateway sources set-secret main --provider slack`,
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := name.read(args); err != nil {
				return err
			}
			return flags.apply(cmd, func(ctx context.Context, store *jobs.Store) (jobs.Verifier, func() error, error) {
				s, err := name.find(ctx, store)
				return jobs.Verifier{Kind: jobs.BySource, ID: s.ID}, func() error {
					s, err := store.Source(ctx, s.Provider, s.Name)
					if err != nil {
						return err
					}
					return printSource(cmd, s, flags.asJSON)
				}, err
			})
		},
	}
	name.add(cmd)
	flags.add(cmd)
	return cmd
}

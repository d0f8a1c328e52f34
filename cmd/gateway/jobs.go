package main

import (
	"context"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

func jobsCommand() *cobra.Command {
	cmd := group("jobs", "Jobs: which calls we accept, and which organization owns them",
		jobsAddCommand(), jobsListCommand(), jobsShowCommand(), jobsSetSecretCommand(), jobsCloseCommand())
	cmd.Long = `A job says why we accept a call and which organization owns it. A job either belongs to a source and pins exactly
one tenant (--ref team_id=…, --ref grant_id=…), or has its own secrets, for a tenant with its own application.`
	return cmd
}

// jobFlags are those of jobs add.
type jobFlags struct {
	provider, organization, source   string
	refs                             []string
	fallback, secretStdin, ownSecret bool
	asJSON                           bool
}

func jobsAddCommand() *cobra.Command {
	var f jobFlags
	cmd := &cobra.Command{
		Use:   "add --provider P --organization UUID (--source NAME --ref NAME=VALUE | --secret-stdin | --own-secret)",
		Short: "Add a job and print its path",
		Example: `  gateway jobs add --provider slack --organization "$ORG" --source main --ref team_id=T1
  printf %s "$SECRET" | gateway jobs add --provider nylas --organization "$ORG" --secret-stdin --ref application_id=…
  gateway jobs add --provider nylas --organization "$ORG" --own-secret   # set its secret later`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addProviderFlag(cmd, &f.provider)
	cmd.Flags().StringVar(&f.organization, "organization", "", "the organization that owns the deliveries: any UUID")
	cmd.Flags().StringVar(&f.source, "source", "", "the source that the job belongs to: its secrets verify the job's calls")
	addRefFlag(cmd, &f.refs, "pin an identity as NAME=VALUE: with --source exactly one, the tenant's (team_id, enterprise_id, grant_id);\n"+
		"otherwise any number. a call that names another is dropped as job_mismatch")
	cmd.Flags().BoolVar(&f.fallback, "fallback", false, "this job takes calls to its source's URL that name no tenant (one per source)")
	cmd.Flags().BoolVar(&f.secretStdin, "secret-stdin", false, "the job has its own secrets: read the first from stdin")
	cmd.Flags().BoolVar(&f.ownSecret, "own-secret", false, "the job has its own secrets; set the first one later with set-secret")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

// check validates the flags as far as that needs no database and no stdin.
func (f *jobFlags) check() (jobs.NewJob, error) {
	n := jobs.NewJob{Provider: f.provider, Source: f.source, Fallback: f.fallback}
	if err := checkProvider(f.provider, false); err != nil {
		return n, err
	}
	own := f.secretStdin || f.ownSecret
	switch {
	case f.organization == "":
		return n, usagef("--organization is missing: the UUID of the organization that owns the deliveries")
	case f.source != "" && own:
		return n, usagef("a job of a source has no secret: give --source, or --secret-stdin or --own-secret")
	case f.source == "" && !own:
		return n, usagef("which secret verifies the job's calls? give --source NAME, or --secret-stdin for its own secret, or --own-secret to set it later")
	case f.source == "" && f.fallback:
		return n, usagef("--fallback needs --source: a fallback job takes the source's calls without a tenant")
	case f.source != "" && len(f.refs) != 1:
		return n, usagef("a job of a source pins exactly one identity of its tenant: give --ref once (like --ref team_id=T123), not %d times", len(f.refs))
	}
	var err error
	if n.Organization, err = parseID("--organization", f.organization); err != nil {
		return n, err
	}
	if n.Pins, err = parseRefs(f.refs); err != nil {
		return n, err
	}
	return n, checkPins(n)
}

// checkPins refuses a pin that no delivery of the vendor can match.
func checkPins(n jobs.NewJob) error {
	for _, v := range vendors() {
		checker, ok := v.(providers.PinChecker)
		if !ok || v.Name() != n.Provider {
			continue
		}
		for _, pin := range n.Pins {
			if err := checker.CheckPin(pin); err != nil {
				return usagef("--ref %s=%s: %v", pin.Name, pin.Value, err)
			}
		}
	}
	return nil
}

func (f *jobFlags) run(cmd *cobra.Command) error {
	n, err := f.check()
	if err != nil {
		return err
	}
	use := keyUnused
	if f.secretStdin {
		use = keySeals
	}
	return withStore(cmd, use, func(ctx context.Context, store *jobs.Store) (err error) {
		if f.secretStdin {
			if n.Secret, err = readSecret(cmd); err != nil {
				return err
			}
		}
		j, err := store.AddJob(ctx, n)
		if err != nil {
			return err
		}
		return printJob(cmd, j, f.asJSON)
	})
}

func jobsListCommand() *cobra.Command {
	var filter jobs.JobFilter
	var organization string
	var refs []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the active jobs, newest first",
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkProvider(filter.Provider, true); err != nil {
				return err
			}
			pins, err := parseRefs(refs)
			if err != nil {
				return err
			}
			if len(pins) > 1 {
				return usagef("--ref filters by one identity; it is given %d times", len(pins))
			}
			if len(pins) == 1 {
				filter.Pin = pins[0]
			}
			if organization != "" {
				if filter.Organization, err = parseID("--organization", organization); err != nil {
					return err
				}
			}
			return withStore(cmd, keyUnused, func(ctx context.Context, store *jobs.Store) error {
				list, err := store.ListJobs(ctx, filter)
				if err != nil {
					return err
				}
				return printJobs(cmd, list, asJSON)
			})
		},
	}
	addProviderFlag(cmd, &filter.Provider)
	cmd.Flags().StringVar(&organization, "organization", "", "only those of this organization (UUID)")
	cmd.Flags().StringVar(&filter.Source, "source", "", "only those of the source of this name")
	addRefFlag(cmd, &refs, "only those that pin this identity (NAME=VALUE)")
	cmd.Flags().BoolVar(&filter.Closed, "closed", false, "also closed ones")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func jobsShowCommand() *cobra.Command {
	return jobCommand(&cobra.Command{Use: "show ID", Short: "Show one job, active or closed"},
		func(context.Context, *jobs.Store, uuid.UUID) error { return nil })
}

func jobsCloseCommand() *cobra.Command {
	return jobCommand(&cobra.Command{
		Use:   "close ID",
		Short: "Close a job: its late calls are still verified, dropped as unknown_job and acknowledged",
	}, func(ctx context.Context, store *jobs.Store, id uuid.UUID) error { return store.CloseJob(ctx, id) })
}

// jobCommand returns a command that changes or reads one job and prints it.
func jobCommand(cmd *cobra.Command, do func(context.Context, *jobs.Store, uuid.UUID) error) *cobra.Command {
	var id string
	var asJSON bool
	cmd.Args = atMost(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		job, err := readJobID(args, id)
		if err != nil {
			return err
		}
		return withStore(cmd, keyUnused, func(ctx context.Context, store *jobs.Store) error {
			if err := do(ctx, store, job); err != nil {
				return err
			}
			j, err := store.Job(ctx, job)
			if err != nil {
				return err
			}
			return printJob(cmd, j, asJSON)
		})
	}
	cmd.Flags().StringVar(&id, "id", "", "the job's id, instead of the argument")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func readJobID(args []string, flag string) (uuid.UUID, error) {
	text, err := one(args, "id", flag)
	if err != nil {
		return uuid.Nil, usagef("which job? give its id once; see them with gateway jobs list (%w)", err)
	}
	return parseID("the job's id", text)
}

func jobsSetSecretCommand() *cobra.Command {
	var id string
	var flags secretFlags
	cmd := &cobra.Command{
		Use:     "set-secret ID",
		Short:   "Set, rotate or clean up the signing secrets of a job that has its own",
		Long:    setSecretLong,
		Example: `  printf %s "$SECRET" | gateway jobs set-secret "$JOB"`,
		Args:    atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := readJobID(args, id)
			if err != nil {
				return err
			}
			return flags.apply(cmd, func(ctx context.Context, store *jobs.Store) (jobs.Verifier, func() error, error) {
				return jobs.Verifier{Kind: jobs.ByJob, ID: job}, func() error {
					j, err := store.Job(ctx, job)
					if err != nil {
						return err
					}
					return printJob(cmd, j, flags.asJSON)
				}, nil
			})
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the job's id, instead of the argument")
	flags.add(cmd)
	return cmd
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/user"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/drops"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/redrive"
	"webhook-gateway/jobs"
)

// redriveFlags are the flags of drops redrive, as they are typed.
type redriveFlags struct {
	dropFlags
	by, why             string
	dryRun, yes, asJSON bool
}

func dropsRedriveCommand() *cobra.Command {
	var f redriveFlags
	cmd := &cobra.Command{
		Use:   "redrive (ID… | --reason R, --since S, …)",
		Short: "Process kept drops again, as if they had just been verified",
		Long: `Processes the kept request of a drop as if it had just been verified: it is parsed, resolved and
stored as things stand now. It reaches only jobs of the source, or the job, whose secret verified it. A delivery that
is in the inbox already ends as a duplicate; one that is dropped again leaves its drop as it is.

It refuses a hash_mismatch, whose key belongs to other content, a drop whose request was not kept, and one that was
redriven with success before. The gateway records who did it (--by) and why (--why); drops show prints that. Run
with --dry-run first. Drops that are selected by flags instead of ids are redriven only with --yes.

The exit status is 1 if a delivery failed, or a drop named by its id could not be redriven.`,
		Example: `  gateway drops redrive --reason unknown_job --since 2h --dry-run
  gateway drops redrive --reason unknown_job --since 2h --yes --why "team T1 was registered late"
  gateway drops redrive 019c3f2b-8c1e-7d0a-8c57-9a550c6f3a1d --why "grant was re-registered"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.dropFlags.add(cmd, 1000)
	cmd.Flags().StringVar(&f.why, "why", "", "why they are redriven; required unless --dry-run")
	cmd.Flags().StringVar(&f.by, "by", "", "who redrives them (default: your user name on this machine)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only show how each drop would end; nothing is stored or recorded")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "redrive what the flags select; run with --dry-run first")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f *redriveFlags) run(cmd *cobra.Command, args []string) error {
	ids, filter, err := f.chosen(cmd, args)
	if err != nil {
		return err
	}
	if err := f.checkPerson(); err != nil {
		return err
	}
	cfg, err := settings(cmd, "DATABASE_URL")
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), redrive.Connections)
	if err != nil {
		return err
	}
	defer pg.Close(pool)
	d, err := newDriver(ctx, pool, cfg, gateway.NewLogger(cmd.ErrOrStderr(), cfg))
	if err != nil {
		return err
	}
	defer d.Stop()
	var plan *redrive.Plan
	if ids != nil {
		plan, err = d.PlanIDs(ctx, ids)
	} else {
		plan, err = d.PlanFilter(ctx, filter)
	}
	if err != nil {
		return err
	}
	if f.dryRun {
		err = d.DryRun(ctx, plan)
	} else {
		err = d.Drive(ctx, plan, f.by, f.why)
	}
	// Print the results even if the redrive could not be finished.
	if printed := f.print(cmd, plan); err == nil {
		err = printed
	}
	if err != nil {
		return err
	}
	return incomplete(plan, ids != nil)
}

// incomplete returns an error if a part of the plan was not redriven.
func incomplete(plan *redrive.Plan, named bool) error {
	counts := plan.Counts()
	switch failed := counts[string(drops.Failed)]; {
	case failed > 0:
		return fmt.Errorf("%d drops could not be stored in time; give the same command again", failed)
	case named && counts["refused"] > 0:
		return errors.New("not every drop that was named could be redriven")
	}
	return nil
}

// newDriver returns a driver that knows the sources and jobs as they are now.
func newDriver(ctx context.Context, pool *pgxpool.Pool, cfg configs.Config, log *slog.Logger) (*redrive.Driver, error) {
	// A drop says whose secret verified its request, so no secret has to be opened.
	snapshot, err := jobs.Read(ctx, pool, nil)
	if err != nil {
		return nil, err
	}
	return redrive.New(redrive.Deps{
		Pool: pool, Vendors: vendors(), Directory: snapshot, Registerer: prometheus.NewRegistry(), Log: log,
	}, inbox.Options{
		QueueDeliveries: cfg.QueueDeliveries, QueueBytes: cfg.QueueBytes,
		BatchDeliveries: cfg.BatchDeliveries, BatchBytes: cfg.BatchBytes,
	}, cfg.MaxInflatedBytes)
}

// chosen reads which drops to redrive: ids, or nil and the filter of the flags.
func (f *redriveFlags) chosen(cmd *cobra.Command, args []string) ([]uuid.UUID, drops.Filter, error) {
	filter, err := f.filter(time.Now())
	if err != nil {
		return nil, filter, err
	}
	byFlags := slices.ContainsFunc([]string{"reason", "provider", "organization", "job", "since"}, cmd.Flags().Changed)
	switch {
	case len(args) > 0 && byFlags:
		return nil, filter, usagef("give ids or flags that select drops, not both")
	case len(args) == 0 && !byFlags:
		return nil, filter, usagef("no drops are selected: give ids, or --reason, --provider, --organization, --job or --since")
	case byFlags && !f.dryRun && !f.yes:
		return nil, filter, usagef("run with --dry-run first, then again with --yes")
	case f.dryRun && f.yes:
		return nil, filter, usagef("give --dry-run or --yes, not both")
	case filter.Reason == drops.HashMismatch:
		return nil, filter, usagef("%s. See drops show for what differs", redrive.RefuseMismatch)
	}
	var ids []uuid.UUID
	for _, text := range args {
		id, err := parseID("the drop's id", text)
		if err != nil {
			return nil, filter, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, filter, nil
}

// checkPerson checks who redrives the drops, and why.
func (f *redriveFlags) checkPerson() error {
	if f.dryRun {
		return nil
	}
	if f.by == "" {
		if u, err := user.Current(); err == nil {
			f.by = u.Username
		}
	}
	for _, flag := range []struct {
		name, text, missing string
		limit               int
	}{
		{"--by", f.by, "your user name on this machine is unknown", drops.MaxBy},
		{"--why", f.why, "it is recorded with the drop", drops.MaxWhy},
	} {
		switch {
		case strings.TrimSpace(flag.text) == "":
			return usagef("%s is missing: %s", flag.name, flag.missing)
		case len(flag.text) > flag.limit:
			return usagef("%s is longer than %d bytes", flag.name, flag.limit)
		case !utf8.ValidString(flag.text) || strings.ContainsRune(flag.text, 0):
			return usagef("%s is not UTF-8 text", flag.name)
		}
	}
	return nil
}

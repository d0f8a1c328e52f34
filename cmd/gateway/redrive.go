package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"webhook-gateway/drops"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pg"
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
		Short: "Drive kept drops again, as if they had just been verified",
		Long: `Takes the request that was kept with a drop and sends it the way of a request that has just been verified: it
is read, resolved and stored as things stand now. It reaches only jobs of the source, or the job, whose secret
verified it. What is in the inbox already ends as a duplicate; what is dropped again stays as it was kept.

A hash_mismatch is not driven again: its key belongs to another content. Nor is a drop whose request was not
kept, or one that was driven again with success before. Who did it (--by) and why (--why) is written down and
shown by drops show. Look first with --dry-run. Drops chosen by flags instead of ids need --yes to be driven.

The exit status is 1 when a delivery failed, or a drop named by its id could not be driven.`,
		Example: `  gateway drops redrive --reason unknown_job --since 2h --dry-run
  gateway drops redrive --reason unknown_job --since 2h --yes --why "team T1 was registered late"
  gateway drops redrive 019c3f2b-8c1e-7d0a-8c57-9a550c6f3a1d --why "grant was re-registered"`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.dropFlags.add(cmd, 1000)
	cmd.Flags().StringVar(&f.why, "why", "", "why they are driven again; needed unless --dry-run")
	cmd.Flags().StringVar(&f.by, "by", "", "who drives them again (default: your user name on this machine)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "only tell what would become of each drop; nothing is stored or written down")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "drive what the flags choose, without ids; look with --dry-run first")
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
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), redriveConnections)
	if err != nil {
		return err
	}
	defer pg.Close(pool)
	r, err := newRedriver(ctx, pool, cfg, prometheus.NewRegistry(), newLogger(cmd.ErrOrStderr(), cfg))
	if err != nil {
		return unmigrated(err)
	}
	defer r.stop()
	plan, err := f.plan(ctx, r, ids, filter)
	if err != nil {
		return unmigrated(err)
	}
	if f.dryRun {
		err = r.foresee(ctx, plan)
	} else {
		err = r.drive(ctx, plan, f.by, f.why)
	}
	// What was done is told even when it could not be finished.
	if told := f.print(cmd, plan); err == nil {
		err = told
	}
	if err != nil {
		return unmigrated(err)
	}
	return plan.failure(ids != nil)
}

// chosen reads which drops are meant: ids, or the filter that the flags make.
func (f *redriveFlags) chosen(cmd *cobra.Command, args []string) ([]uuid.UUID, drops.Filter, error) {
	filter, err := f.filter(time.Now())
	if err != nil {
		return nil, filter, err
	}
	byFlags := slices.ContainsFunc([]string{"reason", "provider", "organization", "job", "since"}, cmd.Flags().Changed)
	switch {
	case len(args) > 0 && byFlags:
		return nil, filter, usagef("ids and flags that choose drops exclude each other; give one of them")
	case len(args) == 0 && !byFlags:
		return nil, filter, usagef("which drops? give their ids, or choose them with --reason, --provider, --organization, --job or --since")
	case byFlags && !f.dryRun && !f.yes:
		return nil, filter, usagef("look with --dry-run what the flags choose, then repeat with --yes in its place")
	case f.dryRun && f.yes:
		return nil, filter, usagef("--dry-run and --yes exclude each other")
	case filter.Reason == drops.HashMismatch:
		return nil, filter, usagef("a hash_mismatch is not driven again: its key belongs to another content. See drops show for what differs")
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

// checkPerson reads who drives the drops again, and why.
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
		{"--by", f.by, "this machine does not say who you are", drops.MaxBy},
		{"--why", f.why, "it is written down beside the drop, for whoever looks at it later", drops.MaxWhy},
	} {
		switch {
		case strings.TrimSpace(flag.text) == "":
			return usagef("%s is missing: %s", flag.name, flag.missing)
		case len(flag.text) > flag.limit:
			return usagef("%s is longer than %d bytes", flag.name, flag.limit)
		case !utf8.ValidString(flag.text) || strings.ContainsRune(flag.text, 0):
			return usagef("%s is no text", flag.name)
		}
	}
	return nil
}

// plan finds the drops, the oldest first, and says of each that cannot be driven again why not.
func (f *redriveFlags) plan(ctx context.Context, r *redriver, ids []uuid.UUID, filter drops.Filter) (*redrivePlan, error) {
	plan := &redrivePlan{}
	if ids == nil {
		return plan, r.fill(ctx, plan, filter)
	}
	for _, id := range ids {
		kept, err := r.store.Find(ctx, id)
		if errors.Is(err, drops.ErrNotFound) {
			plan.add(drops.Kept{ID: id}, "there is no such drop; its retention may have passed")
			continue
		}
		if err != nil {
			return nil, err
		}
		redrives, err := r.store.Redrives(ctx, []uuid.UUID{id})
		if err != nil {
			return nil, err
		}
		plan.add(kept, r.refusal(kept, redrives[id]))
	}
	return plan, nil
}

// fill adds the newest drops that the filter chooses and that can be driven again, up to its limit.
func (r *redriver) fill(ctx context.Context, plan *redrivePlan, filter drops.Filter) error {
	wanted := filter.Limit
	filter.Limit = drops.MaxList
	for {
		page, err := r.store.List(ctx, filter)
		if err != nil {
			return err
		}
		redrives, err := r.store.Redrives(ctx, idsOf(page))
		if err != nil {
			return err
		}
		for _, kept := range page {
			refusal := r.refusal(kept, redrives[kept.ID])
			if refusal == "" && wanted == 0 {
				plan.more = true
				break
			}
			if refusal == "" {
				wanted--
			}
			plan.add(kept, refusal)
		}
		if plan.more || len(page) < filter.Limit {
			slices.Reverse(plan.steps)
			return nil
		}
		filter.After = page[len(page)-1].Cursor()
	}
}

// refusal says why a drop is not driven again; empty when it is.
func (r *redriver) refusal(kept drops.Kept, redrives []drops.Redrive) string {
	for _, before := range redrives {
		if before.Outcome.Settled() {
			return fmt.Sprintf("driven again by %s at %s: %s", before.By, before.At.UTC().Format(time.RFC3339), before.Outcome)
		}
	}
	switch {
	case kept.Reason == drops.HashMismatch:
		return "a hash_mismatch is not driven again: its key belongs to another content"
	case !slices.Contains(wiredNames(), kept.Provider):
		return "this gateway has no provider " + kept.Provider
	}
	return ""
}

// connections of a redrive: its committer's, those of deliveries settled alone, and a few to look things up.
const redriveConnections = 1 + inbox.SpareConnections + 3

func idsOf(list []drops.Kept) []uuid.UUID {
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/drops"
	"webhook-gateway/internal/clash"
	"webhook-gateway/internal/pg"
)

func dropsCommand() *cobra.Command {
	cmd := group("drops", "Verified deliveries that were acknowledged but not kept", dropsListCommand(), dropsShowCommand(), dropsRedriveCommand())
	cmd.Long = `A drop is a delivery that a vendor signed and the gateway answered with 200, but did not store in the inbox:

  unknown_job    no job matches the URL or the tenant in the body
  job_mismatch   the body names another tenant or application than the job or its source
  hash_mismatch  its key exists with other content
  malformed      signed, but it cannot be read

For each source or job and reason the gateway keeps 100 whole requests a minute, then rows without the request; a
row's count says how many drops it stands for. Duplicates are only counted: gateway_deliveries_dropped_total.`
	return cmd
}

// dropFlags are the flags that select drops.
type dropFlags struct {
	reason, provider, organization, job, since string
	limit                                      int
}

func (f *dropFlags) add(cmd *cobra.Command, limit int) {
	cmd.Flags().StringVar(&f.reason, "reason", "", "only this reason: "+strings.Join(keptReasons(), ", "))
	addProviderFlag(cmd, &f.provider)
	cmd.Flags().StringVar(&f.organization, "organization", "", "only this organization's (UUID); most unknown_job drops have none")
	cmd.Flags().StringVar(&f.job, "job", "", "only of this job (UUID): the one found, or the one that the URL named")
	cmd.Flags().StringVar(&f.since, "since", "", "only stored since then: a time ago (30m, 12h, 7d) or an instant (2026-03-01T12:00:00Z)")
	cmd.Flags().IntVar(&f.limit, "limit", limit, "at most this many, the newest, up to "+strconv.Itoa(drops.MaxList))
}

func dropsListCommand() *cobra.Command {
	var f dropFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List kept drops, newest first",
		Example: `  gateway drops list --since 1h
  gateway drops list --provider slack --reason unknown_job --limit 500 --json`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter(time.Now())
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			pool, _, err := openDatabase(ctx, cmd)
			if err != nil {
				return err
			}
			defer pg.Close(pool)
			store := drops.NewStore(pool)
			list, more, err := store.List(ctx, filter)
			if err != nil {
				return err
			}
			redrives, err := store.Redrives(ctx, drops.IDs(list))
			if err != nil {
				return err
			}
			return printDrops(cmd, list, redrives, more, asJSON)
		},
	}
	f.add(cmd, 50)
	addJSONFlag(cmd, &asJSON)
	return cmd
}

func dropsShowCommand() *cobra.Command {
	var asJSON, rawBody bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one drop with its request",
		Long: `Shows one drop with its request: the headers, and the body as text, inflated if it was compressed, or as a
hex dump. Several drops of one request share it. For a hash_mismatch it shows what differs from the delivery that
the key was claimed for. It also shows each time the drop was redriven.`,
		Example: `  gateway drops show 019c3f2b-8c1e-7d0a-8c57-9a550c6f3a1d
  gateway drops show 019c3f2b-8c1e-7d0a-8c57-9a550c6f3a1d --body > body.bin`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("the drop's id is missing; gateway drops list shows them")
			}
			if asJSON && rawBody {
				return usagef("--json and --body both write to stdout; give one of them")
			}
			id, err := parseID("the drop's id", args[0])
			if err != nil {
				return err
			}
			d, err := findShown(cmd, id)
			switch {
			case err != nil:
				return err
			case asJSON:
				return printJSON(cmd, dropShownOut(d))
			case !rawBody:
				return printDrop(cmd.OutOrStdout(), d)
			case d.Body == nil:
				return fmt.Errorf("show body: %w", drops.ErrNotKept)
			}
			_, err = forBytes(cmd.OutOrStdout()).Write(d.Body)
			return err
		},
	}
	cmd.Flags().BoolVar(&rawBody, "body", false, "write only the body to stdout, as it was received; on a terminal control characters are escaped")
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// findShown looks up a drop and everything to show with it.
func findShown(cmd *cobra.Command, id uuid.UUID) (d shown, err error) {
	ctx := cmd.Context()
	pool, _, err := openDatabase(ctx, cmd)
	if err != nil {
		return d, err
	}
	defer pg.Close(pool)
	store := drops.NewStore(pool)
	if d.Kept, err = store.Find(ctx, id); errors.Is(err, drops.ErrNotFound) {
		err = fmt.Errorf("%w: %s; its retention may have passed (gateway drops list shows what is kept)", err, id)
	}
	if err != nil {
		return d, err
	}
	redrives, err := store.Redrives(ctx, []uuid.UUID{id})
	if err == nil && d.Reason == drops.HashMismatch {
		d.clash, err = clash.Find(ctx, pool, vendorsByName()[d.Provider], d.Kept)
	}
	d.redrives = redrives[id]
	return d, err
}

// filter converts the flags to a filter.
func (f *dropFlags) filter(now time.Time) (drops.Filter, error) {
	filter := drops.Filter{Reason: drops.Reason(f.reason), Provider: f.provider, Limit: f.limit}
	if f.reason != "" && !slices.Contains(keptReasons(), f.reason) {
		return filter, usagef("--reason %q is not one of %s", f.reason, strings.Join(keptReasons(), ", "))
	}
	if err := checkProvider(f.provider, true); err != nil {
		return filter, err
	}
	if f.limit < 1 || f.limit > drops.MaxList {
		return filter, usagef("--limit %d is not between 1 and %d", f.limit, drops.MaxList)
	}
	var organization, job, since error
	if f.organization != "" {
		filter.Organization, organization = parseID("--organization", f.organization)
	}
	if f.job != "" {
		filter.Job, job = parseID("--job", f.job)
	}
	if f.since != "" {
		filter.Since, since = parseSince(f.since, now)
	}
	return filter, cmp.Or(organization, job, since)
}

// keptReasons returns the reasons that have rows.
func keptReasons() []string {
	var names []string
	for _, reason := range drops.Reasons() {
		if reason != drops.Duplicate {
			names = append(names, string(reason))
		}
	}
	return names
}

// parseSince parses an instant, or a time ago: 30m, 12h, 7d.
func parseSince(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n int
		n, err = strconv.Atoi(days)
		n = max(-1, min(n, 36500)) // a century: more would overflow the duration
		ago = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || ago < 0 {
		return time.Time{}, usagef("--since %q is neither a time ago like 30m, 12h or 7d nor an instant like 2026-03-01T12:00:00Z", text)
	}
	return now.Add(-ago), nil
}

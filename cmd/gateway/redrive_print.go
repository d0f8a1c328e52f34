package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/drops"
	"webhook-gateway/internal/redrive"
)

// redriveJSON is what drops redrive --json prints.
type redriveJSON struct {
	DryRun bool           `json:"dry_run"`
	By     *string        `json:"by"` // null for a dry run, as why
	Why    *string        `json:"why"`
	Drops  []redrivenJSON `json:"drops"`
	Counts map[string]int `json:"counts"` // by outcome; "refused" for those that were not redriven
	More   bool           `json:"more"`   // the flags select more than --limit
}

// redrivenJSON is one drop of a redrive. Unknown values are null.
type redrivenJSON struct {
	ID             uuid.UUID      `json:"id"`
	Reason         *drops.Reason  `json:"reason"`
	Provider       *string        `json:"provider"`
	Outcome        *drops.Outcome `json:"outcome"` // null: refused, or not reached
	Detail         string         `json:"detail"`
	JobID          *uuid.UUID     `json:"job_id"` // where it belongs now
	OrganizationID *uuid.UUID     `json:"organization_id"`
	DeliveryID     *uuid.UUID     `json:"delivery_id"` // in the inbox
}

func redrivenOut(s *redrive.Step) redrivenJSON {
	return redrivenJSON{
		ID: s.Drop.ID, Reason: orNull(s.Drop.Reason), Provider: orNull(s.Drop.Provider),
		Outcome: orNull(s.Outcome), Detail: s.Detail,
		JobID: orNull(s.Job), OrganizationID: orNull(s.Organization), DeliveryID: orNull(s.Delivery),
	}
}

func (f *redriveFlags) print(cmd *cobra.Command, plan *redrive.Plan) error {
	if f.asJSON {
		out := redriveJSON{DryRun: f.dryRun, Drops: []redrivenJSON{}, Counts: plan.Counts(), More: plan.More}
		if !f.dryRun {
			out.By, out.Why = &f.by, &f.why
		}
		for _, s := range plan.Steps {
			out.Drops = append(out.Drops, redrivenOut(s))
		}
		return printJSON(cmd, out)
	}
	if len(plan.Steps) > 0 {
		w := newTable(cmd.OutOrStdout())
		w.row("RECEIVED", "PROVIDER", "REASON", "DROP", "OUTCOME", "DETAIL")
		for _, s := range plan.Steps {
			received, outcome := "-", orDash(string(s.Outcome))
			if !s.Drop.ReceivedAt.IsZero() {
				received = s.Drop.ReceivedAt.UTC().Format(time.RFC3339)
			}
			if s.Refused {
				outcome = "refused"
			}
			w.row(received, orDash(s.Drop.Provider), orDash(string(s.Drop.Reason)), s.Drop.ID, outcome, s.Detail)
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(cmd.ErrOrStderr(), summary(plan, f.dryRun))
	if plan.More {
		fmt.Fprintf(cmd.ErrOrStderr(), "there are more than these; raise --limit (%d), or run the command again\n", f.limit)
	}
	return nil
}

// summary is the last line: "3 drops: 2 accepted, 1 duplicate".
func summary(plan *redrive.Plan, dryRun bool) string {
	if len(plan.Steps) == 0 {
		return "no drops"
	}
	counts := plan.Counts()
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	text := fmt.Sprintf("%d drops: %s", len(plan.Steps), strings.Join(parts, ", "))
	if dryRun {
		text = "nothing was changed; as things stand: " + text
	}
	return text
}

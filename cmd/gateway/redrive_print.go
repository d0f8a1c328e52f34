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
)

// redriveJSON is what drops redrive --json prints.
type redriveJSON struct {
	DryRun bool           `json:"dry_run"`
	By     *string        `json:"by"` // null for a dry run, as why
	Why    *string        `json:"why"`
	Drops  []redrivenJSON `json:"drops"`
	Counts map[string]int `json:"counts"` // by outcome; "refused" for those that were not driven
	More   bool           `json:"more"`   // the flags choose more than --limit
}

// redrivenJSON is one drop of a redrive. What is not known is null.
type redrivenJSON struct {
	ID             uuid.UUID      `json:"id"`
	Reason         *drops.Reason  `json:"reason"`
	Provider       *string        `json:"provider"`
	Outcome        *drops.Outcome `json:"outcome"` // null when it was not driven
	Detail         string         `json:"detail"`
	JobID          *uuid.UUID     `json:"job_id"` // where it belongs now
	OrganizationID *uuid.UUID     `json:"organization_id"`
	DeliveryID     *uuid.UUID     `json:"delivery_id"` // in the inbox
}

func (s *redriveStep) out() redrivenJSON {
	out := redrivenJSON{
		ID: s.kept.ID, Reason: orNull(s.kept.Reason), Provider: orNull(s.kept.Provider),
		Outcome: orNull(s.outcome), Detail: s.detail, DeliveryID: orNull(s.delivery),
	}
	if s.refusal != "" {
		out.Outcome, out.Detail = nil, s.refusal
	} else if len(s.parts) == 1 {
		out.JobID, out.OrganizationID = orNull(s.parts[0].item.Job), orNull(s.parts[0].item.Organization)
	}
	return out
}

// counts tells how many drops ended how. One that is left undone, because the command was cut short, is not
// among them.
func (p *redrivePlan) counts() map[string]int {
	counts := make(map[string]int)
	for _, s := range p.steps {
		switch {
		case s.refusal != "":
			counts["refused"]++
		case s.outcome != "":
			counts[string(s.outcome)]++
		}
	}
	return counts
}

func (f *redriveFlags) print(cmd *cobra.Command, plan *redrivePlan) error {
	if f.asJSON {
		out := redriveJSON{DryRun: f.dryRun, Drops: []redrivenJSON{}, Counts: plan.counts(), More: plan.more}
		if !f.dryRun {
			out.By, out.Why = &f.by, &f.why
		}
		for _, s := range plan.steps {
			out.Drops = append(out.Drops, s.out())
		}
		return printJSON(cmd, out)
	}
	if len(plan.steps) > 0 {
		w := newTable(cmd.OutOrStdout())
		w.row("RECEIVED", "PROVIDER", "REASON", "DROP", "OUTCOME", "DETAIL")
		for _, s := range plan.steps {
			received, outcome, detail := "", string(s.outcome), s.detail
			if !s.kept.ReceivedAt.IsZero() {
				received = s.kept.ReceivedAt.UTC().Format(time.RFC3339)
			}
			if s.refusal != "" {
				outcome, detail = "refused", s.refusal
			}
			w.row(orDash(received), orDash(s.kept.Provider), orDash(string(s.kept.Reason)), s.kept.ID, orDash(outcome), detail)
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(cmd.ErrOrStderr(), plan.summary(f.dryRun))
	if plan.more {
		fmt.Fprintf(cmd.ErrOrStderr(), "there are more than these; raise --limit (%d), or give the command again afterwards\n", f.limit)
	}
	return nil
}

// summary is the last line: "3 drops: 2 accepted, 1 duplicate".
func (p *redrivePlan) summary(dryRun bool) string {
	if len(p.steps) == 0 {
		return "no drops"
	}
	counts := p.counts()
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	}) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	text := fmt.Sprintf("%d drops: %s", len(p.steps), strings.Join(parts, ", "))
	if dryRun {
		text = "nothing was changed; as things stand, of " + text
	}
	return text
}

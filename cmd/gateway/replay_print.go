package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/replay"
)

// showProgress shows the progress of a replay at a terminal, until stop is called.
func showProgress(w io.Writer, r *replay.Replay) (stop func()) {
	w = raw(w)
	if _, total := r.Progress(); !isTerminal(w) || total < 2 {
		return func() {}
	}
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				sent, total := r.Progress()
				fmt.Fprintf(w, "\rsent %d of %d", sent, total)
			case <-done:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}

// replayJSON is what replay --json prints.
type replayJSON struct {
	Target string `json:"target"`
	Held   bool   `json:"held"`
	Sent   int    `json:"sent"`
	// OutcomesChecked is false without a database.
	OutcomesChecked bool       `json:"outcomes_checked"`
	Seed            uint64     `json:"seed,omitempty"`
	Captures        []caseJSON `json:"captures"`
}

// caseJSON is one capture, or one step of a scenario.
type caseJSON struct {
	Name     string         `json:"name"`
	Provider string         `json:"provider"`
	Held     bool           `json:"held"`
	Sent     int            `json:"sent"`
	Statuses map[int]int    `json:"statuses"`
	Errors   int            `json:"errors"`
	Outcomes map[string]int `json:"outcomes"` // null: not known
	Expected map[string]int `json:"expected"`
	MedianMS float64        `json:"median_ms"`
	MaxMS    float64        `json:"max_ms"`
	Problems []string       `json:"problems"`
}

func (f *replayFlags) print(cmd *cobra.Command, base string, cases []*replay.Case, checked bool) error {
	if f.asJSON {
		out := replayJSON{Target: base, Held: true, OutcomesChecked: checked, Seed: f.seed}
		for _, c := range cases {
			ok := len(c.Problems) == 0
			out.Held = out.Held && ok
			out.Sent += c.Sent()
			median, longest := c.Durations()
			out.Captures = append(out.Captures, caseJSON{
				Name: c.Name, Provider: c.Capture.Provider, Held: ok, Sent: c.Sent(), Statuses: c.Statuses, Errors: c.Failed,
				Outcomes: c.Outcomes, Expected: c.Expected(), MedianMS: milliseconds(median), MaxMS: milliseconds(longest),
				Problems: append([]string{}, c.Problems...),
			})
		}
		return printJSON(cmd, out)
	}
	w := newTable(cmd.OutOrStdout())
	w.row("CAPTURE", "SENT", "ANSWERED", "BECAME", "MEDIAN", "MAX", "AS EXPECTED")
	for _, c := range cases {
		median, longest := c.Durations()
		became, verdict := "-", "yes"
		if c.Outcomes != nil {
			became = c.Outcomes.String()
		}
		if len(c.Problems) > 0 {
			verdict = "NO: " + strings.Join(c.Problems, "; ")
		}
		w.row(c.Name, c.Sent(), statuses(c), became,
			fmt.Sprintf("%.1f ms", milliseconds(median)), fmt.Sprintf("%.1f ms", milliseconds(longest)), verdict)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if f.shuffle {
		fmt.Fprintf(cmd.ErrOrStderr(), "shuffled with --seed %d\n", f.seed)
	}
	if !checked {
		fmt.Fprintln(cmd.ErrOrStderr(), "only answers were checked; outcomes were not (no database)")
	}
	return nil
}

// statuses lists the statuses of the answers, like 200 or 200×19 503×1.
func statuses(c *replay.Case) string {
	var texts []string
	for status, n := range c.Statuses {
		text := fmt.Sprint(status)
		if n > 1 || len(c.Statuses) > 1 {
			text += fmt.Sprintf("×%d", n)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return orDash(strings.Join(texts, " "))
}

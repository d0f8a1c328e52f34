package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// progress tells people on a terminal how far it is, until stop is called.
func (r *replaying) progress(w io.Writer) (stop func()) {
	w = raw(w)
	if !isTerminal(w) || r.total < 2 {
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
				fmt.Fprintf(w, "\rsent %d of %d", r.sent.Load(), r.total)
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
	Sent   int64  `json:"sent"`
	// OutcomesChecked is false when no database could be asked what became of the deliveries.
	OutcomesChecked bool      `json:"outcomes_checked"`
	Seed            uint64    `json:"seed,omitempty"`
	Captures        []actJSON `json:"captures"`
}

// actJSON is one capture, or one step of a scenario.
type actJSON struct {
	Name     string         `json:"name"`
	Provider string         `json:"provider"`
	Held     bool           `json:"held"`
	Sent     int            `json:"sent"`
	Statuses map[int]int    `json:"statuses"`
	Errors   int            `json:"errors"`
	Outcomes map[string]int `json:"outcomes"` // null: not to be known
	Expected map[string]int `json:"expected"`
	MedianMS float64        `json:"median_ms"`
	MaxMS    float64        `json:"max_ms"`
	Problems []string       `json:"problems"`
}

func (r *replaying) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		out := replayJSON{Target: r.base, Held: true, Sent: r.sent.Load(), OutcomesChecked: r.from.knows(), Seed: r.seed}
		for _, a := range r.acts {
			out.Held = out.Held && a.held()
			median, most := a.durations()
			out.Captures = append(out.Captures, actJSON{
				Name: a.name, Provider: a.capture.Provider, Held: a.held(), Sent: len(a.took) + a.errors, Statuses: a.statuses, Errors: a.errors,
				Outcomes: a.got, Expected: a.expected(), MedianMS: milliseconds(median), MaxMS: milliseconds(most),
				Problems: append([]string{}, a.problems...),
			})
		}
		return printJSON(cmd, out)
	}
	w := newTable(cmd.OutOrStdout())
	w.row("CAPTURE", "SENT", "ANSWERED", "BECAME", "MEDIAN", "MAX", "AS EXPECTED")
	for _, a := range r.acts {
		median, most := a.durations()
		became := "-"
		if a.got != nil {
			became = a.got.String()
		}
		verdict := "yes"
		if !a.held() {
			verdict = "NO: " + strings.Join(a.problems, "; ")
		}
		w.row(a.name, len(a.took)+a.errors, a.answered(), became,
			fmt.Sprintf("%.1f ms", milliseconds(median)), fmt.Sprintf("%.1f ms", milliseconds(most)), verdict)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if r.flags.shuffle {
		fmt.Fprintf(cmd.ErrOrStderr(), "shuffled with --seed %d\n", r.seed)
	}
	if !r.from.knows() {
		fmt.Fprintln(cmd.ErrOrStderr(), "only the answers are checked: without a database it is not to be known what became of the deliveries")
	}
	return nil
}

// answered lists the statuses, like 200 or 200×19 503×1.
func (a *act) answered() string {
	var texts []string
	for status, n := range a.statuses {
		text := fmt.Sprint(status)
		if n > 1 || len(a.statuses) > 1 {
			text += fmt.Sprintf("×%d", n)
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return orDash(strings.Join(texts, " "))
}

// durations are the median and the longest of the times to an answer.
func (a *act) durations() (median, most time.Duration) {
	if len(a.took) == 0 {
		return 0, 0
	}
	sorted := slices.Clone(a.took)
	slices.Sort(sorted)
	return sorted[len(sorted)/2], sorted[len(sorted)-1]
}

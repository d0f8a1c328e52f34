package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	benchreport "webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

// The rows that the others are compared with.
const (
	insertOne  = "bare INSERT by pgbench, -c 1"
	insertMany = "bare INSERT by pgbench, -c 16"
)

// report holds the results of a run.
type report struct {
	Facts  world.Facts          `json:"facts"`
	After  string               `json:"load_after"` // the machine's load average
	Rounds int                  `json:"rounds"`
	Each   time.Duration        `json:"each"`
	Order  []string             `json:"order"` // of the rows
	Keys   map[string][]float64 `json:"keys"`  // a second, by row, in the order of the rounds
	Sweep  sweepReport          `json:"sweep"`
}

func (r *report) add(name string, perSecond float64) {
	if r.Keys == nil {
		r.Keys = make(map[string][]float64)
	}
	if _, ok := r.Keys[name]; !ok {
		r.Order = append(r.Order, name)
	}
	r.Keys[name] = append(r.Keys[name], perSecond)
}

// markdown returns the table for people.
func (r *report) markdown() string {
	f := r.Facts
	var b strings.Builder
	shared := "The workers and PostgreSQL share the cores."
	if r.After != "" {
		shared = "After: " + r.After + ". " + shared
	}
	var load float64
	if _, err := fmt.Sscan(f.Load, &load); err == nil && load > float64(f.Cores)/2 {
		shared += " The machine was busy\nwith other work: the figures are too low, and the ratios rough."
	}
	b.WriteString("# Claims\n\n" + f.Markdown(shared))
	fmt.Fprintf(&b, "\nEvery row is measured %d times for %v, in turn, forwards and backwards. Before each measurement the table is emptied,\n"+
		"or filled with the known keys, and a checkpoint is written. Figures are keys a second: the median, with the smallest\n"+
		"and the largest value in parentheses. A ratio is the median of the rounds' ratios. Every answer was checked. A duplicate\n"+
		"belongs to a completed key, and writes nothing. An Effects is a transaction in one round trip: the claims, a row for\n"+
		"each, the completions. Fingerprints are computed beforehand.\n\n", r.Rounds, r.Each)
	b.WriteString("| row | keys a second | to INSERT -c 1 | to INSERT -c 16 |\n| --- | --- | --- | --- |\n")
	for _, name := range r.Order {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, benchreport.Spread(r.Keys[name]), r.ratio(name, insertOne), r.ratio(name, insertMany))
	}
	s := r.Sweep
	fmt.Fprintf(&b, "\nThe sweep runs every second for %v, while %d keys a second pass their retention and %d keys a second are claimed in\n"+
		"batches of %d: %d claims, %d keys deleted in %d runs, the longest %v. At most %d keys waited for a run; at most %d\n"+
		"were left after one, the oldest %v past its retention. Runs that were cut short: %d.\n",
		s.For, expiries, ingest, ingestSize, s.Claimed, s.Deleted, s.Runs, s.Longest.Round(time.Millisecond),
		most(s.Behind), most(s.After), s.OldestAfter.Round(time.Millisecond), s.Full)
	return b.String()
}

func most(of []int) int {
	if len(of) == 0 {
		return 0
	}
	return slices.Max(of)
}

// ratio compares two rows round by round.
func (r *report) ratio(name, to string) string {
	var all []float64
	for i, v := range r.Keys[name] {
		if other := r.Keys[to]; i < len(other) && other[i] > 0 {
			all = append(all, v/other[i])
		}
	}
	if len(all) == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", benchreport.Median(all))
}

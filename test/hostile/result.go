package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// result is the effect of an attack on the honest calls and the gateway.
type result struct {
	attack   string
	honest   *honest
	hostile  *calls
	resident int // largest, in MiB
}

const header = "| attack | honest calls of 1 kB: sent, not 200, p50, p99 (ms) | of 300 kB: sent, not 200, p50, p99 (ms) | most memory (MiB) | what the attacker was answered |\n" +
	"| --- | --- | --- | --- | --- |"

func (r result) String() string {
	return fmt.Sprintf("| %s | %s | %s | %d | %s |", r.attack, &r.honest.small, &r.honest.large, r.resident, r.hostile.answers())
}

// String returns a cell of the table.
func (c *calls) String() string {
	if len(c.took) == 0 {
		return "–"
	}
	ms := func(q float64) string { return fmt.Sprintf("%.1f", float64(c.at(q))/float64(time.Millisecond)) }
	failed := fmt.Sprint(c.failed())
	if c.failed() > 0 {
		failed += " (" + list(c.other) + ")"
	}
	return fmt.Sprintf("%d, %s, %s, %s", len(c.took), failed, ms(0.5), ms(0.99))
}

// answers counts all answers.
func (c *calls) answers() string {
	if len(c.took) == 0 {
		return "–"
	}
	all := maps.Clone(c.other)
	if all == nil {
		all = make(map[string]int)
	}
	if ok := len(c.took) - c.failed(); ok > 0 {
		all["200"] = ok
	}
	return list(all)
}

func list(counts map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s: %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}

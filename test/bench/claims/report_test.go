package main

import (
	"strings"
	"testing"
)

func TestRounds(t *testing.T) {
	t.Parallel()
	var r report
	for _, v := range []float64{100, 200, 400} {
		r.add(insertOne, v)
	}
	for _, v := range []float64{200, 200, 200} { // twice, once and half as fast
		r.add("row", v)
	}
	if got := r.ratio("row", insertOne); got != "1.00" {
		t.Errorf("the ratio is %s, want the middle one of the rounds", got)
	}
	if got := r.ratio("row", insertMany); got != "–" {
		t.Errorf("the ratio to a row that was not measured is %s", got)
	}
	table := r.markdown()
	for _, want := range []string{"| " + insertOne + " | 200 (100–400) | 1.00 | – |\n| row | 200 (200–200) | 1.00 | – |\n", "the longest 0s"} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is missing in\n%s", want, table)
		}
	}
}

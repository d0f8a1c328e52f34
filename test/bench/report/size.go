package report

import (
	"fmt"
	"strings"
)

// Size is how large the keys have become.
type Size struct {
	Million int   `json:"million"`
	Rows    int64 `json:"rows"`
	Table   int64 `json:"table"` // bytes
	Indexes int64 `json:"indexes"`
}

// SizeNames are what the two measurements at a number of millions are noted under.
func SizeNames(million int) (empty, filled string) {
	return fmt.Sprintf("beside %d million", million), fmt.Sprintf("with %d million", million)
}

// SizeMarkdown is the table of a run with many keys.
func (r *Report) SizeMarkdown() string {
	var b strings.Builder
	b.WriteString("# With many keys in the table\n\n")
	r.conditions(&b)
	fmt.Fprintf(&b, "Accepted deliveries a second on a database with so many keys, beside an empty one on the same server: %d rounds of %v,\n"+
		"in turn. The target is 0.8 with 20 million.\n\n", r.Rounds, r.Each)
	b.WriteString("| keys | deliveries/s | beside an empty table | ratio | table | indexes | bytes a key |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, s := range r.Sizes {
		empty, filled := SizeNames(s.Million)
		value := func(s Sample) float64 { return s.Value }
		fmt.Fprintf(&b, "| %d million | %s | %s | **%s** | %.2f GB | %.2f GB | %.0f |\n", s.Million, spread(r.values(filled, value)),
			spread(r.values(empty, value)), ratio(r.ratios(filled, empty)), float64(s.Table)/1e9, float64(s.Indexes)/1e9,
			float64(s.Table+s.Indexes)/float64(max(s.Rows, 1)))
	}
	return b.String()
}

package report

import (
	"fmt"
	"strings"
)

// Size is the size of the table of keys.
type Size struct {
	Million int   `json:"million"`
	Rows    int64 `json:"rows"`
	Table   int64 `json:"table"` // bytes
	Indexes int64 `json:"indexes"`
}

// SizeNames returns the names of the rows at a number of millions: with an empty table, with the full one, and with
// the full one and wal_compression=lz4.
func SizeNames(million int) (empty, filled, compressed string) {
	filled = fmt.Sprintf("with %d million", million)
	return fmt.Sprintf("beside %d million", million), filled, filled + ", log compressed"
}

// SizeMarkdown returns the table of a run with many keys.
func (r *Report) SizeMarkdown() string {
	var b strings.Builder
	b.WriteString("# With many keys in the table\n\n")
	r.conditions(&b)
	fmt.Fprintf(&b, "Accepted deliveries a second on a database with so many keys, compared with an empty one on the same server: %d\n"+
		"rounds of %v, in turn. The target is a ratio of 0.8 with 20 million keys. Each measurement begins with a checkpoint,\n"+
		"which is the worst case: keys are spread over the whole index, and the first change of a page after a checkpoint\n"+
		"writes the whole page to the log. wal_compression=lz4 makes those pages smaller.\n\n", r.Rounds, r.Each)
	b.WriteString("The rounds add more keys; the sizes include them. The ratio with wal_compression=lz4 is to the same empty table\n" +
		"without it.\n\n")
	b.WriteString("| keys | deliveries/s | beside an empty table | ratio | with wal_compression=lz4 | log a delivery: off, lz4 | table | indexes | bytes a key |\n" +
		"| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, s := range r.Sizes {
		empty, filled, compressed := SizeNames(s.Million)
		value := func(s Sample) float64 { return s.Value }
		log := func(s Sample) float64 { return float64(s.WAL) / float64(max(s.Deliveries, 1)) }
		fmt.Fprintf(&b, "| %d million, %.1f in the end | %s | %s | **%s** | %s | %.0f, %.0f | %.2f GB | %.2f GB | %.0f |\n", s.Million, float64(s.Rows)/1e6, Spread(r.values(filled, value)),
			Spread(r.values(empty, value)), ratio(r.ratios(filled, empty)), ratio(r.ratios(compressed, empty)),
			Median(r.values(filled, log)), Median(r.values(compressed, log)), float64(s.Table)/1e9, float64(s.Indexes)/1e9,
			float64(s.Table+s.Indexes)/float64(max(s.Rows, 1)))
	}
	return b.String()
}

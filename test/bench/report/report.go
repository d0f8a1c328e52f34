// Package report turns samples into a table for people and JSON for programs.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/world"
)

// Report holds the results of one run.
type Report struct {
	Facts            world.Facts         `json:"facts"`
	Rounds           int                 `json:"rounds"`
	Each             time.Duration       `json:"each"`
	Clients          int                 `json:"pgbench_clients"`
	PipelinedClients int                 `json:"pgbench_pipelined_clients"`
	IdleMemory       int64               `json:"idle_memory"`
	LoadedMemory     int64               `json:"loaded_memory"` // most under the load of throughput
	MostMemory       int64               `json:"most_memory"`   // of the whole run
	Sizes            []Size              `json:"sizes,omitempty"`
	Samples          map[string][]Sample `json:"samples"`
}

// Sample is one measurement.
type Sample struct {
	Round       int           `json:"round"`
	Value       float64       `json:"value"`        // a second
	Deliveries  int           `json:"deliveries"`   // of the whole run, warming up included, as are those below
	ServerCPU   time.Duration `json:"server_cpu"`   // of what is measured
	PostgresCPU time.Duration `json:"postgres_cpu"` // of the server's processes
	LoadCPU     time.Duration `json:"load_cpu"`     // of the sender
	WAL         int64         `json:"wal"`          // bytes
	Inbox       int64         `json:"inbox"`        // bytes on disk
	Keys        int64         `json:"keys"`
	Result      *load.Result  `json:"result,omitempty"`
}

// String is a line of progress.
func (s Sample) String() string {
	text := fmt.Sprintf("%10.0f/s", s.Value)
	if s.Deliveries > 0 {
		text += fmt.Sprintf("  CPU µs each: server %3.0f, PostgreSQL %3.0f, load %3.0f  WAL %5.0f B each",
			s.each(s.ServerCPU), s.each(s.PostgresCPU), s.each(s.LoadCPU), float64(s.WAL)/float64(s.Deliveries))
	}
	if s.Result != nil {
		text += fmt.Sprintf("  p50 %v p99 %v max %v", s.Result.P50, s.Result.P99, s.Result.Max)
		if len(s.Result.Refused) > 0 {
			text += fmt.Sprintf("  refused %v", s.Result.Refused)
		}
	}
	return text
}

// each returns the CPU time of one delivery, in microseconds.
func (s Sample) each(cpu time.Duration) float64 {
	if s.Deliveries == 0 {
		return 0
	}
	return float64(cpu.Microseconds()) / float64(s.Deliveries)
}

// cores returns how many cores the sender, the measured server and PostgreSQL kept busy together. It is 0 for a row
// that this program did not measure itself.
func (s Sample) cores() float64 {
	if s.Result == nil {
		return 0
	}
	all := (s.ServerCPU + s.PostgresCPU + s.LoadCPU).Seconds()
	return all / float64(max(s.Result.AllOK, 1)) * s.Result.PerSecond()
}

// Add records a measurement.
func (r *Report) Add(name string, s Sample) {
	if r.Samples == nil {
		r.Samples = make(map[string][]Sample)
	}
	r.Samples[name] = append(r.Samples[name], s)
}

// Median returns the median of the values under a name; 0 if there are none.
func (r *Report) Median(name string) float64 {
	return Median(r.values(name, func(s Sample) float64 { return s.Value }))
}

func (r *Report) values(name string, of func(Sample) float64) []float64 {
	var list []float64
	for _, s := range r.Samples[name] {
		list = append(list, of(s))
	}
	return list
}

// ratios returns the ratios of two rows, round by round.
func (r *Report) ratios(name, beside string) []float64 {
	var list []float64
	for _, a := range r.Samples[name] {
		for _, b := range r.Samples[beside] {
			if a.Round == b.Round && b.Value > 0 {
				list = append(list, a.Value/b.Value)
			}
		}
	}
	return list
}

// InTurn calls measure for n things round after round, forwards and backwards by turns, so that changes of the
// machine affect all alike.
func InTurn(rounds, n int, measure func(round, i int) error) error {
	for round := range rounds {
		for i := range n {
			if round%2 == 1 {
				i = n - 1 - i
			}
			if err := measure(round, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// Keep writes the table and the raw figures to a folder, and prints the table. Figures that mean nothing go to files
// that git ignores.
func Keep(out, name string, meaningful bool, figures any, table string) error {
	end := ""
	if !meaningful {
		end = ".tmp"
	}
	raw, err := json.MarshalIndent(figures, "", " ")
	if err == nil {
		err = os.MkdirAll(out, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(out, name+".json"+end), append(raw, '\n'), 0o644)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(out, name+".md"+end), []byte(table), 0o644)
	}
	if err != nil {
		return fmt.Errorf("keep the figures: %w", err)
	}
	_, err = fmt.Print(table)
	return err
}

// Median returns the median of a list; 0 for an empty one.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

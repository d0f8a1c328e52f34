package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Markdown returns the table for people.
func (r *Report) Markdown() string {
	var b strings.Builder
	b.WriteString("# Benchmark\n\n")
	r.conditions(&b)
	fmt.Fprintf(&b, "The rows up to the duplicates are measured %d times, for %v each; the others at most three times, those at a steady\n"+
		"rate for twice as long. All are measured in turn, forwards and backwards. Before each measurement the tables are\n"+
		"emptied and a checkpoint is written. Figures are medians, with the smallest and the largest value in parentheses. A\n"+
		"ratio is the median of the rounds' ratios. After each run of a server that stores, its rows and its completed keys\n"+
		"were as many as its 200s.\n\n", r.Rounds, r.Each)
	b.WriteString("| figure | measured | beside | ratio | target |\n| --- | --- | --- | --- | --- |\n")
	for _, row := range r.table() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row[0], row[1], row[2], row[3], row[4])
	}
	b.WriteString("\nThe cost of one delivery: microseconds of processor time, bytes of PostgreSQL's log, and bytes of the inbox and the\n" +
		"keys on disk with their indexes. Busy is how many cores the three kept busy together: where it is close to the number\n" +
		"of cores, the processors are the limit.\n\n" +
		"| row | a second | server | PostgreSQL | sender | busy | log | inbox | keys |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(r.Samples)) {
		each := func(of func(Sample) float64) string {
			if v := Median(r.values(name, of)); v > 0 {
				return fmt.Sprintf("%.0f", v)
			}
			return ""
		}
		bytes := func(of func(Sample) int64) string {
			return each(func(s Sample) float64 { return float64(of(s)) / float64(max(s.Deliveries, 1)) })
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, Spread(r.values(name, func(s Sample) float64 { return s.Value })),
			each(func(s Sample) float64 { return s.each(s.ServerCPU) }), each(func(s Sample) float64 { return s.each(s.PostgresCPU) }),
			each(func(s Sample) float64 { return s.each(s.LoadCPU) }), r.busy(name),
			bytes(func(s Sample) int64 { return s.WAL }), bytes(func(s Sample) int64 { return s.Inbox }), bytes(func(s Sample) int64 { return s.Keys }))
	}
	b.WriteString(legend)
	for _, name := range r.ranOut() {
		fmt.Fprintf(&b, "- `%s` ran out of prepared requests before its time was over; its rate is that of the time until then.\n", name)
	}
	return b.String()
}

const legend = `
- ` + "`fresh`" + `: distinct deliveries. ` + "`one gateway`" + `: the same once more, to compare ` + "`two gateways`" + ` on one database with.
- ` + "`pgbench`" + `: PostgreSQL's own load program inserts the same two rows, in one transaction each; ` + "`pipelined`" + `: in one round trip.
- ` + "`straightforward`" + `: a handler as a first version would be written: one transaction a request, a pool of pgbench's best size.
- ` + "`http alone`" + ` (H): the gateway, answering without storing. ` + "`settling alone`" + ` (D): its storing, without HTTP.
- ` + "`duplicates`" + `: up to 20,000 distinct deliveries, then only repeats of them. Log, inbox and keys are those of the distinct ones.
- ` + "`mail`" + `: the rate is in bytes of bodies a second.
`

// ranOut lists the rows that ran out of prepared requests.
func (r *Report) ranOut() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.Samples)) {
		if slices.ContainsFunc(r.Samples[name], func(s Sample) bool { return s.Result != nil && s.Result.RanOut }) {
			names = append(names, name)
		}
	}
	return names
}

// busy returns the number of busy cores; empty for a row that this program did not measure itself.
func (r *Report) busy(name string) string {
	cores := Median(r.values(name, Sample.cores))
	if cores == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", cores)
}

func (r *Report) conditions(b *strings.Builder) {
	b.WriteString(r.Facts.Markdown("The sender, the gateway and PostgreSQL share the cores."))
	if len(r.Facts.Env) > 0 {
		fmt.Fprintf(b, "Gateway: %s.\n", strings.Join(r.Facts.Env, " "))
	}
	b.WriteString("\n")
}

// table returns the rows that have a target, and those compared with them.
func (r *Report) table() [][5]string {
	var rows [][5]string
	compare := func(figure, name, beside, target string) {
		if len(r.Samples[name]) == 0 || len(r.Samples[beside]) == 0 {
			return
		}
		value := func(s Sample) float64 { return s.Value }
		rows = append(rows, [5]string{
			figure, Spread(r.values(name, value)), Spread(r.values(beside, value)), "**" + ratio(r.ratios(name, beside)) + "**", target,
		})
	}
	compare(fmt.Sprintf("accepted deliveries/s, 256 connections, beside pgbench with its best %d clients", r.Clients), Fresh, Pgbench, "≥ 2.5, aim 3")
	compare(fmt.Sprintf("the same beside pgbench, pipelined, with its best %d clients", r.PipelinedClients), Fresh, Pipelined, "")
	compare("the same beside a straightforward handler", Fresh, Straightforward, "≥ 3")
	if shares := r.shares(); len(shares) > 0 {
		rows = append(rows, [5]string{
			"share of the ceiling 1/(1/H + 1/D)", Spread(r.values(Fresh, func(s Sample) float64 { return s.Value })),
			fmt.Sprintf("H %.0f, D %.0f", r.Median(HTTPAlone), r.Median(SettlingAlone)), "**" + ratio(shares) + "**", "≥ 0.85",
		})
	}
	rows = append(rows, r.latencyRow("ACK at a steady 1,000/s, p50 / p99", Steady, "p99 ≤ 15 ms")...)
	rows = append(rows, r.latencyRow("ACK at half of the maximum, p50 / p99", Half, "p99 ≤ 40 ms")...)
	compare("duplicates only, deliveries/s, beside fresh ones", Duplicates, Fresh, "≥ 1.3")
	if of := r.Samples[Mail]; len(of) > 0 && len(r.Samples[MailByCopy]) > 0 {
		mega := func(s Sample) float64 { return s.Value / 1e6 }
		rows = append(rows, [5]string{
			"20 KB mail, MB/s of bodies, beside COPY", spreadOf(r.values(Mail, mega), "%.1f"), spreadOf(r.values(MailByCopy, mega), "%.1f"),
			"**" + ratio(r.ratios(Mail, MailByCopy)) + "**", "≥ 0.3",
		})
	}
	if r.LoadedMemory > 0 {
		rows = append(rows, [5]string{
			"resident memory, idle / most under load / most of the whole run, MiB",
			fmt.Sprintf("%.0f / %.0f / %.0f", float64(r.IdleMemory)/(1<<20), float64(r.LoadedMemory)/(1<<20), float64(r.MostMemory)/(1<<20)),
			"", "", "≤ 40 / ≤ 150",
		})
	}
	compare("two gateways on one database, beside one", TwoGateways, OneGateway, "no loss")
	for _, name := range []string{Large, Gzip, Deltas} {
		if len(r.Samples[name]) > 0 {
			rows = append(rows, [5]string{name + ", deliveries/s", Spread(r.values(name, func(s Sample) float64 { return s.Value })), "", "", ""})
		}
	}
	if of := r.Samples[Overload]; len(of) > 0 {
		refused := r.values(Overload, func(s Sample) float64 {
			return float64(s.Result.Refused[503]) / float64(max(s.Result.AllSent, 1)) * 100
		})
		rows = append(rows, [5]string{
			"overload: 2,000 connections, room for 1,000 deliveries; kept/s, beside right after it",
			Spread(r.values(Overload, func(s Sample) float64 { return s.Value })) + fmt.Sprintf(", %.0f %% answered 503", Median(refused)),
			Spread(r.values(Afterwards, func(s Sample) float64 { return s.Value })), "", "",
		})
	}
	return rows
}

// shares returns the shares of the ceiling, round by round.
func (r *Report) shares() []float64 {
	var list []float64
	for _, a := range r.Samples[Fresh] {
		for _, h := range r.Samples[HTTPAlone] {
			for _, d := range r.Samples[SettlingAlone] {
				if a.Round == h.Round && a.Round == d.Round && h.Value > 0 && d.Value > 0 {
					list = append(list, a.Value*(1/h.Value+1/d.Value))
				}
			}
		}
	}
	return list
}

func (r *Report) latencyRow(figure, name, target string) [][5]string {
	of := r.Samples[name]
	if len(of) == 0 {
		return nil
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	p50 := r.values(name, func(s Sample) float64 { return ms(s.Result.P50) })
	p99 := r.values(name, func(s Sample) float64 { return ms(s.Result.P99) })
	return [][5]string{{figure, spreadOf(p50, "%.1f") + " / **" + spreadOf(p99, "%.1f") + "** ms", fmt.Sprintf("%.0f/s", r.Median(name)), "", target}}
}

// Spread returns the median of a list, with the smallest and the largest value.
func Spread(list []float64) string { return spreadOf(list, "%.0f") }

func spreadOf(list []float64, form string) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf(form+" ("+form+"–"+form+")", Median(list), slices.Min(list), slices.Max(list))
}

func ratio(list []float64) string {
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", Median(list), slices.Min(list), slices.Max(list))
}

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"webhook-gateway/test/bench/ceiling"
	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

// Values of -only besides the groups.
const (
	onlySettling = "settle" // the row of that name alone, for trials
	onlyProfile  = "none"
)

// group is a set of rows that are measured in turn.
type group struct {
	name    string
	measure func(context.Context) error
}

func (b *bench) groups() []group {
	return []group{
		{"throughput", b.throughput},
		{"latency", b.latency},
		{"mail", b.mail},
		{"two", b.twoGateways},
		{"shapes", b.shapes},
		{"overload", b.overload},
	}
}

// checkOnly refuses an unknown group.
func (b *bench) checkOnly() error {
	if b.only == "" || b.only == onlySettling || b.only == onlyProfile {
		return nil
	}
	var known []string
	for _, g := range b.groups() {
		known = append(known, g.name)
	}
	for name := range strings.SplitSeq(b.only, ",") {
		if !slices.Contains(known, name) {
			return fmt.Errorf("-only: unknown group %q (known: %s)", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// rows measures everything in the table.
func (b *bench) rows(ctx context.Context) error {
	if err := b.checkOnly(); err != nil {
		return err
	}
	if err := b.idle(ctx); err != nil {
		return err
	}
	if b.beside != "" {
		return b.compare(ctx)
	}
	if b.only == onlySettling {
		return b.inTurn(ctx, b.rounds, segment{report.SettlingAlone, b.settlingAlone})
	}
	for _, g := range b.groups() {
		if b.only != "" && !slices.Contains(strings.Split(b.only, ","), g.name) {
			continue
		}
		if err := g.measure(ctx); err != nil {
			return err
		}
	}
	b.report.MostMemory = b.peak
	if b.profile != "" {
		return b.profileTo(ctx)
	}
	return nil
}

// compare measures two gateways, to see the effect of a change.
func (b *bench) compare(ctx context.Context) error {
	other, err := b.world.Beside(ctx, b.beside, b.besideEnv, b.db)
	if err != nil {
		return err
	}
	err = b.inTurn(ctx, b.rounds, segment{report.Fresh, b.usual(b.gateway)}, segment{report.Beside, b.usual(other)})
	fmt.Fprintf(os.Stderr, "resident after: %d and %d MiB\n", b.gateway.Resident()>>20, other.Resident()>>20)
	return err
}

// idle measures the memory of a gateway that has not received anything yet.
func (b *bench) idle(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(2 * time.Second):
	}
	b.report.IdleMemory = b.gateway.Resident()
	return nil
}

func (b *bench) throughput(ctx context.Context) error {
	var err error
	if b.report.Clients, err = b.bestClients(ctx, false); err != nil {
		return err
	}
	if b.report.PipelinedClients, err = b.bestClients(ctx, true); err != nil {
		return err
	}
	plain, err := b.world.Straightforward(ctx, b.db, b.report.Clients)
	if err != nil {
		return err
	}
	defer plain.Stop()
	immediate, err := b.world.Immediate(ctx, b.db)
	if err != nil {
		return err
	}
	defer immediate.Stop()
	err = b.inTurn(ctx, b.rounds,
		segment{report.Fresh, b.usual(b.gateway)},
		segment{report.Pgbench, b.byPgbench(b.report.Clients, false)},
		segment{report.Straightforward, b.usual(plain)},
		segment{report.HTTPAlone, func(ctx context.Context, s *report.Sample) error {
			spec := b.traffic(load.Usual, immediate)
			spec.Requests *= 2 // it answers much faster
			return b.watch(ctx, "load", spec, immediate, s)
		}},
		segment{report.SettlingAlone, b.settlingAlone},
		segment{report.Duplicates, b.duplicates},
		segment{report.Pipelined, b.byPgbench(b.report.PipelinedClients, true)},
	)
	b.report.LoadedMemory = b.peak
	return err
}

// usual sends a server the usual load, as fast as it answers.
func (b *bench) usual(to *world.Process) func(context.Context, *report.Sample) error {
	return func(ctx context.Context, s *report.Sample) error {
		return b.send(ctx, b.traffic(load.Usual, to), to, s)
	}
}

// bestClients finds the number of clients with which pgbench is fastest.
func (b *bench) bestClients(ctx context.Context, pipelined bool) (best int, err error) {
	var most float64
	tried := []int{4, 8, 16, 32, 64}
	if b.short {
		tried = tried[1:2]
	}
	for _, clients := range tried {
		if err := b.db.Reset(ctx); err != nil {
			return 0, err
		}
		rate, err := b.world.Pgbench(ctx, b.db, clients, pipelined, min(b.each, 3*time.Second))
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(os.Stderr, "pgbench, pipelined %v, %d clients: %.0f/s\n", pipelined, clients, rate)
		if rate > most {
			most, best = rate, clients
		}
	}
	return best, nil
}

func (b *bench) byPgbench(clients int, pipelined bool) func(context.Context, *report.Sample) error {
	return func(ctx context.Context, s *report.Sample) error {
		wal, err := b.db.WAL(ctx)
		if err != nil {
			return err
		}
		cpu := b.world.PostgresCPU()
		if s.Value, err = b.world.Pgbench(ctx, b.db, clients, pipelined, b.each); err != nil {
			return err
		}
		after, err := b.db.WAL(ctx)
		if err != nil {
			return err
		}
		s.WAL, s.PostgresCPU = after-wal, b.world.PostgresCPU()-cpu
		s.Deliveries, _, err = b.db.Kept(ctx)
		return err
	}
}

func (b *bench) settlingAlone(ctx context.Context, s *report.Sample) error {
	spec := b.traffic(load.Usual, b.gateway)
	spec.Requests *= 2 // it settles much faster
	return b.watch(ctx, "settle", ceiling.SettleSpec{
		Spec:   ceiling.Spec{DatabaseURL: b.db.URL, SecretsKey: b.world.SecretsKey},
		Source: world.Source, Load: spec,
	}, nil, s)
}

// duplicates sends deliveries that the gateway has just kept, again and again.
func (b *bench) duplicates(ctx context.Context, s *report.Sample) error {
	spec := b.traffic(load.Usual, b.gateway)
	spec.Repeat, spec.Requests = true, min(20_000, spec.Requests)
	return b.send(ctx, spec, b.gateway, s)
}

func (b *bench) latency(ctx context.Context) error {
	at := func(rate float64) func(context.Context, *report.Sample) error {
		return func(ctx context.Context, s *report.Sample) error {
			spec := b.traffic(load.Usual, b.gateway)
			spec.Rate, spec.Measure = rate, 2*b.each
			spec.Requests = int(rate*(spec.Warm+spec.Measure).Seconds()) + 1
			return b.send(ctx, spec, b.gateway, s)
		}
	}
	segments := []segment{{report.Steady, at(1000)}}
	if most := b.report.Median(report.Fresh); most > 0 {
		segments = append(segments, segment{report.Half, at(most / 2)})
	}
	return b.inTurn(ctx, min(b.rounds, 3), segments...)
}

func (b *bench) twoGateways(ctx context.Context) error {
	second, err := b.world.Gateway(ctx, "gateway-2", b.db)
	if err != nil {
		return err
	}
	defer second.Stop()
	return b.inTurn(ctx, min(b.rounds, 3),
		segment{report.OneGateway, b.usual(b.gateway)},
		segment{report.TwoGateways, func(ctx context.Context, s *report.Sample) error {
			before := second.CPU()
			err := b.send(ctx, b.traffic(load.Usual, b.gateway, second), b.gateway, s)
			s.ServerCPU += second.CPU() - before
			return err
		}},
	)
}

func (b *bench) shapes(ctx context.Context) error {
	of := func(shape load.Shape, connections, perSecond int) func(context.Context, *report.Sample) error {
		return func(ctx context.Context, s *report.Sample) error {
			spec := b.traffic(shape, b.gateway)
			spec.Connections, spec.Requests = connections, int(float64(perSecond)*(spec.Warm+spec.Measure).Seconds())
			return b.send(ctx, spec, b.gateway, s)
		}
	}
	return b.inTurn(ctx, min(b.rounds, 3),
		segment{report.Large, of(load.Large, 16, 1000)},
		segment{report.Gzip, of(load.Gzip, connections, 20_000)},
		segment{report.Deltas, of(load.Deltas, 32, 1000)},
	)
}

// overload sends from twice as many connections as the gateway has room for, each again as soon as it is refused.
// Afterwards it sends the usual load to the same gateway.
func (b *bench) overload(ctx context.Context) error {
	tight, err := b.world.Beside(ctx, b.options.gateway, append([]string{"GATEWAY_QUEUE_DELIVERIES=1000"}, b.env...), b.db)
	if err != nil {
		return err
	}
	defer tight.Stop()
	of := func(connections int) func(context.Context, *report.Sample) error {
		return func(ctx context.Context, s *report.Sample) error {
			spec := b.traffic(load.Usual, tight)
			spec.Connections, spec.Requests = connections, 2*spec.Requests
			return b.send(ctx, spec, tight, s)
		}
	}
	for range min(b.rounds, 3) {
		err := b.inTurn(ctx, 1, segment{report.Overload, of(2000)}, segment{report.Afterwards, of(connections)})
		if err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"webhook-gateway/test/bench/ceiling"
	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

// The names of what is measured, as the report knows them.
const (
	fresh      = "fresh"
	pgbench    = "pgbench"
	pipelined  = "pgbench pipelined"
	plain      = "straightforward"
	httpAlone  = "http alone"
	settling   = "settling alone"
	duplicates = "duplicates"
	steady     = "steady 1000/s"
	half       = "half of the maximum"
	mail       = "mail"
	copied     = "mail by COPY"
	one        = "one gateway"
	two        = "two gateways"
	large      = "1 MB"
	zipped     = "gzip"
	deltas     = "100 deltas"
	over       = "overload"
	afterwards = "right after it"
	settleOnly = "settle" // for trials
	beside     = "the other gateway"
)

// rows measures everything that the table shows.
func (b *bench) rows(ctx context.Context) error {
	if err := b.idle(ctx); err != nil {
		return err
	}
	if b.beside != "" {
		return b.trial(ctx)
	}
	if b.only == settleOnly {
		return b.inTurn(ctx, b.rounds, segment{settling, b.settlingAlone})
	}
	for _, g := range []struct {
		name    string
		measure func(context.Context) error
	}{
		{"throughput", b.throughput},
		{"latency", b.latency},
		{"mail", b.mail},
		{"two", b.twoGateways},
		{"shapes", b.shapes},
		{"overload", b.overload},
	} {
		if b.only != "" && !strings.Contains(","+b.only+",", ","+g.name+",") {
			continue
		}
		if err := g.measure(ctx); err != nil {
			return err
		}
	}
	if b.profile != "" {
		return b.profileTo(ctx)
	}
	return nil
}

// trial compares two gateways, to see what a change is worth.
func (b *bench) trial(ctx context.Context) error {
	other, err := b.world.Beside(ctx, b.beside, b.besideEnv, b.db)
	if err != nil {
		return err
	}
	of := func(p *world.Process) func(context.Context, *report.Sample) error {
		return func(ctx context.Context, s *report.Sample) error {
			return b.send(ctx, b.traffic(load.Usual, p), p, s)
		}
	}
	err = b.inTurn(ctx, b.rounds, segment{fresh, of(b.gateway)}, segment{beside, of(other)})
	fmt.Fprintf(os.Stderr, "resident after: %d and %d MiB\n", b.gateway.Resident()>>20, other.Resident()>>20)
	return err
}

// idle is the memory of a gateway that has received nothing yet.
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
	if b.clients, err = b.bestClients(ctx, false); err != nil {
		return err
	}
	if b.pipeClients, err = b.bestClients(ctx, true); err != nil {
		return err
	}
	b.report.Clients, b.report.PipelinedClients = b.clients, b.pipeClients
	if b.straight, err = b.world.Straightforward(ctx, b.db, b.clients); err != nil {
		return err
	}
	address, err := world.FreeAddress()
	if err != nil {
		return err
	}
	b.immediate, err = b.world.Immediate(ctx, ceiling.Spec{DatabaseURL: b.db.URL, SecretsKey: b.world.SecretsKey, Listen: address}, address)
	if err != nil {
		return err
	}
	err = b.inTurn(ctx, b.rounds,
		segment{fresh, func(ctx context.Context, s *report.Sample) error {
			return b.send(ctx, b.traffic(load.Usual, b.gateway), b.gateway, s)
		}},
		segment{pgbench, b.byPgbench(&b.clients, false)},
		segment{plain, func(ctx context.Context, s *report.Sample) error {
			return b.send(ctx, b.traffic(load.Usual, b.straight), b.straight, s)
		}},
		segment{httpAlone, func(ctx context.Context, s *report.Sample) error {
			spec := b.traffic(load.Usual, b.immediate)
			spec.Requests *= 2 // it answers so much faster
			return b.watch(ctx, "load", spec, b.immediate, s)
		}},
		segment{settling, b.settlingAlone},
		segment{duplicates, b.duplicates},
		segment{pipelined, b.byPgbench(&b.pipeClients, true)},
	)
	b.straight.Stop()
	b.immediate.Stop()
	b.report.LoadedMemory = b.peak
	return err
}

// bestClients looks for the number of clients that pgbench is fastest with.
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

func (b *bench) byPgbench(clients *int, pipelined bool) func(context.Context, *report.Sample) error {
	return func(ctx context.Context, s *report.Sample) error {
		wal, err := b.db.WAL(ctx)
		if err != nil {
			return err
		}
		cpu := b.world.PostgresCPU()
		if s.Value, err = b.world.Pgbench(ctx, b.db, *clients, pipelined, b.each); err != nil {
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
	return b.watch(ctx, "settle", ceiling.SettleSpec{
		Spec:   ceiling.Spec{DatabaseURL: b.db.URL, SecretsKey: b.world.SecretsKey},
		Source: world.Source, Load: b.traffic(load.Usual, b.gateway),
	}, nil, s)
}

// duplicates sends what the gateway has kept a moment ago, again and again.
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
	segments := []segment{{steady, at(1000)}}
	if most := b.report.Median(fresh); most > 0 {
		segments = append(segments, segment{half, at(most / 2)})
	}
	return b.inTurn(ctx, min(b.rounds, 3), segments...)
}

func (b *bench) twoGateways(ctx context.Context) error {
	var err error
	if b.second, err = b.world.Gateway(ctx, "gateway-2", b.db); err != nil {
		return err
	}
	defer b.second.Stop()
	return b.inTurn(ctx, min(b.rounds, 3),
		segment{one, func(ctx context.Context, s *report.Sample) error {
			return b.send(ctx, b.traffic(load.Usual, b.gateway), b.gateway, s)
		}},
		segment{two, func(ctx context.Context, s *report.Sample) error {
			before := b.second.CPU()
			err := b.send(ctx, b.traffic(load.Usual, b.gateway, b.second), b.gateway, s)
			s.ServerCPU += b.second.CPU() - before
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
		segment{large, of(load.Large, 16, 1000)},
		segment{zipped, of(load.Gzip, connections, 20_000)},
		segment{deltas, of(load.Deltas, 32, 1000)},
	)
}

// overload sends from twice as many connections at once as the gateway has room for, each again as soon as
// it is refused, and then as usual, on the same gateway.
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
		err := b.inTurn(ctx, 1, segment{over, of(2000)}, segment{afterwards, of(connections)})
		if err != nil {
			return err
		}
	}
	return nil
}

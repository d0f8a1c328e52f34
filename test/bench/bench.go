package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

// connections is the number of connections that carry the load, unless a row says otherwise.
const connections = 256

// bench is one run.
type bench struct {
	options
	world  *world.World
	db     *world.Database
	report report.Report

	gateway *world.Process
	runs    int
	peak    int64 // the largest resident memory seen under load
}

func newBench(ctx context.Context, o options) (*bench, error) {
	dir, err := filepath.Abs(o.dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, fmt.Errorf("make the benchmark's folder: %w", err)
	}
	settings := make(map[string]string)
	for _, s := range o.settings {
		name, value, _ := strings.Cut(s, "=")
		settings[name] = value
	}
	if o.profile != "" {
		settings["shared_preload_libraries"] = "pg_stat_statements"
	}
	w, err := world.New(ctx, world.Options{Dir: dir, Gateway: o.gateway, Settings: settings, Env: o.env})
	if err != nil {
		return nil, err
	}
	b := &bench{options: o, world: w, report: report.Report{Rounds: o.rounds, Each: o.each}}
	if b.db, err = w.Database(ctx, "bench"); err == nil {
		b.report.Facts, err = w.Facts(ctx, b.db)
	}
	if err == nil {
		b.gateway, err = w.Gateway(ctx, "gateway", b.db)
	}
	if err != nil {
		_ = w.Close() // the first error is the one to report
		return nil, err
	}
	return b, nil
}

// trial reports whether the run is not the whole comparison with its defaults.
func (b *bench) trial() bool {
	return b.beside != "" || b.only != "" || b.profile != "" || len(b.env)+len(b.settings) > 0
}

// write stores the results. The figures of a short run and of a trial mean nothing.
func (b *bench) write() error {
	switch {
	case b.size:
		return report.Keep(b.out, "size", true, b.report, b.report.SizeMarkdown())
	case b.short:
		return report.Keep(b.out, "short", false, b.report, b.report.Markdown())
	case b.trial():
		return report.Keep(b.out, "trial", false, b.report, b.report.Markdown())
	default:
		return report.Keep(b.out, "bench", true, b.report, b.report.Markdown())
	}
}

// segment is one row, which is measured once a round.
type segment struct {
	name    string
	measure func(context.Context, *report.Sample) error
}

// inTurn measures the segments round after round.
func (b *bench) inTurn(ctx context.Context, rounds int, segments ...segment) error {
	return report.InTurn(rounds, len(segments), func(round, i int) error {
		s, sample := segments[i], report.Sample{Round: round}
		if err := b.db.Reset(ctx); err != nil {
			return err
		}
		if err := s.measure(ctx, &sample); err != nil {
			return fmt.Errorf("measure %s: %w", s.name, err)
		}
		if sample.Result != nil && sample.Result.AllOK == 0 {
			return fmt.Errorf("measure %s: no request was answered 200", s.name)
		}
		b.report.Add(s.name, sample)
		fmt.Fprintf(os.Stderr, "%-28s %s\n", s.name, sample)
		return nil
	})
}

// traffic returns what a segment sends.
func (b *bench) traffic(shape load.Shape, to ...*world.Process) load.Spec {
	b.runs++
	spec := load.Spec{
		Path: world.Path, Secret: b.world.Secret, Application: world.Application, Tenants: b.world.Grants,
		Shape: shape, Run: strconv.Itoa(b.runs), Connections: connections,
		Warm: min(b.each, time.Second), Measure: b.each,
	}
	if shape == load.Deltas {
		spec.Tenants = b.world.Accounts
	}
	for _, p := range to {
		spec.Addresses = append(spec.Addresses, p.Address)
	}
	spec.Requests = int(30_000 * (spec.Warm + spec.Measure).Seconds())
	return spec
}

// send runs a load on a server that stores, and checks that every 200 has its row.
func (b *bench) send(ctx context.Context, spec load.Spec, to *world.Process, sample *report.Sample) error {
	if err := b.watch(ctx, "load", spec, to, sample); err != nil {
		return err
	}
	want := sample.Result.AllOK
	if spec.Shape == load.Deltas {
		want *= load.DeltasEach
		sample.Deliveries, sample.Value = want, sample.Value*load.DeltasEach
	}
	if spec.Repeat {
		want = spec.Requests
	}
	rows, claimed, err := b.db.Kept(ctx)
	if err != nil {
		return err
	}
	if rows != want || claimed != want {
		return fmt.Errorf("%d deliveries were acknowledged and should be kept, and there are %d rows with %d keys", want, rows, claimed)
	}
	sample.Inbox, sample.Keys, err = b.db.Stored(ctx)
	return err
}

// watch runs a measuring part of this program, and records what it costs the others.
func (b *bench) watch(ctx context.Context, part string, spec any, server *world.Process, sample *report.Sample) error {
	var cpu, postgres time.Duration
	var wal int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	result, err := b.world.Run(ctx, part, spec, func() {
		wal, _ = b.db.WAL(ctx) // the error can wait: the next query fails if the server is gone
		postgres = b.world.PostgresCPU()
		if server != nil {
			cpu = server.CPU()
		}
		go func() {
			defer close(stopped)
			b.followMemory(stop)
		}()
	})
	if err != nil {
		return err
	}
	close(stop)
	<-stopped
	sample.Result = result
	sample.Value, sample.Deliveries = result.PerSecond(), result.AllOK
	sample.PostgresCPU = b.world.PostgresCPU() - postgres
	sample.ServerCPU = result.CPU
	if server != nil {
		sample.ServerCPU, sample.LoadCPU = server.CPU()-cpu, result.CPU
	}
	after, err := b.db.WAL(ctx)
	sample.WAL = after - wal
	if result.Broken > 0 || result.RanOut {
		fmt.Fprintf(os.Stderr, "  %d without an answer, ran out of prepared requests: %v\n", result.Broken, result.RanOut)
	}
	return err
}

func (b *bench) followMemory(stop <-chan struct{}) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			b.peak = max(b.peak, b.gateway.Resident())
		}
	}
}

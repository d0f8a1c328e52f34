// Command claims measures how fast keys are claimed, one by one and in batches, fresh and known, compared with a bare
// INSERT of the same row by pgbench, on one server in one run. It also measures whether the sweep keeps up. make
// bench-claims starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	benchreport "webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "claims:", err)
		os.Exit(1)
	}
}

// options are the settings of a run.
type options struct {
	dir, out string
	short    bool
	rounds   int
	each     time.Duration // measured in one go
	sweep    time.Duration // how long the sweep is watched
	known    int           // keys that are there before known ones are claimed
}

func parse(args []string) (options, error) {
	o := options{known: 20_000}
	f := flag.NewFlagSet("claims", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", ".bench/claims", "folder for PostgreSQL's data, on a real disk; the data are removed at the end")
	f.StringVar(&o.out, "out", "docs/benchmarks", "folder for the table and the raw figures")
	f.BoolVar(&o.short, "short", false, "only check that everything runs; the figures mean nothing")
	f.IntVar(&o.rounds, "rounds", 3, "how often each row is measured")
	f.DurationVar(&o.each, "each", 2*time.Second, "how long each row is measured in a round")
	f.DurationVar(&o.sweep, "sweep", 20*time.Second, "how long the sweep is watched")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.rounds < 1 || o.each <= 0 || o.sweep < time.Second {
		return o, errors.New("these arguments exclude each other; see -help")
	}
	if o.short {
		o.rounds, o.each, o.sweep, o.known = 1, 100*time.Millisecond, 2*time.Second, 2000
	}
	return o, nil
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	const limit = 15 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("stopped after %v", limit))
	defer cancel()
	dir, err := filepath.Abs(o.dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return fmt.Errorf("make the benchmark's folder: %w", err)
	}
	w, err := world.New(ctx, world.Options{Dir: dir})
	if err != nil {
		return err
	}
	r, err := measure(ctx, o, w)
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	name := "claims"
	if o.short {
		name = "claims-short"
	}
	return benchreport.Keep(o.out, name, !o.short, r, r.markdown())
}

func measure(ctx context.Context, o options, w *world.World) (*report, error) {
	b, err := newBench(ctx, o, w)
	if err != nil {
		return nil, err
	}
	defer b.pool.Close()
	defer b.db.Pool.Close()
	if err := b.rows(ctx); err != nil {
		return nil, err
	}
	if err := b.watchSweep(ctx); err != nil {
		return nil, fmt.Errorf("measure the sweep: %w", err)
	}
	after, err := os.ReadFile("/proc/loadavg")
	if err == nil { // only Linux has this figure
		b.report.After = strings.TrimSpace(string(after))
	}
	return &b.report, nil
}

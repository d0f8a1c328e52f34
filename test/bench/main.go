// Command bench measures the gateway and what it is compared with, in one run on one machine, and writes a table and
// JSON. make bench starts it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"webhook-gateway/test/bench/ceiling"
	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/straightforward"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run runs the part that the first argument names. Without one it is the benchmark, which starts the parts.
func run(ctx context.Context, args []string) error {
	part := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		part = args[0]
	}
	switch part {
	case "":
		return measure(ctx, args)
	case "load":
		return load.Serve(os.Stdin, os.Stdout)
	case "settle":
		spec, err := readSpec[ceiling.SettleSpec]()
		if err != nil {
			return err
		}
		return ceiling.Settle(ctx, spec, os.Stdout)
	case "immediate":
		spec, err := readSpec[ceiling.Spec]()
		if err != nil {
			return err
		}
		return ceiling.ServeImmediate(ctx, spec)
	case "straightforward":
		spec, err := readSpec[straightforward.Spec]()
		if err != nil {
			return err
		}
		return straightforward.Serve(ctx, spec)
	default:
		return fmt.Errorf("unknown part %q", part)
	}
}

func readSpec[T any]() (spec T, err error) {
	if err = json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		err = fmt.Errorf("read the spec: %w", err)
	}
	return spec, err
}

// options are the settings of a run.
type options struct {
	dir, out, gateway string
	beside            string // the binary of a second gateway; only the two are compared then
	short, size       bool
	only              string // groups to measure, with commas between; empty: all
	millions          string // of keys, with commas between
	rounds            int
	each              time.Duration // how long one measurement takes
	profile           string
	env, besideEnv    list
	settings          list
	limit             time.Duration
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&o.gateway, "gateway", "bin/gateway", "the gateway's binary")
	f.StringVar(&o.dir, "dir", ".bench", "folder for PostgreSQL's data, on a real disk; the data are removed at the end")
	f.StringVar(&o.out, "out", "docs/benchmarks", "folder for the table and the raw figures")
	f.BoolVar(&o.short, "short", false, "only check that everything runs; the figures mean nothing")
	f.BoolVar(&o.size, "size", false, "measure with 1, 5 and 20 million keys instead (15 to 40 minutes, 20 GB)")
	f.StringVar(&o.millions, "millions", "1,5,20", "how many keys -size measures with")
	f.StringVar(&o.only, "only", "", "groups to measure, with commas between: throughput,latency,mail,two,shapes,overload; or settle, or none for -profile alone")
	f.IntVar(&o.rounds, "rounds", 5, "how often each row is measured; most of them three times at most")
	f.DurationVar(&o.each, "each", 4*time.Second, "how long each row is measured in a round")
	f.StringVar(&o.profile, "profile", "", "folder for profiles of the gateway and for PostgreSQL's statistics of its statements")
	f.Var(&o.env, "env", "setting of the gateways as KEY=value, for trials; may be repeated")
	f.StringVar(&o.beside, "beside", "", "binary of a second gateway: only the two are compared, for trials")
	f.Var(&o.besideEnv, "beside-env", "setting of the second gateway as KEY=value; may be repeated")
	f.Var(&o.settings, "pg", "setting of PostgreSQL as name=value, for trials; may be repeated")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 || o.short && o.size || o.rounds < 1 || o.each <= 0 {
		return o, errors.New("these arguments exclude each other; see -help")
	}
	o.limit = 15 * time.Minute
	switch {
	case o.short:
		o.rounds, o.each, o.limit = 1, 500*time.Millisecond, 3*time.Minute
	case o.size:
		o.limit = 90 * time.Minute
	}
	return o, nil
}

// measure is the benchmark. It ends everything that it has started.
func measure(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("stopped after %v", o.limit))
	defer cancel()
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	if o.size {
		err = b.sizes(ctx)
	} else {
		err = b.rows(ctx)
	}
	if closed := b.world.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return b.write()
}

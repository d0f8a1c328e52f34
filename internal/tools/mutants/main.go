// Command mutants breaks the rules of the plane and of the door one at a time and checks that a test notices. The
// checkout never changes: each mutation reaches the compiler as an overlay. make mutants starts it; it takes half an
// hour, and ends with an error when a mutation survives or no longer fits the code.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// lists hold the mutations: of idempotency (plane), of receiving and storing a delivery (door), and of what limits
// strangers and neighbours (bounds).
//
//go:embed *.txt
var lists embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("mutants", flag.ContinueOnError)
	only := f.String("only", "", "pattern of the mutations to try; empty: all")
	limit := f.Duration("limit", time.Minute, "how long the tests may run against one mutation")
	if err := f.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("read -only: %w", err)
	}
	chosen, err := all()
	if err != nil {
		return err
	}
	chosen = slices.DeleteFunc(chosen, func(m mutation) bool { return !wanted.MatchString(m.name) })
	r := runner{root: ".", limit: *limit}
	// Check first, before time is spent: a mutation that does not fit is never tried, and a test that fails by itself
	// would notice everything.
	if err := errors.Join(r.fit(chosen), r.green(ctx, chosen)); err != nil {
		return err
	}
	fmt.Fprintln(out, "| mutation | red? | test that failed |\n| --- | --- | --- |")
	bad := 0
	for _, m := range chosen {
		word, detail := r.try(ctx, m)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if word != red {
			bad++
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", m.name, word, detail)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d mutations turned no test red", bad, len(chosen))
	}
	fmt.Fprintf(out, "\nAll %d mutations turned a test red.\n", len(chosen))
	return nil
}

// Command mutants breaks the rules of the plane and of the door one at a time and sees that a test notices. The
// checkout is never changed: each mutation reaches the compiler as an overlay. It is started by make mutants, takes
// half an hour, and ends with an error when a mutation survives or no longer fits the code.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

//go:embed plane.txt
var planeText string

//go:embed door.txt
var doorText string

//go:embed bounds.txt
var boundsText string

// mutationsText is every mutation: of the package idempotency, of what receives and stores a delivery, and of what
// bounds strangers and neighbours.
func mutationsText() string { return planeText + "\n" + doorText + "\n" + boundsText }

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
	all, err := parse(mutationsText())
	if err != nil {
		return fmt.Errorf("read the list: %w", err)
	}
	var chosen []mutation
	for _, m := range all {
		if wanted.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	w := workshop{root: ".", limit: *limit}
	// Before any time is spent: what does not fit must not pass for a mutation that was tried.
	if err := w.fits(chosen); err != nil {
		return err
	}
	// A test that is red by itself would notice everything.
	if err := w.green(ctx, chosen); err != nil {
		return err
	}
	fmt.Fprintln(out, "| mutation | red? | test that failed |\n| --- | --- | --- |")
	bad := 0
	for _, m := range chosen {
		got := w.try(ctx, m)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !got.red {
			bad++
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", m.name, got.word(), got.told)
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d mutations turned no test red", bad, len(chosen))
	}
	fmt.Fprintf(out, "\nAll %d mutations turned a test red.\n", len(chosen))
	return nil
}

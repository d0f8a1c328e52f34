// Command gateway receives vendors' webhooks: it verifies, deduplicates and stores each delivery, and then acknowledges
// it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"webhook-gateway/internal/admin"
	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/devdb"
	"webhook-gateway/internal/doctor"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/registry"
	"webhook-gateway/internal/safetext"
	"webhook-gateway/internal/send"
	"webhook-gateway/internal/sqlstate"
	"webhook-gateway/jobs"
	"webhook-gateway/migrations"
)

// The exit statuses, for scripts.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // a flag or an argument is wrong
	exitConfig      = 3 // a setting is missing or wrong
	exitUnreachable = 4 // PostgreSQL or the gateway does not answer, or PostgreSQL must not be used
	exitMismatch    = 5 // it ran, and the result is not the expected one
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}

// run is main without the process: it returns the exit status.
func run(ctx context.Context, args []string, std streams) int {
	root := newRoot(std)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil {
		printError(std.err, err)
	}
	return exitStatus(err)
}

// exitStatus returns the status that a command ends with. It is the only place that maps errors to statuses. The first
// case that fits decides.
func exitStatus(err error) int {
	is := func(target error) bool { return errors.Is(err, target) }
	switch {
	case err == nil:
		return exitOK
	case isA[gateway.DatabaseError](err), isA[*pg.UnavailableError](err), isA[*devdb.MissingError](err),
		is(pg.ErrUnfit), is(send.ErrNoAnswer):
		return exitUnreachable
	case isA[gateway.SettingError](err), is(pg.ErrSettings), is(jobs.ErrKey), is(doctor.ErrNotInFile):
		return exitConfig
	case isA[usageError](err), is(jobs.ErrInvalid), is(capture.ErrSignature), is(capture.ErrNoParty), is(admin.ErrURL),
		is(doctor.ErrUnnamed), is(registry.ErrJobID):
		return exitUsage
	case isA[mismatchError](err):
		return exitMismatch
	default:
		return exitFailed
	}
}

func isA[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}

// usageError is an error in a flag or an argument.
type usageError struct{ error }

// mismatchError says that a command ran, and that its result is not the expected one.
type mismatchError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// asSetting converts an error to a gateway.SettingError; nil stays nil.
func asSetting(err error) error {
	if err != nil {
		err = gateway.SettingError{Err: err}
	}
	return err
}

// printError prints why the process ends. It waits at most a second, because the reader of standard error may be
// stalled, and the process must still end.
func printError(to io.Writer, err error) {
	if (sqlstate.NoTable(err) || sqlstate.NoColumn(err)) && !isA[gateway.DatabaseError](err) && !errors.Is(err, migrations.ErrMigrate) {
		err = fmt.Errorf("the database lacks migrations of this build; run: gateway migrate up (%w)", err)
	}
	printed := make(chan struct{})
	go func() {
		defer close(printed)
		fmt.Fprintln(safetext.NewWriter(to), "error:", err)
	}()
	select {
	case <-printed:
	case <-time.After(time.Second):
	}
}

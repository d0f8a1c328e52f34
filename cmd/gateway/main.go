// Command gateway receives vendors' webhooks: it verifies, deduplicates and stores each delivery, and
// acknowledges it only then.
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

	"webhook-gateway/internal/safetext"
)

// The exit statuses, for scripts.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2 // a flag or an argument is wrong
	exitConfig      = 3 // a setting is missing or wrong
	exitUnreachable = 4 // PostgreSQL does not answer, or must not be used
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
	if err == nil {
		return exitOK
	}
	complain(std.err, err)
	var coded *statusError
	if errors.As(err, &coded) {
		return coded.status
	}
	return exitFailed
}

// complain tells why the process ends. It waits a second at most: what reads standard error may stand still, and
// the process must end all the same.
func complain(to io.Writer, err error) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		fmt.Fprintln(safetext.NewWriter(to), "error:", err)
	}()
	select {
	case <-told:
	case <-time.After(time.Second):
	}
}

// statusError is an error with the exit status it ends the process with.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

func withStatus(status int, err error) error {
	if err == nil {
		return nil
	}
	return &statusError{status: status, err: err}
}

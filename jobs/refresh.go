package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/internal/sqlstate"
)

const (
	pollEvery = 400 * time.Millisecond
	// Reads start further apart than a twentieth of a second, so that PostgreSQL never sees more than 20
	// begin within one, though one of them was held up on its way.
	readSpacing = time.Second / 18
	// waitAtMost bounds a Refresh: the vendor waits meanwhile.
	waitAtMost = 2 * time.Second
	// resetEvery is how often connections to a server that takes no writes are given up: new ones may lead to
	// the primary.
	resetEvery = 5 * time.Second
	// tries is how many reads may fail before a Refresh does. A read whose connection was cut says nothing of the
	// server, which may have restarted meanwhile.
	tries = 3
)

// errNotRefreshed is what Refresh answers when nothing newer could be read.
var errNotRefreshed = errors.New("sources and jobs could not be read anew")

// freshness is what waiters and the one goroutine that reads tell each other.
type freshness struct {
	wanted chan struct{} // holds one token while somebody waits
	since  time.Time     // when the directory was made

	mu        sync.Mutex
	succeeded time.Time     // when the newest read that succeeded began
	failed    time.Time     // when the newest read that failed began
	stopped   bool          // nobody reads any more
	readOnly  string        // why the server takes no writes; empty when it does
	done      chan struct{} // closed, and replaced, at the end of every read
}

func (f *freshness) everSucceeded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.succeeded.IsZero()
}

// notice keeps whether the server takes writes, and logs a change.
func (d *Directory) notice(readOnly string, now time.Time) {
	d.fresh.mu.Lock()
	before := d.fresh.readOnly
	d.fresh.readOnly = readOnly
	d.fresh.mu.Unlock()
	switch {
	case before == "" && readOnly != "":
		d.log.Error("PostgreSQL takes no writes", slog.String("reason", readOnly))
	case before != "" && readOnly == "":
		d.log.Info("PostgreSQL takes writes again")
	}
	if readOnly != "" && now.Sub(d.reader.reset) >= resetEvery {
		d.pool.Reset()
		d.reader.reset = now
	}
}

// age is how old what the directory knows may be.
func (f *freshness) age() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.succeeded.IsZero() {
		return time.Since(f.since)
	}
	return time.Since(f.succeeded)
}

func (f *freshness) end(began time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ok {
		f.succeeded = began
	} else {
		f.failed = began
	}
	close(f.done)
	f.done = make(chan struct{})
}

func (f *freshness) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	close(f.done)
	f.done = make(chan struct{})
}

// Load reads everything once, for a caller that will not begin without. It comes before Run, if at all.
func (d *Directory) Load(ctx context.Context) error {
	began := time.Now()
	err := d.read(ctx, began)
	d.metrics.read(err == nil)
	d.fresh.end(began, err == nil)
	return err
}

// Run reads the tables until ctx ends: everything at first, then what changed, again and again. It is
// called once; when it has returned, look-ups go on answering what was read last and Refresh fails.
func (d *Directory) Run(ctx context.Context) {
	defer d.fresh.stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var began time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-d.fresh.wanted:
		}
		timer.Reset(time.Until(began.Add(readSpacing)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		// Whoever asked until here is served by the read that begins now.
		select {
		case <-d.fresh.wanted:
		default:
		}
		began = time.Now()
		err := d.read(ctx, began)
		if ctx.Err() != nil {
			return
		}
		d.report(err)
		d.fresh.end(began, err == nil)
		timer.Reset(time.Until(began.Add(pollEvery)))
	}
}

// report counts a read, and logs when they begin to fail and when they succeed again.
func (d *Directory) report(err error) {
	d.metrics.read(err == nil)
	if connectionLost(err) {
		// The other connections of the pool were most likely cut as well: the next read must not get one of them.
		d.pool.Reset()
	}
	switch {
	case err != nil && !d.reader.failing:
		d.log.Warn("directory cannot be refreshed", slog.Any("err", err))
	case err == nil && d.reader.failing:
		d.log.Info("directory refreshed again")
	}
	d.reader.failing = err != nil
}

// connectionLost reports that a read failed because its connection ended. One that took too long is no such case.
func connectionLost(err error) bool {
	if sqlstate.Of(err) != "" {
		return sqlstate.ConnectionEnded(err)
	}
	return err != nil && !pgconn.Timeout(err) && !errors.Is(err, context.DeadlineExceeded)
}

// Refresh returns nil once a read that began after since has succeeded, so that what was committed before
// since is known. Everybody who waits shares the reads, of which fewer than 20 begin in a second, Run's own
// included. It fails when three reads have, when PostgreSQL does not answer within two seconds, when ctx ends
// first, and when Run has returned.
func (d *Directory) Refresh(ctx context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, waitAtMost, errNotRefreshed)
	defer cancel()
	failures, failed := 0, since // of the reads that began after since, and when the last of them began
	for {
		d.fresh.mu.Lock()
		if d.fresh.failed.After(failed) {
			failed = d.fresh.failed
			failures++
		}
		succeeded, stopped, done := d.fresh.succeeded.After(since), d.fresh.stopped, d.fresh.done
		d.fresh.mu.Unlock()
		switch {
		case succeeded:
			return nil
		case failures == tries, stopped:
			return errNotRefreshed
		}
		select {
		case d.fresh.wanted <- struct{}{}:
		default:
		}
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

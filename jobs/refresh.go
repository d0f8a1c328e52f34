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
	// Reads start more than a twentieth of a second apart, so that PostgreSQL never sees more than 20 begin within a
	// second, even if one of them was delayed on its way.
	readSpacing = time.Second / 18
	// waitAtMost bounds a Refresh, because the vendor waits meanwhile.
	waitAtMost = 2 * time.Second
	// resetEvery is how often connections to a server that accepts no writes are closed: new ones may lead to the
	// primary.
	resetEvery = 5 * time.Second
	// tries is how many reads may fail before a Refresh does. A read with a broken connection says nothing about the
	// server, which may have restarted meanwhile.
	tries = 3
)

// errNotRefreshed is the error of Refresh if nothing newer could be read.
var errNotRefreshed = errors.New("sources and jobs could not be read again")

// freshness is the state shared by waiters and the one goroutine that reads.
type freshness struct {
	wanted chan struct{} // holds one token while a Refresh waits
	since  time.Time     // when the directory was created

	mu        sync.Mutex
	succeeded time.Time     // when the newest successful read began
	failed    time.Time     // when the newest failed read began
	stopped   bool          // there are no more reads
	readOnly  string        // why the server accepts no writes; empty if it does
	done      chan struct{} // closed, and replaced, at the end of every read
}

func (f *freshness) everSucceeded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.succeeded.IsZero()
}

// notice records whether the server accepts writes, and logs a change.
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

// age returns the maximum age of what the directory knows.
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

// Load reads everything once, for a caller that must not begin without. If used, call it before Run.
func (d *Directory) Load(ctx context.Context) error {
	began := time.Now()
	err := d.read(ctx, began)
	d.metrics.read(err == nil)
	d.fresh.end(began, err == nil)
	return err
}

// Run reads the tables until ctx ends: everything at first, then what changed, again and again. Call it once. After it
// has returned, look-ups still answer from the last read, and Refresh fails.
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
		// The read that begins now serves every Refresh that was called before this point.
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

// report counts a read, and logs when reads begin to fail and when they succeed again.
func (d *Directory) report(err error) {
	d.metrics.read(err == nil)
	if connectionLost(err) {
		// The other connections of the pool are probably broken as well: the next read must not get one of them.
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

// connectionLost reports whether a read failed because its connection ended. A timeout does not count.
func connectionLost(err error) bool {
	if sqlstate.Of(err) != "" {
		return sqlstate.ConnectionEnded(err)
	}
	return err != nil && !pgconn.Timeout(err) && !errors.Is(err, context.DeadlineExceeded)
}

// Refresh returns nil once a read that began after since has succeeded, so that everything committed before since is
// known. All waiting callers share the reads. Fewer than 20 reads begin in a second, including Run's own. It fails
// after three failed reads, when PostgreSQL does not answer within two seconds, when ctx ends first, and when Run has
// returned.
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

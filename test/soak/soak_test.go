package soak

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"webhook-gateway/internal/pgtest"
)

// The environment of the other process.
const (
	workerURL   = "SOAK_URL"
	workerOrg   = "SOAK_ORGANIZATION"
	workerBegan = "SOAK_BEGAN" // in milliseconds
)

// callers is the number of calling goroutines in a process.
const callers = 4

// work is the other process. It ends when it is killed, finds a fault, or has run for a minute.
func work(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	org, err := uuid.Parse(os.Getenv(workerOrg))
	if err == nil {
		var began int64
		if began, err = strconv.ParseInt(os.Getenv(workerBegan), 10, 64); err == nil {
			var w *world
			if w, err = newWorld(ctx, url, org, time.UnixMilli(began)); err == nil {
				err = w.callAll(ctx)
			}
		}
	}
	fmt.Println(err)
	return 1
}

// callAll calls from several goroutines until ctx ends.
func (w *world) callAll(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	for range callers {
		all.Go(func() error { return w.callOn(ctx) })
	}
	return all.Wait()
}

// killAnother runs the other process in a loop, and kills it each time.
func (w *world) killAnother(ctx context.Context, url string) (kills int, err error) {
	for ctx.Err() == nil {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), workerURL+"="+url, workerOrg+"="+w.org.String(), fmt.Sprintf("%s=%d", workerBegan, w.began.UnixMilli()))
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			return kills, err
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ctx.Done():
		case <-time.After(4 * time.Second):
		case <-ended:
			return kills, fmt.Errorf("the other process ended: %s", &said)
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			return kills, err
		}
		<-ended
		kills++
	}
	return kills, nil
}

// cut ends one of the plane's sessions ten times a second.
func (w *world) cut(ctx context.Context) (cuts int64) {
	for {
		select {
		case <-ctx.Done():
			return cuts
		case <-time.After(100 * time.Millisecond):
		}
		tag, err := w.vendor.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name = $1 AND datname = current_database() ORDER BY state = 'active' DESC, random() LIMIT 1`, cuttable)
		if err == nil {
			cuts += tag.RowsAffected()
		}
	}
}

// Whatever breaks, each effect is made once, and each key gets its answer.
func TestSoak(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	w, err := newWorld(t.Context(), url, uuid.New(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if _, err := w.vendor.Exec(t.Context(), effects); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), *duration)
	defer cancel()
	var cuts int64
	var kills int
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return w.callAll(ctx) })
	all.Go(func() (err error) { kills, err = w.killAnother(ctx, url); return err })
	all.Go(func() error { cuts = w.cut(ctx); return nil })
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	last := w.newest()
	t.Logf("%d calls here, %d answers, %d of them replays, %d reclaims; %d sessions cut, %d processes killed",
		w.calls.Load(), w.answers.Load(), w.replays.Load(), w.reclaims.Load(), cuts, kills)
	if w.replays.Load() == 0 || w.reclaims.Load() == 0 || cuts == 0 || kills == 0 {
		t.Error("too little happened for the test to show anything")
	}
	w.settle(t, last)
	w.count(t, last)
}

// settle calls each key until it has an answer: at the latest after its last worker's lease.
func (w *world) settle(t *testing.T, last int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+*duration/2)
	defer cancel()
	var all sync.WaitGroup
	for use, call := range w.uses() {
		all.Go(func() {
			open := make(map[int]bool)
			for n := range last + 1 {
				open[n] = true
			}
			for len(open) > 0 && ctx.Err() == nil {
				for n := range open {
					answered, err := w.one(ctx, use, keyOf(use, n), call)
					if err != nil {
						t.Error(err)
						return
					}
					if answered {
						delete(open, n)
					}
				}
			}
			if len(open) > 0 {
				t.Errorf("%s: %d keys come to no answer: %v", use, len(open), open)
			}
		})
	}
	all.Wait()
}

// count checks that each key has one effect, and that nothing is left behind.
func (w *world) count(t *testing.T, last int) {
	t.Helper()
	one := func(sql string) (n int) {
		if err := w.vendor.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := one(`SELECT count(*) FROM (SELECT FROM effects GROUP BY key HAVING count(*) <> 1) AS twice`); n != 0 {
		t.Errorf("%d keys have more than one effect", n)
	}
	keys := len(w.uses()) * (last + 1)
	if n := one(`SELECT count(*) FROM effects`); n != keys {
		t.Errorf("%d effects of %d keys", n, keys)
	}
	if n := one(`SELECT count(*) FROM agent.idempotency_keys WHERE status <> 'completed'`); n != 0 {
		t.Errorf("%d keys are not completed", n)
	}
	if _, err := w.vendor.Exec(t.Context(), `UPDATE agent.idempotency_keys SET claimed_at = claimed_at - interval '1 year',
		lease_expires_at = lease_expires_at - interval '1 year', retain_until = retain_until - interval '1 year'`); err != nil {
		t.Fatal(err)
	}
	swept := 0
	for {
		read, deleted, err := w.keys.Sweep(t.Context(), 10_000)
		if swept += deleted; err != nil {
			t.Fatal(err)
		}
		if read == 0 {
			break
		}
	}
	if swept != keys {
		t.Errorf("%d keys are swept, want %d", swept, keys)
	}
	w.pool.Close()
	const left = `SELECT count(*) FROM pg_stat_activity WHERE application_name = '` + cuttable + `' AND datname = current_database()`
	for deadline := time.Now().Add(20 * time.Second); one(left) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d sessions are left", one(left))
		}
	}
}

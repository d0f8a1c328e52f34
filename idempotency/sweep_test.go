package idempotency_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/idempotency"
)

// fill inserts rows that are past their retention, or not, in one statement.
func (b *bundle) fill(n int, prefix string, retain time.Duration) {
	b.Helper()
	b.exec(`INSERT INTO agent.idempotency_keys (id, organization_id, scope, key, request_hash, status, lease_token, response,
	                                            claimed_at, lease_expires_at, retain_until)
	        SELECT gen_random_uuid(), $1, 'tool.x', $2 || i, 'c1:' || repeat('0', 64), 'completed', gen_random_uuid(), '1',
	               now() - interval '60 days', now() - interval '60 days', now() + $3::interval
	          FROM generate_series(1, $4) AS i`, b.org, prefix, retain, n)
}

func (b *bundle) sweep(limit int) (read, deleted int) {
	b.Helper()
	read, deleted, err := b.keys.Sweep(b.Context(), limit)
	if err != nil {
		b.Error(err)
	}
	return read, deleted
}

func TestSweepDeletesOnlyExpired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	live, dead, answer := b.ref("webhook.nylas", "live"), b.ref("webhook.nylas", "dead"), b.ref("webhook.nylas", "answer")
	b.fill(3, "old", -time.Hour)
	b.own(dead, content("1"))
	b.complete(b.own(answer, content("1")), response(`1`))
	b.exec(`UPDATE agent.idempotency_keys SET lease_expires_at = claimed_at WHERE key = 'dead'`)
	b.own(live, content("1"))
	backlog, err := b.keys.Backlog(t.Context())
	if err != nil || backlog.Rows != 3 || backlog.Oldest < time.Hour || backlog.Oldest > 2*time.Hour {
		t.Errorf("backlog %+v, %v, want 3 rows an hour old", backlog, err)
	}
	if read, deleted := b.sweep(10); read != 3 || deleted != 3 {
		t.Errorf("read %d and deleted %d, want 3", read, deleted)
	}
	for _, r := range []idempotency.Ref{live, dead, answer} {
		if b.row(r) == "" {
			t.Errorf("%s was deleted", r.Key)
		}
	}
	if backlog, err := b.keys.Backlog(t.Context()); err != nil || backlog != (idempotency.Backlog{}) {
		t.Errorf("backlog %+v, %v, want none", backlog, err)
	}
}

func TestSweepIsBounded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(25, "old", -time.Hour)
	for _, want := range []int{10, 10, 5, 0} {
		if read, deleted := b.sweep(10); read != want || deleted != want {
			t.Errorf("read %d and deleted %d, want %d", read, deleted, want)
		}
	}
	for _, limit := range []int{-1, 0, idempotency.MaxSweep + 1} {
		if _, _, err := b.keys.Sweep(t.Context(), limit); err == nil {
			t.Errorf("a limit of %d was taken", limit)
		}
		if _, err := idempotency.NewSweeper(b.keys, idempotency.SweepOptions{Limit: limit, Passes: 1}, slog.Default()); err == nil && limit != 0 {
			t.Errorf("a sweeper was made with a limit of %d", limit)
		}
	}
}

func TestSweeperRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var log bytes.Buffer
	sweeper := func(o idempotency.SweepOptions) *idempotency.Sweeper {
		t.Helper()
		s, err := idempotency.NewSweeper(b.keys, o, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, step := range []struct {
		rows, passes int
		want         idempotency.Swept
		warnings     int
	}{
		{0, 2, idempotency.Swept{Passes: 1}, 0},
		{25, 5, idempotency.Swept{Passes: 3, Read: 25, Deleted: 25}, 0},
		{25, 2, idempotency.Swept{Passes: 2, Read: 20, Deleted: 20, Full: true}, 1},
		{0, 2, idempotency.Swept{Passes: 1, Read: 5, Deleted: 5}, 1},
	} {
		b.fill(step.rows, fmt.Sprint(log.Len(), step), -time.Hour)
		got, err := sweeper(idempotency.SweepOptions{Limit: 10, Passes: step.passes}).Run(t.Context())
		if diff := cmp.Diff(step.want, got); diff != "" || err != nil {
			t.Errorf("%+v (-want +got):\n%s %v", step, diff, err)
		}
		if n := strings.Count(log.String(), "level=WARN"); n != step.warnings {
			t.Errorf("%+v: %d warnings, want %d", step, n, step.warnings)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sweeper(idempotency.SweepOptions{}).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was cancelled: %v", err)
	}
}

func TestEmptySweepIsCheap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fill(50_000, "kept", time.Hour)
	b.exec(`ANALYZE agent.idempotency_keys`)
	text := one[string](b, `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+strings.ReplaceAll(idempotency.SweepSQL, "$1", "1000"))
	var plan []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		t.Fatal(err)
	}
	if buffers := plan[0].Plan.Hit + plan[0].Plan.Read; buffers > 50 || !strings.Contains(text, `"Index Cond": "(retain_until <`) {
		t.Errorf("%d buffers to find nothing, by\n%s", buffers, text)
	}
}

func TestSweepRacesCompletion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("webhook.nylas", "k")
	c := b.own(r, content("1"))
	b.pass(25 * time.Hour)
	tx := b.begin()
	if recorded, err := b.keys.In(tx).Complete(t.Context(), c, response(`1`)); err != nil || !recorded {
		t.Fatal(recorded, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if read, deleted, err := b.keys.Sweep(ctx, 10); err != nil || read != 0 || deleted != 0 {
		t.Errorf("the sweep took a row that a completion holds: read %d, deleted %d, %v", read, deleted, err)
	}
	b.commit(tx)
	if read, deleted := b.sweep(10); read != 1 || deleted != 1 {
		t.Errorf("read %d, deleted %d, want the row that is past its retention", read, deleted)
	}
	if b.complete(c, response(`1`)) {
		t.Error("a row that is gone was completed")
	}
}

func TestCompletionWaitsForSweep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.own(b.ref("webhook.nylas", "k"), content("1"))
	b.pass(25 * time.Hour)
	tx := b.begin()
	if _, deleted, err := b.keys.In(tx).Sweep(t.Context(), 10); err != nil || deleted != 1 {
		t.Fatal(deleted, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := b.keys.Complete(ctx, c, response(`1`)); !errors.Is(err, idempotency.ErrLockTimeout) {
		t.Errorf("got %v, want ErrLockTimeout while the sweep is at the row", err)
	}
	recorded := together(2, func(i int) bool {
		if i == 1 {
			b.blocked(1)
			b.commit(tx)
			return false
		}
		recorded, err := b.patient().Complete(t.Context(), c, response(`1`))
		if err != nil {
			t.Error(err)
		}
		return recorded
	})
	if recorded[0] {
		t.Error("a row that the sweep deleted was completed")
	}
}

// A sweep finds a row that is past its retention, while an open transaction gives it a new one or makes it another
// claim.
func TestSweepSparesReclaimed(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(b *bundle, r idempotency.Ref) (pgx.Tx, *idempotency.Claim){
		"reclaimed":  reclaimAtTheLastMoment,
		"taken over": takeOver,
	} {
		b := setup(t)
		r := b.ref("webhook.nylas", "k")
		tx, claim := begin(b, r)
		swept := make(chan int, 1)
		go func() { _, deleted := b.sweep(10); swept <- deleted }()
		for len(swept) == 0 && one[int](b, waitingForLock) == 0 { // until it has skipped the row, or waits for it
		}
		b.commit(tx)
		if deleted := <-swept; deleted != 0 || !b.complete(claim, response(`1`)) {
			t.Errorf("%s: the sweep deleted %d rows, and a live claim", name, deleted)
		}
	}
}

// reclaimAtTheLastMoment leaves the reclaim of a row open whose retention passes meanwhile.
func reclaimAtTheLastMoment(b *bundle, r idempotency.Ref) (pgx.Tx, *idempotency.Claim) {
	dead := b.own(r, content("1"))
	b.pass(lease)
	for left := 100 * time.Millisecond; ; left *= 2 { // on a busy machine it may be too late
		b.exec(`UPDATE agent.idempotency_keys SET retain_until = clock_timestamp() + $1::interval`, left)
		tx := b.begin()
		o, err := b.keys.In(tx).Claim(b.Context(), r, content("1"), lease)
		if err != nil {
			b.Fatal(err)
		}
		if o.Claim != nil && o.Claim.ID == dead.ID {
			for !one[bool](b, `SELECT retain_until < now() FROM agent.idempotency_keys`) {
			}
			return tx, o.Claim
		}
		_ = tx.Rollback(b.Context())
	}
}

// takeOver leaves the claim of a forgotten key open.
func takeOver(b *bundle, r idempotency.Ref) (pgx.Tx, *idempotency.Claim) {
	b.own(r, content("1"))
	b.pass(25 * time.Hour)
	tx := b.begin()
	o, err := b.keys.In(tx).Claim(b.Context(), r, content("2"), lease)
	if err != nil {
		b.Fatal(err)
	}
	b.want(o, idempotency.Claimed)
	return tx, o.Claim
}

func TestSweepersBesideWriters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const expired = 4000
	b.fill(expired, "old", -time.Hour)
	b.fill(500, "kept", time.Hour)
	var deleted, written atomic.Int32
	errs := together(8, func(i int) error {
		if i < 4 {
			for {
				read, n, err := b.keys.Sweep(t.Context(), 200)
				deleted.Add(int32(n))
				if err != nil || read == 0 {
					return err
				}
			}
		}
		for k := range 40 {
			o, err := b.keys.Claim(t.Context(), b.ref("tool.x", strconv.Itoa(k)), content("1"), lease)
			if err != nil {
				return err
			}
			if o.Claim == nil {
				continue
			}
			written.Add(1)
			if _, err := b.keys.Complete(t.Context(), o.Claim, response(`1`)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if deleted.Load() != expired || written.Load() != 40 || b.rows() != 540 {
		t.Errorf("deleted %d of %d, wrote %d of 40, left %d of 540", deleted.Load(), expired, written.Load(), b.rows())
	}
}

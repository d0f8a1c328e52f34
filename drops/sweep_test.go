package drops

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
)

const fortnight = 14 * 24 * time.Hour

// plan is what EXPLAIN says of a statement that it ran.
type plan struct {
	root map[string]any
	text string
}

func (p plan) String() string { return p.text }

func (p plan) buffers() int {
	hit, _ := p.root["Shared Hit Blocks"].(float64)
	read, _ := p.root["Shared Read Blocks"].(float64)
	return int(hit + read)
}

// uses reports whether the statement read the index by a condition or in its order.
func uses(p plan, index string) bool { return strings.Contains(p.text, `"`+index+`"`) }

// explain runs the statement in a transaction that it rolls back.
func explain(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) plan {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	var text string
	err = tx.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+sql, args...).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	var explained []map[string]any
	if err := json.Unmarshal([]byte(text), &explained); err != nil {
		t.Fatal(err)
	}
	root, _ := explained[0]["Plan"].(map[string]any)
	return plan{root: root, text: text}
}

func left(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT detail FROM agent.webhook_drops ORDER BY detail`)
	if err != nil {
		t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestSweepOldestFirst(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for name, days := range map[string]int{"a 13": 13, "b 15": 15, "c 16": 16, "d 17": 17, "e new": 0} {
		row := aDrop()
		row.Detail = name
		keep(t, pool, row)
		age(t, pool, row.ID, time.Duration(days)*24*time.Hour)
	}
	store := NewStore(pool)
	if n, err := store.Backlog(t.Context(), fortnight); err != nil || n != 3 {
		t.Errorf("backlog = %d, %v; want 3", n, err)
	}
	for pass, want := range []struct {
		read int
		left []string
	}{
		{2, []string{"a 13", "b 15", "e new"}},
		{1, []string{"a 13", "e new"}},
		{0, []string{"a 13", "e new"}},
	} {
		read, deleted, err := store.Sweep(t.Context(), fortnight, 2)
		if err != nil || read != want.read || deleted != want.read {
			t.Errorf("pass %d read %d and deleted %d, %v; want %d", pass, read, deleted, err, want.read)
		}
		if diff := cmp.Diff(want.left, left(t, pool)); diff != "" {
			t.Errorf("left after pass %d (-want +got):\n%s", pass, diff)
		}
	}
	if n, err := store.Backlog(t.Context(), fortnight); err != nil || n != 0 {
		t.Errorf("backlog = %d, %v; want 0", n, err)
	}
}

func TestSweepNeedsBounds(t *testing.T) {
	t.Parallel()
	store := NewStore(pgtest.Pool(t))
	for name, tc := range map[string]struct {
		retention time.Duration
		limit     int
	}{
		"no retention":       {0, 10},
		"negative retention": {-time.Hour, 10},
		"no limit":           {fortnight, 0},
		"above the cap":      {fortnight, MaxSweep + 1},
	} {
		if _, _, err := store.Sweep(t.Context(), tc.retention, tc.limit); err == nil {
			t.Errorf("%s: swept", name)
		}
	}
	if _, err := store.Backlog(t.Context(), 0); err == nil {
		t.Error("a backlog without retention was counted")
	}
}

// A page of the sweep may end between the rows of one request.
func TestSweepKeepsBodiesLonger(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	rows := request(6)
	keep(t, pool, rows...)
	if _, err := pool.Exec(t.Context(), `UPDATE agent.webhook_drops SET stored_at = stored_at - interval '15 days'`); err != nil {
		t.Fatal(err)
	}
	store := NewStore(pool)
	for range 5 {
		if _, _, err := store.Sweep(t.Context(), fortnight, 1); err != nil {
			t.Fatal(err)
		}
		list, _, err := store.List(t.Context(), Filter{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range list {
			found, err := store.Find(t.Context(), k.ID)
			if err != nil || string(found.Body) != "the whole request" {
				t.Errorf("%d rows left: position %d finds %q, %v", len(list), k.Position, found.Body, err)
			}
		}
	}
}

func TestQueueSharesStoredAt(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	keep(t, pool, request(50)...)
	var instants int
	if err := pool.QueryRow(t.Context(), `SELECT count(DISTINCT stored_at) FROM agent.webhook_drops`).Scan(&instants); err != nil || instants != 1 {
		t.Errorf("50 rows of one request were stored at %d instants, %v", instants, err)
	}
}

func TestSweepSkipsLocked(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	fill(t, pool, 10)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	// The 4 oldest.
	if _, err := tx.Exec(t.Context(), `SELECT FROM agent.webhook_drops ORDER BY stored_at LIMIT 4 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeout(t.Context(), 10*time.Second) // a sweep that waits for the lock never ends
	defer cancel()
	read, deleted, err := NewStore(pool).Sweep(bounded, time.Millisecond, 100)
	if err != nil || read != 6 || deleted != 6 {
		t.Errorf("read %d, deleted %d, %v; want the 6 that are not held", read, deleted, err)
	}
}

func TestSweepsConcurrently(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	fill(t, pool, 4000)
	var sweeping sync.WaitGroup
	totals := make([]int, 3)
	for i := range totals {
		sweeping.Go(func() {
			for {
				read, deleted, err := NewStore(pool).Sweep(t.Context(), time.Millisecond, 150)
				if err != nil {
					t.Error(err)
					return
				}
				totals[i] += deleted
				if read < 150 {
					return
				}
			}
		})
	}
	sweeping.Wait()
	if sum := totals[0] + totals[1] + totals[2]; sum != 4000 {
		t.Errorf("%d rows deleted, want 4000", sum)
	}
}

func TestSweepReadsTheIndex(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	fill(t, pool, 20_000) // 5.5 hours
	for name, tc := range map[string]struct {
		retention time.Duration
		buffers   int
	}{
		"nothing is past":    {fortnight, 30},
		"some rows are past": {19_500 * time.Second, 3000},
	} {
		p := explain(t, pool, sweepSQL, tc.retention, 500)
		if !uses(p, "webhook_drops_stored") || !strings.Contains(p.text, "Index Cond") ||
			!strings.Contains(p.text, "Tid Scan") || strings.Contains(p.text, "Seq Scan") || p.buffers() > tc.buffers {
			t.Errorf("%s: the pass reads %d buffers:\n%s", name, p.buffers(), p)
		}
	}
	p := explain(t, pool, backlogSQL, fortnight, MaxBacklog)
	if !strings.Contains(p.text, "Index Cond") || p.buffers() > 30 {
		t.Errorf("an empty backlog is counted in %d buffers:\n%s", p.buffers(), p)
	}
}

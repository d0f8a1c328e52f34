package drops

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"webhook-gateway/internal/pgtest"
)

func TestRedrives(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := NewStore(pool)
	one, two, other := aDrop(), aDrop(), aDrop()
	keep(t, pool, one)
	keep(t, pool, two)
	keep(t, pool, other)
	ids := []uuid.UUID{one.ID, two.ID}

	first, err := store.BeginRedrives(t.Context(), ids, "sam", "the job was registered late")
	if err != nil {
		t.Fatal(err)
	}
	begun := Redrive{Drop: one.ID, At: first, By: "sam", Why: "the job was registered late"}
	check := func(id uuid.UUID, want ...Redrive) {
		t.Helper()
		got, err := store.Redrives(t.Context(), []uuid.UUID{id})
		if err != nil {
			t.Fatal(err)
		}
		same := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
		if diff := cmp.Diff(want, got[id], same); diff != "" {
			t.Errorf("redrives (-want +got):\n%s", diff)
		}
	}
	check(one.ID, begun)

	delivery := uuid.New()
	err = store.EndRedrives(t.Context(), first, []Redrive{
		{Drop: one.ID, Outcome: Outcome(UnknownJob), Detail: "no such job"},
		{Drop: two.ID, Outcome: Accepted, Delivery: delivery},
	})
	if err != nil {
		t.Fatal(err)
	}
	second, err := store.BeginRedrives(t.Context(), ids[:1], "kim", "once more")
	if err != nil {
		t.Fatal(err)
	}
	ended := begun
	ended.Outcome, ended.Detail = Outcome(UnknownJob), "no such job"
	check(one.ID, ended, Redrive{Drop: one.ID, At: second, By: "kim", Why: "once more"})
	check(two.ID, Redrive{Drop: two.ID, At: first, By: "sam", Why: begun.Why, Outcome: Accepted, Delivery: delivery})
	check(other.ID)
}

// Two attempts at one drop store one delivery. What the first wrote down is looked for once it is committed.
func TestEndRedrivesTwice(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := NewStore(pool)
	drop, delivery := aDrop(), uuid.New()
	keep(t, pool, drop)
	var at [2]time.Time
	for i := range at {
		var err error
		if at[i], err = store.BeginRedrives(t.Context(), []uuid.UUID{drop.ID}, "sam", "why"); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `UPDATE agent.webhook_redrives SET outcome = 'accepted', delivery_id = $2 WHERE redriven_at = $1`, at[0], delivery)
	if err != nil {
		t.Fatal(err)
	}
	second := []Redrive{{Drop: drop.ID, Outcome: Accepted, Delivery: delivery}}
	ended := make(chan error, 1)
	go func() { ended <- store.EndRedrives(t.Context(), at[1], second) }()
	for waiting := false; !waiting; {
		err := pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock') OR EXISTS (SELECT FROM agent.webhook_redrives WHERE outcome IS NOT NULL)`).Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if second[0].Outcome != Outcome(Duplicate) || second[0].Delivery != uuid.Nil || !strings.Contains(second[0].Detail, delivery.String()) {
		t.Errorf("the second is told %+v, want a duplicate of %s", second[0], delivery)
	}
}

func TestSweepRedrives(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := NewStore(pool)
	drop := aDrop()
	keep(t, pool, drop)
	for range 3 {
		if _, err := store.BeginRedrives(t.Context(), []uuid.UUID{drop.ID, uuid.New()}, "sam", "why"); err != nil {
			t.Fatal(err)
		}
	}
	rows := func() (n int) {
		if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM agent.webhook_redrives`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := rows(); n != 3 {
		t.Errorf("%d redrives of one drop that is there and one that is not, want 3", n)
	}
	tag, err := pool.Exec(t.Context(), `UPDATE agent.webhook_redrives SET redriven_at = redriven_at - interval '15 days'
		WHERE redriven_at < (SELECT max(redriven_at) FROM agent.webhook_redrives)`)
	if err != nil || tag.RowsAffected() != 2 {
		t.Fatal(tag, err)
	}
	for _, left := range []int{2, 1, 1} {
		if _, err := store.SweepRedrives(t.Context(), fortnight, 1); err != nil {
			t.Fatal(err)
		}
		if n := rows(); n != left {
			t.Errorf("%d redrives are left after a pass of one, want %d", n, left)
		}
	}
}

func TestRedriveBounds(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	store := NewStore(pool)
	drop := aDrop()
	keep(t, pool, drop)
	ids := []uuid.UUID{drop.ID}
	for _, tc := range []struct {
		by, why string
		ok      bool
	}{
		{strings.Repeat("b", MaxBy), strings.Repeat("w", MaxWhy), true},
		{strings.Repeat("b", MaxBy+1), "why", false},
		{"by", strings.Repeat("w", MaxWhy+1), false},
		{"", "why", false},
		{"by", "", false},
	} {
		if _, err := store.BeginRedrives(t.Context(), ids, tc.by, tc.why); (err == nil) != tc.ok {
			t.Errorf("by of %d bytes, why of %d: %v", len(tc.by), len(tc.why), err)
		}
	}
}

func TestSettled(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[Outcome]bool{
		Accepted: true, Outcome(Duplicate): true,
		"": false, Failed: false, Outcome(UnknownJob): false, Outcome(HashMismatch): false,
	} {
		if outcome.Settled() != want {
			t.Errorf("%q is settled: %v", outcome, !want)
		}
	}
}

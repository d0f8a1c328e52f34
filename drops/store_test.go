package drops

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
)

// age moves a row back in time, by the database's clock.
func age(t *testing.T, pool *pgxpool.Pool, id uuid.UUID, by time.Duration) {
	t.Helper()
	tag, err := pool.Exec(t.Context(), `UPDATE agent.webhook_drops SET stored_at = now() - $2::interval WHERE id = $1`, id, by)
	if err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
}

func names(list []Kept) []string {
	found := make([]string, len(list))
	for i, k := range list {
		found[i] = k.Detail
	}
	return found
}

func TestList(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	organization, job := uuid.New(), uuid.New()
	rows := map[string]func(*Kept){
		"plain":          func(*Kept) {},
		"malformed":      func(k *Kept) { k.Reason = Malformed },
		"nylas":          func(k *Kept) { k.Provider = "nylas" },
		"organization":   func(k *Kept) { k.OrganizationID = organization },
		"resolved job":   func(k *Kept) { k.JobID = job },
		"job of the URL": func(k *Kept) { k.PathJob, k.JobID = job, uuid.Nil },
	}
	for i, name := range []string{"plain", "malformed", "nylas", "organization", "resolved job", "job of the URL"} {
		row := aDrop()
		row.Detail = name
		rows[name](&row)
		keep(t, pool, row)
		age(t, pool, row.ID, time.Duration(10-i)*time.Hour)
	}
	store := NewStore(pool)
	for name, tc := range map[string]struct {
		filter Filter
		want   []string
	}{
		"everything":   {Filter{Limit: 10}, []string{"job of the URL", "resolved job", "organization", "nylas", "malformed", "plain"}},
		"limit":        {Filter{Limit: 2}, []string{"job of the URL", "resolved job"}},
		"reason":       {Filter{Limit: 10, Reason: Malformed}, []string{"malformed"}},
		"provider":     {Filter{Limit: 10, Provider: "nylas"}, []string{"nylas"}},
		"organization": {Filter{Limit: 10, Organization: organization}, []string{"organization"}},
		"job":          {Filter{Limit: 10, Job: job}, []string{"job of the URL", "resolved job"}},
		"since":        {Filter{Limit: 10, Since: time.Now().Add(-6*time.Hour - time.Minute)}, []string{"job of the URL", "resolved job"}},
		"together":     {Filter{Limit: 10, Job: job, Reason: Malformed}, []string{}},
	} {
		list, more, err := store.List(t.Context(), tc.filter)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, names(list)); diff != "" || more != (name == "limit") {
			t.Errorf("%s: more: %v (-want +got):\n%s", name, more, diff)
		}
		for _, k := range list {
			if k.Headers != "" || k.Body != nil {
				t.Errorf("%s: the list carries %s's request", name, k.Detail)
			}
		}
	}
}

// Equally old rows share a stored_at, so a page may end between two of them.
func TestPages(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	rows := request(25)
	keep(t, pool, rows[:10]...)
	keep(t, pool, rows[10:]...)
	whole, more, err := NewStore(pool).List(t.Context(), Filter{Limit: 25})
	if err != nil || len(whole) != 25 || more {
		t.Fatal(len(whole), err)
	}
	var paged []Kept
	for after := (Cursor{}); more || after == (Cursor{}); {
		var page []Kept
		if page, more, err = NewStore(pool).List(t.Context(), Filter{Limit: 4, After: after}); err != nil {
			t.Fatal(err)
		}
		paged = append(paged, page...)
		after = page[len(page)-1].Cursor()
	}
	if diff := cmp.Diff(whole, paged); diff != "" {
		t.Errorf("pages of 4 (-whole +paged):\n%s", diff)
	}
}

func TestListBoundsTheLimit(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{-1, 0, MaxList + 1} {
		if _, _, err := NewStore(nil).List(t.Context(), Filter{Limit: limit}); err == nil {
			t.Errorf("limit %d was taken", limit)
		}
	}
}

func TestFindByBody(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	batch := request(3) // the first holds the body
	batch[2].Reason = Malformed
	one, old, nylas := aDrop(), aDrop(), aDrop()
	one.Body, old.Body, nylas.Body, nylas.Provider = batch[0].Body, batch[0].Body, batch[0].Body, "nylas"
	old.ID = uuid.MustParse("019c3f2b-0000-7000-8000-000000000000")
	keep(t, pool, batch...)
	keep(t, pool, one, old, nylas, aDrop())
	store, from := NewStore(pool), uuid.MustParse("019c3f2b-0001-7000-8000-000000000000")

	found, err := store.FindBodies(t.Context(), from, "slack", [][]byte{batch[0].Body, []byte("other")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, k := range found {
		got = append(got, k.ID.String()+" "+string(k.Body)+k.Headers+k.ContentType)
	}
	var want []string
	for _, k := range []Kept{batch[0], one} {
		want = append(want, k.ID.String()+" "+string(k.Body)+k.Headers+k.ContentType)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("FindBodies (-want +got):\n%s", diff)
	}
	counts, err := store.CountBody(t.Context(), from, "slack", batch[0].Body)
	if diff := cmp.Diff(map[Reason]int{JobMismatch: 3 * 4, Malformed: 4}, counts); diff != "" || err != nil {
		t.Errorf("CountBody: %v (-want +got):\n%s", err, diff)
	}
	reasons, err := store.RequestReasons(t.Context(), batch[0].RequestID)
	if diff := cmp.Diff(map[int]Reason{0: JobMismatch, 1: JobMismatch, 2: Malformed}, reasons); diff != "" || err != nil {
		t.Errorf("RequestReasons: %v (-want +got):\n%s", err, diff)
	}
}

func TestFindUnknown(t *testing.T) {
	t.Parallel()
	if _, err := NewStore(pgtest.Pool(t)).Find(t.Context(), uuid.New()); !errors.Is(err, ErrNotFound) {
		t.Errorf("err = %v, want ErrNotFound", err)
	}
}

// A request's deliveries may be kept by several transactions: each brings the request along.
func TestRequestOncePerTransaction(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	rows := request(4)
	keep(t, pool, rows[:2]...)
	keep(t, pool, rows[2:]...)
	if diff := cmp.Diff([]int{0, 2}, carriers(t, pool, rows[0].RequestID)); diff != "" {
		t.Errorf("positions with a body (-want +got):\n%s", diff)
	}
}

func TestListReadsTheIndex(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	fill(t, pool, 20_000)
	plan := explain(t, pool, listSQL, nil, nil, uuid.Nil, "", "", nil, nil, 50)
	if !uses(plan, "webhook_drops_stored") || plan.buffers() > 30 {
		t.Errorf("a page of 50 of 20,000 rows reads %d buffers:\n%s", plan.buffers(), plan)
	}
	cursor := Cursor{StoredAt: time.Now().Add(-10 * time.Hour), ID: uuid.New()}
	plan = explain(t, pool, listSQL, nil, cursor.StoredAt, cursor.ID, "", "", nil, nil, 50)
	if !uses(plan, "webhook_drops_stored") || plan.buffers() > 30 {
		t.Errorf("a later page reads %d buffers:\n%s", plan.buffers(), plan)
	}
}

func TestFindReadsTheIndex(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	fill(t, pool, 20_000)
	row := aDrop()
	keep(t, pool, row)
	plan := explain(t, pool, findSQL, row.ID)
	if !uses(plan, "webhook_drops_request") || plan.buffers() > 20 {
		t.Errorf("one of 20,000 rows is found in %d buffers:\n%s", plan.buffers(), plan)
	}
}

func TestByBodyReadsNewDropsOnly(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	fill(t, pool, 20_000)
	from := uuid.Max // younger than every row
	for sql, args := range map[string][]any{
		bodiesSQL:    {from, "slack", [][]byte{[]byte("{}")}},
		countBodySQL: {from, "slack", []byte("{}")},
	} {
		if plan := explain(t, pool, sql, args...); !uses(plan, "webhook_drops_pkey") || plan.buffers() > 20 {
			t.Errorf("reads %d buffers:\n%s", plan.buffers(), plan)
		}
	}
}

// fill stores n small rows, one every second of the time before now.
func fill(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`
	INSERT INTO agent.webhook_drops (id, reason, provider, verified_by, verifier_id, request_id, position, request_seed, received_at, stored_at)
	SELECT gen_random_uuid(), 'unknown_job', 'slack', 'source', gen_random_uuid(), gen_random_uuid(), 0, '', now(), now() - n * interval '1 second'
	  FROM generate_series(1, %d) n`, n))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `VACUUM ANALYZE agent.webhook_drops`); err != nil {
		t.Fatal(err)
	}
}

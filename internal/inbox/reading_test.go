package inbox_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/pgtest"
)

// readingQuery is the query that docs/reading.md tells people to use.
func readingQuery(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reading.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sql\n")
	query, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/reading.md has no query")
	}
	return strings.TrimSuffix(strings.TrimSpace(query), ";")
}

// reader follows the inbox with that query: each call returns the vendor's ids on the next page.
func (w *world) reader() (read func() []string) {
	query := readingQuery(w.t)
	xid, id := "0", uuid.Nil
	return func() (ids []string) {
		w.t.Helper()
		rows, err := w.pool.Query(context.Background(), query, xid, id)
		if err != nil {
			w.t.Fatal(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				w.t.Fatal(err)
			}
			xid, id = values[0].(string), values[1].([16]byte)
			ids = append(ids, strings.TrimPrefix(values[5].(string), w.job.String()+"/"))
		}
		if rows.Err() != nil {
			w.t.Fatal(rows.Err())
		}
		return ids
	}
}

func TestReaderSkipsNoLateCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	ctx := context.Background()
	read := w.reader()
	insert := func(tx pgx.Tx, key string) {
		t.Helper()
		_, err := tx.Exec(ctx, `INSERT INTO agent.webhook_deliveries
		  (id, organization_id, provider, job_id, delivery_key, event_type, request_hash, headers, content_type, content_encoding, body, ordering_key, received_at)
		  VALUES ($1, $2, 'slack', $3, $4, '', '', '[]', '', '', '', '', now())`, uuid.Must(uuid.NewV7()), w.org, w.job, key)
		if err != nil {
			t.Fatal(err)
		}
	}
	begin := func() pgx.Tx {
		t.Helper()
		tx, err := w.pool.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}

	early, late := begin(), begin()
	insert(early, "early")
	insert(late, "late")
	w.settle(w.request(w.item("plain", "a")))
	if err := late.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := read(); len(got) != 0 {
		t.Errorf("read %v beside an older open transaction: its rows would be skipped", got)
	}
	if err := early.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	// The other tests' transactions on the same server hold readers up too.
	var got []string
	for deadline := time.Now().Add(20 * time.Second); len(got) < 3 && time.Now().Before(deadline); {
		got = append(got, read()...)
	}
	if !slices.Equal(got, []string{"early", "late", "plain"}) {
		t.Errorf("read %v, want early, late, plain in the order of their transactions", got)
	}
	if got := read(); len(got) != 0 {
		t.Errorf("read %v twice", got)
	}
}

// A fifth digit comes to the transaction ids while a reader is more than a page behind.
func TestReaderPastXid9999(t *testing.T) {
	t.Parallel()
	w := worldOn(t, pgtest.NewServer(t, pgtest.Options{Settings: map[string]string{"autovacuum": "off"}}).URL(pgtest.Database), defaults)
	const before, after = 250, 600 // rows on both sides of 10,000: one page cannot hold the later ones
	w.exec(fmt.Sprintf(`DO $$ BEGIN
	  WHILE pg_current_xact_id()::text::bigint < %d LOOP COMMIT; END LOOP;
	END $$`, 10_000-before-1))
	w.exec(fmt.Sprintf(`DO $$ BEGIN
	  FOR n IN 1..%d LOOP
	    INSERT INTO agent.webhook_deliveries
	      (id, organization_id, provider, job_id, delivery_key, event_type, request_hash, headers, content_type, content_encoding, body, ordering_key, received_at)
	    VALUES (gen_random_uuid(), '%s', 'slack', '%s', pg_current_xact_id(), '', '', '[]', '', '', '', '', now());
	    COMMIT;
	  END LOOP;
	END $$`, before+after, w.org, w.job))
	var want []string
	for xid := 10_000 - before; xid < 10_000+after; xid++ {
		want = append(want, strconv.Itoa(xid))
	}

	read := w.reader()
	var got []string
	for page := read(); len(page) > 0; page = read() {
		got = append(got, page...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the reader's transactions (-committed +read):\n%s", diff)
	}
}

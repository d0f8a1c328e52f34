package inbox_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

func TestAReaderSkipsNoRowThatCommitsLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	ctx := context.Background()
	query := readingQuery(t)

	xid, id := "0", uuid.Nil
	read := func() (keys []string) {
		t.Helper()
		rows, err := w.pool.Query(ctx, query, xid, id)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, err := rows.Values()
			if err != nil {
				t.Fatal(err)
			}
			xid, id = values[0].(string), values[1].([16]byte)
			keys = append(keys, strings.TrimPrefix(values[5].(string), w.job.String()+"/"))
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
		return keys
	}
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

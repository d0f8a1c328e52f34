package drops

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
)

// keep queues the rows in a transaction of their own, as the inbox does.
func keep(t *testing.T, pool *pgxpool.Pool, rows ...Kept) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		Queue(batch, rows)
		return tx.SendBatch(t.Context(), batch).Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// aDrop returns a row with every column set.
func aDrop() Kept {
	return Kept{
		ID: uuid.Must(uuid.NewV7()), Reason: JobMismatch, Detail: "the body names another team_id than the job",
		Provider: "slack", OrganizationID: uuid.New(), JobID: uuid.New(), VerifiedBy: "source", VerifierID: uuid.New(),
		PathJob: uuid.New(), PathSource: "main", RequestID: uuid.Must(uuid.NewV7()), RequestSeed: []byte("sixteen bytes ok"),
		Position: 3, DeliveryKey: "job/Ev1", EventType: "message", RequestHash: "c1:abc",
		Headers: `[["user-agent","Slackbot"]]`, ContentType: "application/json", ContentEncoding: "gzip",
		Body: []byte{0, 0xff, '{'}, Count: 4, ReceivedAt: noon(),
	}
}

// request returns n drops of one request that all keep it, by position.
func request(n int) []Kept {
	rows := make([]Kept, n)
	for i := range rows {
		rows[i] = aDrop()
		rows[i].Position = i
		rows[i].RequestID = rows[0].RequestID
		rows[i].Body = []byte("the whole request")
	}
	return rows
}

// carriers returns the positions of the rows of a request that hold a body.
func carriers(t *testing.T, pool *pgxpool.Pool, requestID uuid.UUID) []int {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT position FROM agent.webhook_drops WHERE request_id = $1 AND body IS NOT NULL ORDER BY position`, requestID)
	if err != nil {
		t.Fatal(err)
	}
	positions, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		t.Fatal(err)
	}
	return positions
}

func TestFind(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	bare := Kept{
		ID: uuid.Must(uuid.NewV7()), Reason: Malformed, Provider: "nylas", VerifiedBy: "job", VerifierID: uuid.New(),
		RequestID: uuid.Must(uuid.NewV7()), RequestSeed: []byte("seed"), Count: 1, ReceivedAt: noon(),
	}
	empty := bare
	empty.ID, empty.RequestID = uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	empty.Headers = "[]"
	for name, row := range map[string]Kept{
		"every column set":         aDrop(),
		"a bare row":               bare,
		"a request without a body": empty,
	} {
		keep(t, pool, row)
		got, err := NewStore(pool).Find(t.Context(), row.ID)
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(got.StoredAt).Abs() > time.Hour {
			t.Errorf("%s: stored at %v", name, got.StoredAt)
		}
		if (got.Body != nil) != (row.Headers != "") {
			t.Errorf("%s: body is %v", name, got.Body)
		}
		ignore := cmp.Options{cmpopts.IgnoreFields(Kept{}, "StoredAt"), cmpopts.EquateEmpty()}
		if diff := cmp.Diff(row, got, ignore); diff != "" {
			t.Errorf("%s (-kept +found):\n%s", name, diff)
		}
	}
}

func TestUnknownIsNull(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	keep(t, pool, Kept{
		ID: uuid.New(), Reason: Malformed, Provider: "nylas", VerifiedBy: "job", VerifierID: uuid.New(),
		RequestID: uuid.New(), RequestSeed: []byte("seed"), Count: 1, ReceivedAt: noon(),
	})
	var nulls int
	err := pool.QueryRow(t.Context(), `SELECT num_nulls(organization_id, job_id, path_job, path_source, headers, content_type, content_encoding, body)
	                             FROM agent.webhook_drops`).Scan(&nulls)
	if err != nil || nulls != 8 {
		t.Errorf("%d of 8 columns are NULL, %v", nulls, err)
	}
}

func TestQueueTwice(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	rows := request(3)
	keep(t, pool, rows[:2]...)
	changed := request(3)
	for i := range changed {
		changed[i].ID, changed[i].Detail = rows[i].ID, "repeated"
	}
	keep(t, pool, changed...)

	for i, want := range []string{rows[0].Detail, rows[1].Detail, "repeated"} {
		got, err := NewStore(pool).Find(t.Context(), rows[i].ID)
		if err != nil || got.Detail != want {
			t.Errorf("row %d says %q, %v; want %q", i, got.Detail, err, want)
		}
	}
}

func TestQueueNothing(t *testing.T) {
	t.Parallel()
	batch := &pgx.Batch{}
	Queue(batch, nil)
	if batch.Len() != 0 {
		t.Errorf("%d statements for no rows", batch.Len())
	}
}

func TestQueueIsOneStatement(t *testing.T) {
	t.Parallel()
	batch := &pgx.Batch{}
	Queue(batch, request(1))
	Queue(batch, request(300))
	if batch.Len() != 2 || batch.QueuedQueries[0].SQL != batch.QueuedQueries[1].SQL {
		t.Error("the statement's text depends on its rows: it would be prepared again and again")
	}
}

func TestRequestIsStoredOnce(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	rows, other := request(4), request(2)
	rows[0].Headers, rows[0].Body = "", nil // beyond the bound on requests
	rows[1], rows[3] = rows[3], rows[1]     // in no order
	other[0].Body = []byte("another request")

	mixed := []Kept{rows[0], other[1], rows[1], rows[2], other[0], rows[3]}
	keep(t, pool, mixed...)
	if diff := cmp.Diff([]int{1}, carriers(t, pool, rows[0].RequestID)); diff != "" {
		t.Errorf("positions with a body (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{0}, carriers(t, pool, other[0].RequestID)); diff != "" {
		t.Errorf("positions with a body, other request (-want +got):\n%s", diff)
	}
	for _, row := range mixed {
		got, err := NewStore(pool).Find(t.Context(), row.ID)
		want := "the whole request"
		if row.RequestID == other[0].RequestID {
			want = "another request"
		}
		if err != nil || string(got.Body) != want {
			t.Errorf("position %d finds %q, %v; want %q", row.Position, got.Body, err, want)
		}
		if got.Headers != `[["user-agent","Slackbot"]]` || got.ContentEncoding != "gzip" || got.ContentType != "application/json" {
			t.Errorf("position %d: its request is %q %q %q", row.Position, got.Headers, got.ContentType, got.ContentEncoding)
		}
	}
}

func TestQueueKeepsItsInput(t *testing.T) {
	t.Parallel()
	rows := request(3)
	Queue(&pgx.Batch{}, rows)
	for _, row := range rows {
		if !bytes.Equal(row.Body, []byte("the whole request")) {
			t.Errorf("position %d lost its body: a repeat in parts would lose the request", row.Position)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	row := aDrop()
	long := strings.Repeat("é", 5000)
	row.Detail, row.DeliveryKey, row.EventType, row.RequestHash = "x"+long, "x"+long, "x"+long, "x"+long
	row.PathSource, row.ContentType, row.ContentEncoding = "x"+long, "x"+long, "x"+long
	row.Count = 1 << 40
	keep(t, pool, row)

	got, err := NewStore(pool).Find(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]struct {
		got  string
		want int
	}{
		"detail": {got.Detail, 499}, "delivery key": {got.DeliveryKey, 511}, "event type": {got.EventType, 199},
		"hash": {got.RequestHash, 199}, "path source": {got.PathSource, 199},
		"content type": {got.ContentType, 999}, "content encoding": {got.ContentEncoding, 999},
	} {
		if len(text.got) != text.want {
			t.Errorf("%s has %d bytes, want %d", name, len(text.got), text.want)
		}
	}
	if got.Count != 1<<31-1 {
		t.Errorf("count is %d", got.Count)
	}
}

// Two gateways may write the same rows at once: a repeat, while the first transaction still runs.
func TestQueueDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	rows := request(200)
	backwards := make([]Kept, len(rows))
	for i := range rows {
		backwards[len(rows)-1-i] = rows[i]
	}
	failed := make(chan error, 2)
	for _, list := range [][]Kept{rows, backwards} {
		go func() {
			for range 20 {
				if err := writeThenRollBack(t.Context(), pool, list); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range 2 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

func writeThenRollBack(ctx context.Context, pool *pgxpool.Pool, rows []Kept) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	batch := &pgx.Batch{}
	Queue(batch, rows)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("keep %d rows: %w", len(rows), err)
	}
	return nil
}

package feed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// newPool returns a database whose inbox has the days from yesterday on.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := pgtest.Pool(t)
	if _, err := inbox.NewPartitions(pool).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return pool
}

// delivery returns a row with every field set, received at that time.
func delivery(at time.Time) Delivery {
	id := FirstID(at)
	random := uuid.New()
	copy(id[6:], random[6:])
	id[6] = 0x70
	body := []byte{0, 0xff, '{'}
	return Delivery{
		ID: id, OrganizationID: uuid.New(), Provider: "slack", JobID: uuid.New(), DeliveryKey: "job/" + id.String(),
		EventType: "message", RequestHash: "c1:abc", Headers: `[["user-agent", "Slackbot"]]`, ContentType: "application/json",
		ContentEncoding: "gzip", Body: body, Bytes: len(body), OrderingKey: "C1",
		ReceivedAt: at.UTC().Truncate(time.Microsecond), StoredAt: at.Add(time.Second).UTC().Truncate(time.Microsecond),
	}
}

func store(t *testing.T, pool *pgxpool.Pool, rows ...Delivery) {
	t.Helper()
	for _, d := range rows {
		_, err := pool.Exec(t.Context(), `
		INSERT INTO agent.webhook_deliveries (id, organization_id, provider, job_id, delivery_key, event_type, request_hash, headers,
		       content_type, content_encoding, body, ordering_key, received_at, stored_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
			d.ID, d.OrganizationID, d.Provider, d.JobID, d.DeliveryKey, d.EventType, d.RequestHash, d.Headers,
			d.ContentType, d.ContentEncoding, d.Body, d.OrderingKey, d.ReceivedAt, d.StoredAt)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	want := delivery(time.Now())
	store(t, pool, want, delivery(time.Now()))
	got, err := NewReader(pool).Find(t.Context(), want.ID)
	got.ReceivedAt, got.StoredAt = got.ReceivedAt.UTC(), got.StoredAt.UTC()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-stored +found):\n%s", err, diff)
	}
	if _, err := NewReader(pool).Find(t.Context(), uuid.New()); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown id: %v, want ErrNotFound", err)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	start := time.Now().UTC().Truncate(24 * time.Hour)
	rows := make([]Delivery, 4) // at 0, 1, 2 and 3 o'clock
	for i := range rows {
		rows[i] = delivery(start.Add(time.Duration(i) * time.Hour))
		rows[i].EventType = fmt.Sprint(i)
	}
	rows[1].Provider, rows[1].Body, rows[1].Bytes = "nylas", []byte("one"), 3
	rows[3].StoredAt = start.Add(26 * time.Hour) // driven again on the next day
	store(t, pool, rows[3], rows[1], rows[0], rows[2])
	at := func(hours float64) time.Time { return start.Add(time.Duration(hours * float64(time.Hour))) }
	for name, tt := range map[string]struct {
		filter Filter
		want   string
	}{
		"all":                   {Filter{}, "0123"},
		"ids":                   {Filter{IDs: []uuid.UUID{rows[2].ID, uuid.New(), rows[0].ID}}, "02"},
		"no ids":                {Filter{IDs: []uuid.UUID{}}, ""},
		"organization":          {Filter{Organization: rows[2].OrganizationID}, "2"},
		"provider":              {Filter{Provider: "nylas"}, "1"},
		"job":                   {Filter{Job: rows[0].JobID}, "0"},
		"keys":                  {Filter{Keys: []string{rows[3].DeliveryKey, "other", rows[1].DeliveryKey}}, "13"},
		"no keys":               {Filter{Keys: []string{}}, ""},
		"bodies":                {Filter{Bodies: [][]byte{[]byte("on"), []byte("one")}}, "1"},
		"no bodies":             {Filter{Bodies: [][]byte{}}, ""},
		"received from":         {Filter{ReceivedFrom: at(1)}, "123"},
		"received until":        {Filter{ReceivedUntil: at(1)}, "0"},
		"stored from":           {Filter{StoredFrom: rows[2].StoredAt}, "23"},
		"stored until":          {Filter{StoredUntil: rows[2].StoredAt}, "012"},
		"after":                 {Filter{After: rows[1].ID}, "23"},
		"limit":                 {Filter{Limit: 2}, "01"},
		"received and provider": {Filter{ReceivedFrom: at(0.5), ReceivedUntil: at(2.5), Provider: "slack"}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.filter.Limit == 0 {
				tt.filter.Limit = MaxList
			}
			list, err := NewReader(pool).List(t.Context(), tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, d := range list {
				got += d.EventType
				if d.Body != nil || d.Bytes != 3 {
					t.Errorf("%d bytes of a body of %d; want none of 3", len(d.Body), d.Bytes)
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	for _, limit := range []int{-1, 0, MaxList + 1} {
		if _, err := NewReader(pool).List(t.Context(), Filter{Limit: limit}); err == nil {
			t.Errorf("limit %d is accepted", limit)
		}
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	fill(t, pool, 2*MaxList+1)
	reader := NewReader(pool)
	var all []uuid.UUID
	for d, err := range reader.All(t.Context(), Filter{Provider: "slack", Limit: 7}) {
		if err != nil {
			t.Fatal(err)
		}
		if n := len(all); n > 0 && all[n-1].String() >= d.ID.String() {
			t.Fatalf("%s comes after %s", d.ID, all[n-1])
		}
		all = append(all, d.ID)
	}
	if len(all) != 2*MaxList+1 {
		t.Errorf("%d deliveries, want %d", len(all), 2*MaxList+1)
	}
	for d, err := range reader.All(t.Context(), Filter{}) {
		if d.ID != all[0] || err != nil {
			t.Errorf("the first is %s, %v; want %s", d.ID, err, all[0])
		}
		break
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for d, err := range reader.All(cancelled, Filter{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s, %v; want the one error", d.ID, err)
		}
	}
}

// A filter on a time or on ids must not read the whole inbox.
func TestListReadsThePrimaryKey(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	fill(t, pool, 20_000)
	now := time.Now()
	for name, f := range map[string]Filter{
		"received from":   {ReceivedFrom: now.Add(-time.Minute), Provider: "slack", Bodies: [][]byte{[]byte("b")}},
		"received window": {StoredFrom: now.Add(-4 * time.Hour), ReceivedFrom: now.Add(-2 * time.Hour), ReceivedUntil: now.Add(-119 * time.Minute), Keys: []string{"k"}},
		"ids":             {IDs: []uuid.UUID{uuid.New(), FirstID(now)}, StoredFrom: now.Add(-time.Hour)},
		"page":            {After: FirstID(now.Add(-5 * time.Hour)), Limit: 50},
	} {
		if f.Limit == 0 {
			f.Limit = MaxList
		}
		sql, args := f.query()
		if text, buffers := explain(t, pool, sql, args...); !strings.Contains(text, `_pkey"`) || buffers > 150 {
			t.Errorf("%s: reads %d buffers:\n%s", name, buffers, text)
		}
	}
	sql, args := (&Filter{StoredFrom: now, StoredUntil: now, Keys: []string{"k"}, Limit: 1}).query()
	if text, _ := explain(t, pool, sql, args...); strings.Count(text, `"Relation Name"`) != 1 {
		t.Errorf("an instant of stored_at reads more than its day:\n%s", text)
	}
}

// fill stores n rows, one received and stored every second of the time before now.
func fill(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
	INSERT INTO agent.webhook_deliveries (id, organization_id, provider, job_id, delivery_key, event_type, request_hash, headers,
	       content_type, content_encoding, body, ordering_key, received_at, stored_at)
	SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
	       gen_random_uuid(), 'slack', gen_random_uuid(), 'key ' || n, '', '', '[]', '', '', convert_to('body ' || n, 'UTF8'), '', at, at
	  FROM (SELECT n, now() - n * interval '1 second' FROM generate_series(1, $1::integer) n) AS r(n, at)`, n)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), `VACUUM ANALYZE agent.webhook_deliveries`); err != nil {
		t.Fatal(err)
	}
}

// explain runs a statement and returns its plan, and how many buffers it read.
func explain(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (text string, buffers int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+sql, args...).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	return text, plans[0].Plan.Hit + plans[0].Plan.Read
}

func TestFirstID(t *testing.T) {
	t.Parallel()
	first := FirstID(time.Now())
	if id := uuid.Must(uuid.NewV7()); id.String() < first.String() {
		t.Errorf("%s sorts before %s", id, first)
	}
	if before := FirstID(time.Now().Add(-time.Second)); before.String() >= first.String() {
		t.Errorf("%s does not sort before %s", before, first)
	}
}

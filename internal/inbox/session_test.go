package inbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pgtest"
	"webhook-gateway/providers"
)

// session changes what a role or a database may have as the default of a session.
func session(settings map[string]string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) {
		for name, value := range settings {
			c.ConnConfig.RuntimeParams[name] = value
		}
	}
}

func TestDaysEndAtMidnightUTC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, defaults)
	days := []time.Time{ // on which clocks change in New York
		time.Date(2025, 3, 9, 0, 0, 0, 0, time.UTC),
		time.Date(2025, 11, 2, 0, 0, 0, 0, time.UTC),
	}
	for _, day := range days {
		w.exec(fmt.Sprintf(`CREATE TABLE agent.webhook_deliveries_%s PARTITION OF agent.webhook_deliveries FOR VALUES FROM ('%s 00:00:00+00') TO ('%s 00:00:00+00')`,
			day.Format("20060102"), day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)))
	}
	config, err := pgxpool.ParseConfig(w.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	session(map[string]string{"timezone": "America/New_York", "standard_conforming_strings": "off"})(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	p := inbox.NewPartitions(pool)
	for i, day := range days {
		midnight := day.AddDate(0, 0, 1)
		for _, tt := range []struct {
			at   time.Time
			want int
		}{{midnight.Add(-30 * time.Minute), 0}, {midnight.Add(30 * time.Minute), 1}} {
			got, err := p.Retire(t.Context(), time.Since(tt.at))
			if err != nil || got != tt.want {
				t.Errorf("day %d at %s: %d days retired, want %d: %v", i, tt.at, got, tt.want, err)
			}
		}
	}
}

func TestSettleSettings(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	want := "lock_timeout=200ms statement_timeout=5s idle_in_transaction_session_timeout=5s synchronous_commit=on"
	names := []string{"lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "synchronous_commit"}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	read := make([]string, len(names))
	for i, name := range names {
		read[i] = fmt.Sprintf("'%[1]s=' || current_setting('%[1]s')", name)
	}
	// Each inbox row writes down what its transaction had.
	_, err = conn.Exec(t.Context(), `
		CREATE TABLE public.seen (settings text);
		CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		  INSERT INTO public.seen SELECT concat_ws(' ', `+strings.Join(read, ", ")+`); RETURN NEW; END $$;
		CREATE TRIGGER see BEFORE INSERT ON agent.webhook_deliveries FOR EACH ROW EXECUTE FUNCTION public.see()`)
	if err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, url, defaults, session(map[string]string{
		"synchronous_commit": "off", "lock_timeout": "0", "statement_timeout": "0", "idle_in_transaction_session_timeout": "0",
	}))
	item := w.item("alone", "a")
	w.claimed(item)
	w.settle(w.request(item)) // alone: its lease has passed
	w.settle(w.request(w.item("batch", "a")))
	rows, err := conn.Query(t.Context(), `SELECT settings FROM public.seen`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(got) != 2 || got[0] != want || got[1] != want {
		t.Errorf("settled with %q, want twice %q: %v", got, want, err)
	}
}

// claimed leaves a claim of the item's key whose lease has passed.
func (w *world) claimed(item providers.Item) {
	w.t.Helper()
	w.settle(w.request(item))
	key := idempotency.MustKey(idempotency.DeliveryKey(item.Job, item.VendorID)).String()
	w.exec(`DELETE FROM agent.webhook_deliveries WHERE delivery_key = $1`, key)
	w.exec(`TRUNCATE public.seen`)
	w.exec(`UPDATE agent.idempotency_keys SET status = 'processing', resource_type = NULL, resource_id = NULL,
	               lease_expires_at = now() - interval '1 s' WHERE key = $1`, key)
}

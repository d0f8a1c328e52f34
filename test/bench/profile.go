package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/report"
)

// profileTo writes profiles of the gateway under load (processor, allocations, waits for locks) and PostgreSQL's
// statistics of its statements.
func (b *bench) profileTo(ctx context.Context) error {
	if err := os.MkdirAll(b.profile, 0o755); err != nil {
		return err
	}
	if _, err := b.db.Pool.Exec(ctx, `CREATE EXTENSION IF NOT EXISTS pg_stat_statements`); err != nil {
		return fmt.Errorf("count PostgreSQL's statements: %w", err)
	}
	if err := b.db.Reset(ctx); err != nil {
		return err
	}
	if _, err := b.db.Pool.Exec(ctx, `SELECT pg_stat_statements_reset()`); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		done <- b.fetch(ctx, "profile?seconds="+strconv.Itoa(max(int(b.each.Seconds()), 1)), "cpu.pprof")
	}()
	var sample report.Sample
	if err := b.send(ctx, b.traffic(load.Usual, b.gateway), b.gateway, &sample); err != nil {
		return err
	}
	if err := <-done; err != nil {
		return err
	}
	if err := b.fetch(ctx, "allocs", "allocs.pprof"); err != nil {
		return err
	}
	if err := b.fetch(ctx, "mutex", "mutex.pprof"); err != nil {
		return err
	}
	return b.statements(ctx, sample.Deliveries)
}

// fetch writes a profile of the gateway to a file.
func (b *bench) fetch(ctx context.Context, profile, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.gateway.Admin+"/debug/pprof/"+profile, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	out, err := os.Create(filepath.Join(b.profile, file))
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, answer.Body); err != nil {
		return err
	}
	return out.Close()
}

// statements writes the time of the costliest statements, for each call and each delivery.
func (b *bench) statements(ctx context.Context, deliveries int) error {
	rows, err := b.db.Pool.Query(ctx, `
		SELECT calls, total_exec_time * 1000, wal_bytes::bigint, shared_blks_hit + shared_blks_read,
		       left(regexp_replace(query, '\s+', ' ', 'g'), 70)
		  FROM pg_stat_statements ORDER BY total_exec_time DESC LIMIT 12`)
	if err != nil {
		return fmt.Errorf("read the statements: %w", err)
	}
	defer rows.Close()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "calls\tµs a call\tµs a delivery\tlog a delivery\tpages a delivery\t  statement")
	for rows.Next() {
		var calls, wal, pages int64
		var micros float64
		var query string
		if err := rows.Scan(&calls, &micros, &wal, &pages, &query); err != nil {
			return err
		}
		each := func(v float64) float64 { return v / float64(max(deliveries, 1)) }
		fmt.Fprintf(table, "%d\t%.1f\t%.2f\t%.0f\t%.1f\t  %s\n",
			calls, micros/float64(max(calls, 1)), each(micros), each(float64(wal)), each(float64(pages)), strings.TrimSpace(query))
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.profile, "statements.txt"), []byte(text.String()), 0o644)
}

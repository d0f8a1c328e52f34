package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/pgtest"
)

// crowd is a database of a hundred sources and a hundred thousand jobs.
func crowd(b *testing.B) (*pgxpool.Pool, *Keys) {
	b.Helper()
	pool, keys := pgtest.Pool(b), mustKeys(b, 1)
	_, err := pool.Exec(b.Context(), `INSERT INTO agent.provider_sources (id, provider, name)
		SELECT gen_random_uuid(), 'slack', 's' || n FROM generate_series(1, 100) n`)
	if err == nil {
		_, err = pool.Exec(b.Context(), `INSERT INTO agent.provider_jobs (id, organization_id, provider, source_id, identity)
			SELECT gen_random_uuid(), gen_random_uuid(), 'slack', s.id, jsonb_build_object('team_id', 'T' || n)
			  FROM generate_series(1, 1000) n, agent.provider_sources s`)
	}
	if err == nil {
		_, err = pool.Exec(b.Context(), `ANALYZE agent.provider_jobs, agent.provider_sources`)
	}
	if err != nil {
		b.Fatal(err)
	}
	return pool, keys
}

// BenchmarkRead is what the directory costs with 100,000 jobs: the start and once a minute, every poll
// when nothing changed, and a look-up.
func BenchmarkRead(b *testing.B) {
	pool, keys := crowd(b)
	d := NewDirectory(pool, keys, slog.New(slog.DiscardHandler), nil)
	read := func(b *testing.B, now time.Time) {
		b.Helper()
		if err := d.read(context.Background(), now); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("everything", func(b *testing.B) {
		for b.Loop() {
			d.reader.at = ""
			read(b, time.Now())
		}
	})
	b.Run("nothing changed", func(b *testing.B) {
		for b.Loop() {
			read(b, d.reader.reload.Add(-time.Second))
		}
	})
	for what, change := range map[string]string{
		"source": `UPDATE agent.provider_sources SET rotating_until = now() WHERE name = 's1'`,
		"job":    `UPDATE agent.provider_jobs SET closed_at = closed_at WHERE id = (SELECT min(id::text)::uuid FROM agent.provider_jobs)`,
	} {
		b.Run("one "+what+" changed", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				if _, err := pool.Exec(context.Background(), change); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				read(b, d.reader.reload.Add(-time.Second))
			}
		})
	}
	source, _ := d.Current().Source("slack", "s50")
	names := make([]Identity, 1000)
	for i := range names {
		names[i] = Identity{"team_id", fmt.Sprint("T", i+1)}
	}
	b.Run("look-up", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				if _, ok := d.Current().JobFor(source.ID, names[i%len(names)]); !ok || source.ID == uuid.Nil {
					b.Error("not found")
				}
			}
		})
	})
}

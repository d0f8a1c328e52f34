package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// daysAhead is how far ahead days are created: a gateway that cannot create one for a week still stores.
const daysAhead = 7

// The lock that lets one gateway at a time change the partitions. It is only tried, never waited for.
const partitionsLock = 0x6a7765_01

// Partitions creates and drops the days of agent.webhook_deliveries.
type Partitions struct {
	pool *pgxpool.Pool
}

// NewPartitions returns the partitions of the inbox in the pool's database.
func NewPartitions(pool *pgxpool.Pool) *Partitions { return &Partitions{pool: pool} }

// Ensure creates the days from yesterday to a week ahead, by the database's clock, and returns how many it created. If
// another gateway is creating them now, it creates none and returns no error.
func (p *Partitions) Ensure(ctx context.Context) (made int, err error) {
	days, err := p.missing(ctx)
	if err != nil {
		return 0, fmt.Errorf("list missing inbox days: %w", err)
	}
	for _, day := range days {
		ok, err := p.make(ctx, day)
		if err != nil {
			return made, fmt.Errorf("make inbox day %s: %w", dayName(day), err)
		}
		if ok {
			made++
		}
	}
	return made, nil
}

func (p *Partitions) missing(ctx context.Context) ([]time.Time, error) {
	// Yesterday too: a clock that is set back must find its day.
	const sql = `
		SELECT day FROM generate_series(
		         date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') - interval '1 day',
		         date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') + make_interval(days => $1),
		         interval '1 day') AS day
		 WHERE to_regclass('agent.webhook_deliveries_' || to_char(day, 'YYYYMMDD')) IS NULL
		 ORDER BY day`
	rows, err := p.pool.Query(ctx, sql, daysAhead)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[time.Time])
}

// Until returns the start of the first day without a partition, today or later, by the database's clock: nothing can be
// stored from then on.
func (p *Partitions) Until(ctx context.Context) (time.Time, error) {
	const sql = `
		SELECT min(day) AT TIME ZONE 'UTC'
		  FROM generate_series(0, $1) AS ahead,
		       LATERAL (SELECT date_trunc('day', clock_timestamp() AT TIME ZONE 'UTC') + make_interval(days => ahead)) AS d(day)
		 WHERE ahead = $1 OR to_regclass('agent.webhook_deliveries_' || to_char(day, 'YYYYMMDD')) IS NULL`
	var until time.Time
	if err := p.pool.QueryRow(ctx, sql, daysAhead+1).Scan(&until); err != nil {
		return until, fmt.Errorf("look how far the inbox days reach: %w", err)
	}
	return until, nil
}

// make creates one day and attaches it: unlike CREATE TABLE … PARTITION OF, an attach lets inserts go on.
func (p *Partitions) make(ctx context.Context, day time.Time) (made bool, err error) {
	err = pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		var alone, there bool
		if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock($1)`, partitionsLock).Scan(&alone); err != nil || !alone {
			return err
		}
		// A separate statement that reads the catalog itself: a statement that began before the lock was taken, or
		// to_regclass with its cache, may not see what the last holder created.
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_class
			WHERE relnamespace = 'agent'::regnamespace AND relname = $1)`, dayName(day)).Scan(&there)
		if err != nil || there {
			return err
		}
		made = true
		return createDay(ctx, tx, day)
	})
	return made && err == nil, err
}

func createDay(ctx context.Context, tx pgx.Tx, day time.Time) error {
	for _, sql := range daySQL(day) {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func daySQL(day time.Time) []string {
	table := pgx.Identifier{"agent", dayName(day)}.Sanitize()
	from, to := day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)
	return []string{
		fmt.Sprintf(`CREATE TABLE %s (LIKE agent.webhook_deliveries INCLUDING ALL)`, table),
		fmt.Sprintf(`ALTER TABLE agent.webhook_deliveries ATTACH PARTITION %s FOR VALUES FROM ('%s 00:00:00+00') TO ('%s 00:00:00+00')`, table, from, to),
	}
}

// Retire drops the days that ended longer ago than retention. It skips a day in use (by a reader in a long transaction)
// until the next run: waiting for the lock would stop all inserts.
func (p *Partitions) Retire(ctx context.Context, retention time.Duration) (dropped int, err error) {
	days, err := p.past(ctx, retention)
	if err != nil {
		return 0, fmt.Errorf("list past inbox days: %w", err)
	}
	for _, name := range days {
		err := pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '100ms'; DROP TABLE IF EXISTS `+pgx.Identifier{"agent", name}.Sanitize())
			return err
		})
		if isLockTimeout(err) {
			continue
		}
		if err != nil {
			return dropped, fmt.Errorf("drop inbox day %s: %w", name, err)
		}
		dropped++
	}
	return dropped, nil
}

// Backlog counts the days past retention that still exist.
func (p *Partitions) Backlog(ctx context.Context, retention time.Duration) (int, error) {
	days, err := p.past(ctx, retention)
	return len(days), err
}

func (p *Partitions) past(ctx context.Context, retention time.Duration) ([]string, error) {
	const sql = `
		SELECT c.relname::text
		  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		 WHERE i.inhparent = 'agent.webhook_deliveries'::regclass
		   AND c.relname ~ '^webhook_deliveries_[0-9]{8}$'
		   AND (to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp + interval '1 day') AT TIME ZONE 'UTC' <= least(clock_timestamp(), $2) - $1::interval
		 ORDER BY c.relname`
	// The day is added without a time zone: with one, a day has 23 hours when clocks are set forward. Of two clocks the
	// earlier counts: a clock that has jumped ahead must not empty the inbox.
	rows, err := p.pool.Query(ctx, sql, retention, time.Now())
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func dayName(day time.Time) string { return "webhook_deliveries_" + day.Format("20060102") }

// makeDay makes the missing day of the inbox. It reports whether a repeat can succeed at once.
func (b *Inbox) makeDay() bool {
	ctx, cancel := context.WithTimeoutCause(b.running, roundTrip, errRoundTrip)
	defer cancel()
	made, err := b.partitions.Ensure(ctx)
	if err != nil {
		b.log.Error("inbox day not made", "err", err)
	}
	return made > 0
}

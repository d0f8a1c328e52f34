// Package preflight checks that a database can be used, before the gateway receives anything.
package preflight

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pg"
	"webhook-gateway/jobs"
	"webhook-gateway/migrations"
	"webhook-gateway/providers"
)

// Target is a database to check.
type Target struct {
	Pool           *pgxpool.Pool
	URL            string // of the same database
	Keys           *jobs.Keys
	AcceptFsyncOff bool
}

// Check refuses a database that must not be used: a server that could lose what was committed or takes no writes, a
// schema that lacks migrations, or secrets that Keys does not open (jobs.ErrKeys).
func Check(ctx context.Context, t Target) error {
	if err := idempotency.CheckServer(ctx, t.Pool, idempotency.ServerOptions{AcceptFsyncOff: t.AcceptFsyncOff}); err != nil {
		return err
	}
	pending, err := migrations.Pending(ctx, t.URL)
	if err != nil {
		return err
	}
	if pending > 0 {
		return fmt.Errorf("the database lacks %d migrations: run gateway migrate up", pending)
	}
	return jobs.CheckKeys(ctx, t.Pool, t.Keys)
}

// Database describes the database that Try found.
type Database struct {
	pg.Server
	Schema      int64   `json:"schema_version"` // the last migration; 0: none
	Newer       bool    `json:"schema_newer"`   // the last migration is from a later build
	RoundTripMS float64 `json:"round_trip_ms"`
}

// String describes the database to people.
func (d *Database) String() string {
	text := fmt.Sprintf("%s, database %s, role %s", d.Version, d.Database, d.Role)
	switch {
	case d.Standby:
		text += ", standby"
	case d.ReadOnly:
		text += ", read-only"
	default:
		text += ", primary"
	}
	if d.Pooler {
		text += ", behind a pooler"
	}
	text += fmt.Sprintf(", schema %d", d.Schema)
	if d.Newer {
		text += " (newer than this build)"
	}
	return text + fmt.Sprintf(", round trip %.1f ms", d.RoundTripMS)
}

// Try does to the database what serve does for a delivery of the provider, and rolls it back. It returns what it
// found, nil if no server answers. The error joins every problem.
func Try(ctx context.Context, t Target, vendor providers.Provider) (*Database, error) {
	server, err := pg.Describe(ctx, t.Pool)
	if err != nil {
		return nil, pg.Unavailable(err)
	}
	found := &Database{Server: server, RoundTripMS: float64(server.RoundTrip.Microseconds()) / 1000}
	states, err := migrations.Status(ctx, t.URL)
	for _, s := range states {
		if !s.AppliedAt.IsZero() {
			found.Schema, found.Newer = s.Version, s.Newer
		}
	}
	if err == nil {
		err = Check(ctx, t)
	}
	if err != nil {
		return found, pg.Unavailable(err)
	}
	_, err = jobs.Read(ctx, t.Pool, t.Keys)
	return found, errors.Join(err, inbox.Try(ctx, t.Pool, vendor))
}

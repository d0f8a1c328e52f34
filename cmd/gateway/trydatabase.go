package main

import (
	"context"
	"errors"
	"fmt"

	"webhook-gateway/configs"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pg"
	"webhook-gateway/jobs"
	"webhook-gateway/migrations"
)

// databaseJSON is the result of config check --connect for DATABASE_URL.
type databaseJSON struct {
	pg.Server
	Schema      int64   `json:"schema_version"` // of the last migration; 0: none
	Newer       bool    `json:"schema_newer"`   // that one is of a later build
	RoundTripMS float64 `json:"round_trip_ms"`
}

func (d *databaseJSON) String() string {
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

// tryDatabase does to the database what serve does, and rolls it back. It returns its findings, nil if nothing answers,
// and every problem.
func tryDatabase(ctx context.Context, cfg configs.Config) (*databaseJSON, error) {
	keys, err := jobs.NewKeys(cfg.SecretsKey.Reveal())
	if err != nil {
		return nil, err
	}
	pool, err := connect(ctx, cfg.DatabaseURL.Reveal(), 2)
	if err != nil {
		return nil, err
	}
	defer pg.Close(pool)
	server, err := pg.Describe(ctx, pool)
	if err != nil {
		return nil, pg.Unavailable(err)
	}
	found := &databaseJSON{Server: server, RoundTripMS: milliseconds(server.RoundTrip)}
	states, err := migrations.Status(ctx, cfg.DatabaseURL.Reveal())
	for _, s := range states {
		if !s.AppliedAt.IsZero() {
			found.Schema, found.Newer = s.Version, s.Newer
		}
	}
	if err == nil {
		err = checkDatabase(ctx, cfg, pool, keys)
	}
	if err != nil {
		return found, pg.Unavailable(err)
	}
	// Read them like serve.
	_, err = jobs.Read(ctx, pool, keys)
	return found, errors.Join(append([]error{err}, joined(inbox.Try(ctx, pool, wiredNames()[0]))...)...)
}

package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// StoredSource is a source as the database holds it, for people to read.
type StoredSource struct {
	ID       uuid.UUID
	Provider string
	Name     string
	Pins     []Identity // sorted by name
	Secrets  int        // how many are live
	// RotatingUntil is set while a rotation is declared open.
	RotatingUntil *time.Time
	ActiveJobs    int
	CreatedAt     time.Time
}

// NewSource is the input of AddSource.
type NewSource struct {
	Provider string
	Name     string
	Pins     []Identity
	Secret   Secret // zero: none yet; until one is set its calls are answered 503
}

const sourceColumns = `s.id, s.provider, s.name, s.identity, cardinality(s.secrets),
	CASE WHEN s.rotating_until > clock_timestamp() THEN s.rotating_until END,
	(SELECT count(*) FROM agent.provider_jobs j WHERE j.source_id = s.id AND j.closed_at IS NULL), s.created_at`

func scanSource(row pgx.CollectableRow) (StoredSource, error) {
	var s StoredSource
	var identity map[string]string
	err := row.Scan(&s.ID, &s.Provider, &s.Name, &identity, &s.Secrets, &s.RotatingUntil, &s.ActiveJobs, &s.CreatedAt)
	s.Pins = pinned(identity)
	return s, err
}

// first collects at most one row.
func first[T any](rows pgx.Rows) (value T, found bool, err error) {
	value, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if errors.Is(err, pgx.ErrNoRows) {
		return value, false, nil
	}
	return value, err == nil, err
}

// AddSource stores a new source. The error wraps ErrExists if the provider has one with that name, and ErrInvalid if a
// part is not acceptable.
func (s *Store) AddSource(ctx context.Context, n NewSource) (StoredSource, error) {
	if err := checkProvider(n.Provider); err != nil {
		return StoredSource{}, err
	}
	if !ValidName(n.Name) {
		return StoredSource{}, fmt.Errorf("%w: a source cannot be named %.120q; take 1 to 100 letters, digits, dots, underscores and hyphens, a letter or digit first",
			ErrInvalid, n.Name)
	}
	if err := checkPins(n.Pins); err != nil {
		return StoredSource{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return StoredSource{}, fmt.Errorf("mint a source's id: %w", err)
	}
	secrets, err := s.seal(holder{kind: BySource, id: id, provider: n.Provider}, n.Secret)
	if err != nil {
		return StoredSource{}, err
	}
	_, err = s.pool.Exec(ctx, `INSERT INTO agent.provider_sources (id, provider, name, identity, secrets)
		VALUES ($1, $2, $3, $4, $5)`, id, n.Provider, n.Name, object(n.Pins), secrets)
	if violates(err, "provider_sources_named") {
		return StoredSource{}, fmt.Errorf("%w: %s has a source named %q; choose another name, or change that one with set-secret",
			ErrExists, n.Provider, n.Name)
	}
	if err != nil {
		return StoredSource{}, fmt.Errorf("add source %q: %w", n.Name, err)
	}
	return s.sourceByID(ctx, id)
}

// ListSources returns the provider's sources that are not removed, newest first; of every provider when
// provider is empty.
func (s *Store) ListSources(ctx context.Context, provider string) ([]StoredSource, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+sourceColumns+` FROM agent.provider_sources s
		WHERE s.removed_at IS NULL AND ($1 = '' OR s.provider = $1)
		ORDER BY s.created_at DESC, s.id DESC`, provider)
	if err != nil {
		return nil, fmt.Errorf("list sources: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanSource)
	if err != nil {
		return nil, fmt.Errorf("list sources: %w", err)
	}
	return list, nil
}

// Source returns the provider's source of that name. The error wraps ErrNotFound.
func (s *Store) Source(ctx context.Context, provider, name string) (StoredSource, error) {
	source, err := s.findSource(ctx, `s.provider = $1 AND s.name = $2`, provider, name)
	if errors.Is(err, pgx.ErrNoRows) {
		return StoredSource{}, noSource(provider, name)
	}
	return source, err
}

func noSource(provider, name string) error {
	return fmt.Errorf("%w: %s has no source named %.120q; see them with sources list", ErrNotFound, provider, name)
}

func (s *Store) sourceByID(ctx context.Context, id uuid.UUID) (StoredSource, error) {
	source, err := s.findSource(ctx, `s.id = $1`, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return StoredSource{}, fmt.Errorf("%w: there is no source %s; see them with sources list", ErrNotFound, id)
	}
	return source, err
}

func (s *Store) findSource(ctx context.Context, where string, args ...any) (StoredSource, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+sourceColumns+` FROM agent.provider_sources s
		WHERE s.removed_at IS NULL AND `+where, args...)
	if err != nil {
		return StoredSource{}, fmt.Errorf("find a source: %w", err)
	}
	source, err := pgx.CollectExactlyOneRow(rows, scanSource)
	if err != nil {
		return StoredSource{}, fmt.Errorf("find a source: %w", err)
	}
	return source, nil
}

// RemoveSource removes a source and deletes its secrets. From then on its URL and those of its closed jobs are unknown,
// and its name is free. The error wraps ErrNotFound, or ErrInvalid while it has active jobs.
func (s *Store) RemoveSource(ctx context.Context, provider, name string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// Locked first and counted by a second statement: AddJob holds the row while it adds a job, and only a
		// statement that starts after it has ended sees that job.
		rows, err := tx.Query(ctx, `SELECT id FROM agent.provider_sources
			WHERE provider = $1 AND name = $2 AND removed_at IS NULL FOR UPDATE`, provider, name)
		if err != nil {
			return fmt.Errorf("lock source %q: %w", name, err)
		}
		id, found, err := first[uuid.UUID](rows)
		if err != nil {
			return fmt.Errorf("lock source %q: %w", name, err)
		}
		if !found {
			return noSource(provider, name)
		}
		var active int
		err = tx.QueryRow(ctx, `SELECT count(*) FROM agent.provider_jobs
			WHERE source_id = $1 AND closed_at IS NULL`, id).Scan(&active)
		if err != nil {
			return fmt.Errorf("count jobs of source %q: %w", name, err)
		}
		if active > 0 {
			return fmt.Errorf("%w: the %s source %q has active jobs, %d of them; close each first (jobs list, then jobs close)",
				ErrInvalid, provider, name, active)
		}
		_, err = tx.Exec(ctx, `UPDATE agent.provider_sources
			SET removed_at = clock_timestamp(), secrets = '{}', rotating_until = NULL WHERE id = $1`, id)
		if err != nil {
			return fmt.Errorf("remove source %q: %w", name, err)
		}
		return nil
	})
}

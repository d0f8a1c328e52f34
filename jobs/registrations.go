package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// StoredJob is a job as the database holds it, for people to read.
type StoredJob struct {
	ID           uuid.UUID
	Organization uuid.UUID
	Provider     string
	SourceID     uuid.UUID  // zero: the job has its own secrets
	Source       string     // the name of that source, even if it was removed
	Pins         []Identity // sorted by name
	Fallback     bool
	Secrets      int // number of its own live ones
	// RotatingUntil is set while a rotation is declared open.
	RotatingUntil *time.Time
	CreatedAt     time.Time
	ClosedAt      *time.Time // nil: active
}

// NewJob is the input of AddJob.
type NewJob struct {
	Provider     string
	Organization uuid.UUID
	// Source names the provider's source that the job belongs to. Empty: the job has its own secrets.
	Source string
	// Pins names the tenant: exactly one identity under a source, any number otherwise.
	Pins []Identity
	// Fallback makes the job its source's fallback, for calls that name no tenant.
	Fallback bool
	// Secret is the job's own; zero: none yet, or it belongs to a source.
	Secret Secret
}

// JobFilter says which jobs to list. The zero filter lists every active one.
type JobFilter struct {
	Provider     string
	Source       string // a source's name; also of a removed one
	Organization uuid.UUID
	Pin          Identity
	Closed       bool // also closed ones
}

const jobColumns = `j.id, j.organization_id, j.provider, coalesce(j.source_id, '00000000-0000-0000-0000-000000000000'),
	coalesce(s.name, ''), j.identity, j.fallback, cardinality(j.secrets),
	CASE WHEN j.rotating_until > clock_timestamp() THEN j.rotating_until END, j.created_at, j.closed_at
	FROM agent.provider_jobs j LEFT JOIN agent.provider_sources s ON s.id = j.source_id`

func scanJob(row pgx.CollectableRow) (StoredJob, error) {
	var j StoredJob
	var identity map[string]string
	err := row.Scan(&j.ID, &j.Organization, &j.Provider, &j.SourceID, &j.Source, &identity, &j.Fallback,
		&j.Secrets, &j.RotatingUntil, &j.CreatedAt, &j.ClosedAt)
	j.Pins = pinned(identity)
	return j, err
}

func (n *NewJob) check() error {
	if err := checkProvider(n.Provider); err != nil {
		return err
	}
	if err := checkPins(n.Pins); err != nil {
		return err
	}
	switch {
	case n.Organization == uuid.Nil:
		return fmt.Errorf("%w: a job belongs to an organization; give its UUID", ErrInvalid)
	case n.Source == "" && n.Fallback:
		return fmt.Errorf("%w: only a job of a source can be its fallback", ErrInvalid)
	case n.Source != "" && !n.Secret.IsZero():
		return fmt.Errorf("%w: a job of a source has no own secret; give the source or the secret, not both", ErrInvalid)
	case n.Source != "" && len(n.Pins) != 1:
		return fmt.Errorf("%w: a job of a source pins exactly one identity of its tenant, like team_id=T123, and not %d",
			ErrInvalid, len(n.Pins))
	}
	return nil
}

// AddJob stores a new job. The error wraps ErrNotFound if there is no such source, ErrExists if another active job
// there pins the same tenant or is the fallback, and ErrInvalid if a part is not acceptable.
func (s *Store) AddJob(ctx context.Context, n NewJob) (StoredJob, error) {
	if err := n.check(); err != nil {
		return StoredJob{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return StoredJob{}, fmt.Errorf("mint a job's id: %w", err)
	}
	if n.Source == "" {
		err = s.addOwnJob(ctx, id, n)
	} else {
		err = s.addSourceJob(ctx, id, n)
	}
	if err != nil {
		return StoredJob{}, err
	}
	return s.Job(ctx, id)
}

func (s *Store) addOwnJob(ctx context.Context, id uuid.UUID, n NewJob) error {
	secrets, err := s.seal(holder{kind: ByJob, id: id, provider: n.Provider, organization: n.Organization}, n.Secret)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `INSERT INTO agent.provider_jobs (id, organization_id, provider, identity, secrets)
		VALUES ($1, $2, $3, $4, $5)`, id, n.Organization, n.Provider, object(n.Pins), secrets)
	if err != nil {
		return fmt.Errorf("add a job: %w", err)
	}
	return nil
}

// The source's row is locked against RemoveSource until the job is inserted.
const addSourceJob = `
WITH source AS (
  SELECT id FROM agent.provider_sources
   WHERE provider = $3 AND name = $4 AND removed_at IS NULL FOR SHARE)
INSERT INTO agent.provider_jobs (id, organization_id, provider, source_id, identity, fallback)
SELECT $1, $2, $3, source.id, $5, $6 FROM source`

func (s *Store) addSourceJob(ctx context.Context, id uuid.UUID, n NewJob) error {
	done, err := s.pool.Exec(ctx, addSourceJob, id, n.Organization, n.Provider, n.Source, object(n.Pins), n.Fallback)
	switch {
	case violates(err, "provider_jobs_tenant"):
		return fmt.Errorf("%w: the %s source %q has an active job for %s=%s%s; close that one first (jobs close)",
			ErrExists, n.Provider, n.Source, n.Pins[0].Name, n.Pins[0].Value,
			s.holderOf(ctx, n, `j.identity = $3::jsonb`, object(n.Pins)))
	case violates(err, "provider_jobs_one_fallback"):
		return fmt.Errorf("%w: the %s source %q has a fallback job%s; close that one first (jobs close), or add this one without --fallback",
			ErrExists, n.Provider, n.Source, s.holderOf(ctx, n, `j.fallback AND $3::boolean`, true))
	case err != nil:
		return fmt.Errorf("add a job: %w", err)
	case done.RowsAffected() == 0:
		return noSource(n.Provider, n.Source)
	}
	return nil
}

// holderOf names the conflicting job, for an error's text: empty if it cannot be found.
func (s *Store) holderOf(ctx context.Context, n NewJob, where string, arg any) string {
	var id uuid.UUID
	err := s.pool.QueryRow(ctx, `SELECT j.id FROM agent.provider_jobs j JOIN agent.provider_sources s ON s.id = j.source_id
		WHERE s.provider = $1 AND s.name = $2 AND s.removed_at IS NULL AND j.closed_at IS NULL AND `+where,
		n.Provider, n.Source, arg).Scan(&id)
	if err != nil {
		return ""
	}
	return ", " + id.String()
}

// ListJobs returns the jobs that match the filter, newest first.
func (s *Store) ListJobs(ctx context.Context, f JobFilter) ([]StoredJob, error) {
	pin := map[string]string{}
	if f.Pin != (Identity{}) {
		pin[f.Pin.Name] = f.Pin.Value
	}
	rows, err := s.pool.Query(ctx, `SELECT `+jobColumns+`
		WHERE ($1 = '' OR j.provider = $1) AND ($2 = '' OR s.name = $2)
		  AND ($3 = '00000000-0000-0000-0000-000000000000'::uuid OR j.organization_id = $3)
		  AND j.identity @> $4 AND ($5 OR j.closed_at IS NULL)
		ORDER BY j.created_at DESC, j.id DESC`, f.Provider, f.Source, f.Organization, pin, f.Closed)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanJob)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return list, nil
}

// Job returns a job, active or closed. The error wraps ErrNotFound.
func (s *Store) Job(ctx context.Context, id uuid.UUID) (StoredJob, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+jobColumns+` WHERE j.id = $1`, id)
	if err != nil {
		return StoredJob{}, fmt.Errorf("find job: %w", err)
	}
	job, err := pgx.CollectExactlyOneRow(rows, scanJob)
	if errors.Is(err, pgx.ErrNoRows) {
		return StoredJob{}, fmt.Errorf("%w: there is no job %s; see them with jobs list", ErrNotFound, id)
	}
	if err != nil {
		return StoredJob{}, fmt.Errorf("find job: %w", err)
	}
	return job, nil
}

// CloseJob closes a job: it gets no more deliveries, and its late calls are verified and dropped. A closed job stays as
// it was. The error wraps ErrNotFound.
func (s *Store) CloseJob(ctx context.Context, id uuid.UUID) error {
	done, err := s.pool.Exec(ctx, `UPDATE agent.provider_jobs SET closed_at = clock_timestamp()
		WHERE id = $1 AND closed_at IS NULL`, id)
	if err != nil {
		return fmt.Errorf("close job: %w", err)
	}
	if done.RowsAffected() == 0 {
		_, err = s.Job(ctx, id)
	}
	return err
}

package jobs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The errors with which the Store refuses, each wrapped with a text that says what to do.
var (
	ErrNotFound = errors.New("not found")
	ErrExists   = errors.New("exists already")
	ErrInvalid  = errors.New("invalid")
)

const (
	// MaxRotation is the maximum duration of a declared rotation: meanwhile forgeries get the same answer as calls that
	// come too early.
	MaxRotation = time.Hour

	maxIdentityBytes = 200
	maxPins          = 16
)

var providerForm = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// ValidName reports whether the name is valid for a source: 1 to 100 letters, digits, dots, underscores and hyphens,
// the first a letter or digit.
func ValidName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return 0 < len(name) && len(name) <= 100
}

// Store writes sources and jobs, and reads them for people. The receiver reads the Directory instead. It is safe for
// concurrent use, also by several processes.
type Store struct {
	pool *pgxpool.Pool
	keys *Keys
}

// NewStore returns a Store that seals with keys. With nil keys it can list, close and remove, but refuses to store a
// secret.
func NewStore(pool *pgxpool.Pool, keys *Keys) *Store { return &Store{pool: pool, keys: keys} }

// seal returns the value of a new row's secrets column: the sealed secret, or nothing if none is given.
func (s *Store) seal(of holder, secret Secret) ([][]byte, error) {
	if secret.IsZero() {
		return [][]byte{}, nil
	}
	if s.keys == nil {
		return nil, fmt.Errorf("%w: a secret cannot be sealed without %s; %s", ErrInvalid, keysSetting, makeKey)
	}
	return [][]byte{s.keys.seal(of, secret)}, nil
}

// holderTable holds the parts in which the statements for the two tables differ.
type holderTable struct {
	name         string
	live         string // which of its rows hold their own secrets
	organization string // the row's owner
}

func tableOf(kind VerifierKind) holderTable {
	if kind == BySource {
		return holderTable{sourcesTable, "removed_at IS NULL", "'00000000-0000-0000-0000-000000000000'::uuid"}
	}
	return holderTable{jobsTable, "source_id IS NULL", "organization_id"}
}

// holder returns what the secrets of a source or job are bound to; found is false if it is gone or its source holds its
// secrets.
func (s *Store) holder(ctx context.Context, of Verifier) (h holder, found bool, err error) {
	t := tableOf(of.Kind)
	h = holder{kind: of.Kind, id: of.ID}
	err = s.pool.QueryRow(ctx, `SELECT provider, `+t.organization+` FROM `+t.name+` WHERE id = $1 AND `+t.live, of.ID).
		Scan(&h.provider, &h.organization)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, false, nil
	}
	if err != nil {
		return h, false, fmt.Errorf("find %s %s: %w", of.Kind, of.ID, err)
	}
	return h, true, nil
}

// SetSecret makes the secret the current one of a source, or of a job that has its own secrets, and ends a declared
// rotation. The previous secrets stay live unless dropPrevious. The error wraps ErrNotFound, or ErrInvalid if
// MaxSecrets are live already or the job belongs to a source.
func (s *Store) SetSecret(ctx context.Context, of Verifier, secret Secret, dropPrevious bool) error {
	if secret.IsZero() {
		return fmt.Errorf("%w: no secret given", ErrInvalid)
	}
	t := tableOf(of.Kind)
	h, found, err := s.holder(ctx, of)
	if err != nil {
		return err
	}
	if !found {
		return s.whyNone(ctx, of)
	}
	sealed, err := s.seal(h, secret)
	if err != nil {
		return err
	}
	// One statement, so that two secrets that are set at once are both kept.
	done, err := s.pool.Exec(ctx, `UPDATE `+t.name+`
		SET secrets = CASE WHEN $3 THEN $2 ELSE $2 || secrets END, rotating_until = NULL
		WHERE id = $1 AND `+t.live+` AND ($3 OR cardinality(secrets) < $4)`, of.ID, sealed, dropPrevious, MaxSecrets)
	if err != nil {
		return fmt.Errorf("set the secret of %s %s: %w", of.Kind, of.ID, err)
	}
	if done.RowsAffected() == 1 {
		return nil
	}
	if err := s.whyNone(ctx, of); err != nil {
		return err
	}
	return fmt.Errorf("%w: %s %s has %d live secrets, as many as there may be; drop the previous ones first (set-secret --drop-previous)",
		ErrInvalid, of.Kind, of.ID, MaxSecrets)
}

// DropPrevious leaves the secret set last as the only live one. Without previous ones it changes nothing.
func (s *Store) DropPrevious(ctx context.Context, of Verifier) error {
	t := tableOf(of.Kind)
	done, err := s.pool.Exec(ctx, `UPDATE `+t.name+` SET secrets = trim_array(secrets, greatest(cardinality(secrets) - 1, 0))
		WHERE id = $1 AND `+t.live, of.ID)
	if err != nil {
		return fmt.Errorf("drop previous secrets of %s %s: %w", of.Kind, of.ID, err)
	}
	if done.RowsAffected() == 0 {
		return s.whyNone(ctx, of)
	}
	return nil
}

// OpenRotation declares that the vendor may sign with a secret that is not set yet: for the duration, at most
// MaxRotation, or until a secret is set, a mismatch proves nothing. It returns when the rotation ends, by the
// database's clock.
func (s *Store) OpenRotation(ctx context.Context, of Verifier, d time.Duration) (time.Time, error) {
	if d <= 0 || d > MaxRotation {
		return time.Time{}, fmt.Errorf("%w: a rotation is open for more than nothing and at most %s, not %s", ErrInvalid, MaxRotation, d)
	}
	t := tableOf(of.Kind)
	rows, err := s.pool.Query(ctx, `UPDATE `+t.name+` SET rotating_until = clock_timestamp() + $2::interval
		WHERE id = $1 AND `+t.live+` RETURNING rotating_until`, of.ID, d)
	if err != nil {
		return time.Time{}, fmt.Errorf("open a rotation of %s %s: %w", of.Kind, of.ID, err)
	}
	until, found, err := first[time.Time](rows)
	if err != nil {
		return time.Time{}, fmt.Errorf("open a rotation of %s %s: %w", of.Kind, of.ID, err)
	}
	if !found {
		return time.Time{}, s.whyNone(ctx, of)
	}
	return until, nil
}

// whyNone says why a source or job has no own secrets to change; nil if it has.
func (s *Store) whyNone(ctx context.Context, of Verifier) error {
	if of.Kind == BySource {
		_, err := s.sourceByID(ctx, of.ID)
		return err
	}
	job, err := s.Job(ctx, of.ID)
	if err == nil && job.SourceID != uuid.Nil {
		return fmt.Errorf("%w: job %s has no own secrets: its calls are verified with those of the %s source %q; set them there",
			ErrInvalid, of.ID, job.Provider, job.Source)
	}
	return err
}

// checkPins reports whether identities can be pinned.
func checkPins(pins []Identity) error {
	if len(pins) > maxPins {
		return fmt.Errorf("%w: %d identities are pinned, %d at most are taken", ErrInvalid, len(pins), maxPins)
	}
	for i, p := range pins {
		for _, text := range []string{p.Name, p.Value} {
			if text == "" || len(text) > maxIdentityBytes || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
				return fmt.Errorf("%w: the identity %.220q has a name and a value of 1 to %d bytes of text each, like team_id=T123",
					ErrInvalid, p.Name+"="+p.Value, maxIdentityBytes)
			}
		}
		if slices.ContainsFunc(pins[:i], func(q Identity) bool { return q.Name == p.Name }) {
			return fmt.Errorf("%w: the identity %q is given twice", ErrInvalid, p.Name)
		}
	}
	return nil
}

func checkProvider(provider string) error {
	if !providerForm.MatchString(provider) {
		return fmt.Errorf("%w: %.40q is not a provider name", ErrInvalid, provider)
	}
	return nil
}

// object is a set of identities as the database keeps it.
func object(pins []Identity) map[string]string {
	o := make(map[string]string, len(pins))
	for _, p := range pins {
		o[p.Name] = p.Value
	}
	return o
}

// pinned is the reverse of object, sorted by name.
func pinned(o map[string]string) []Identity {
	pins := make([]Identity, 0, len(o))
	for name, value := range o {
		pins = append(pins, Identity{Name: name, Value: value})
	}
	slices.SortFunc(pins, func(a, b Identity) int { return strings.Compare(a.Name, b.Name) })
	return pins
}

// violates reports whether the error is the database's refusal by that constraint or unique index.
func violates(err error, constraint string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.ConstraintName == constraint
}

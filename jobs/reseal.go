package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Resealed is the result of Reseal. A row is a source or a job that holds secrets.
type Resealed struct {
	KeyID    string     `json:"key_id"`   // of the key that seals
	Resealed int        `json:"resealed"` // rows sealed again
	Current  int        `json:"current"`  // rows that were already sealed with the first key
	Unopened []Unopened `json:"unopened"` // rows with secrets that no key opens; they stay unchanged
}

// Unopened is a row with secrets that do not open.
type Unopened struct {
	Holder  VerifierKind `json:"holder"`
	ID      uuid.UUID    `json:"id"`
	Secrets int          `json:"secrets"`
}

// A row that others write during each of so many tries is an error, not skipped silently.
const resealTries = 20

var errBusy = errors.New("its secrets are being set by others again and again")

// Reseal seals the secrets of every source and job again with the first key, including closed jobs. It leaves alone
// those already sealed so. It is safe beside gateways and other writers: a row that has changed since it was read is
// read again. With dryRun it only reports what it would do. The result is valid beside an error too.
func (s *Store) Reseal(ctx context.Context, dryRun bool) (Resealed, error) {
	result := Resealed{KeyID: s.keys.first.String(), Unopened: []Unopened{}}
	for _, kind := range []VerifierKind{BySource, ByJob} {
		rows, err := s.pool.Query(ctx, `SELECT id FROM `+tableOf(kind).name+` WHERE secrets <> '{}' ORDER BY id`)
		if err != nil {
			return result, fmt.Errorf("list sealed rows: %w", err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return result, fmt.Errorf("list sealed rows: %w", err)
		}
		for _, id := range ids {
			if err := s.resealRow(ctx, kind, id, dryRun, &result); err != nil {
				return result, fmt.Errorf("reseal the secrets of %s %s: %w", kind, id, err)
			}
		}
	}
	return result, nil
}

// resealRow seals one row's secrets again and counts it.
func (s *Store) resealRow(ctx context.Context, kind VerifierKind, id uuid.UUID, dryRun bool, result *Resealed) error {
	t := tableOf(kind)
	for range resealTries {
		of := holder{kind: kind, id: id}
		var stored [][]byte
		err := s.pool.QueryRow(ctx, `SELECT provider, `+t.organization+`, secrets FROM `+t.name+` WHERE id = $1`, id).
			Scan(&of.provider, &of.organization, &stored)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && len(stored) == 0 {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		sealed, changed, unopened := s.resealed(of, stored)
		if changed && !dryRun {
			done, err := s.pool.Exec(ctx, `UPDATE `+t.name+` SET secrets = $2
				WHERE id = $1 AND secrets = $3 AND provider = $4 AND `+t.organization+` = $5`,
				id, sealed, stored, of.provider, of.organization)
			if err != nil {
				return err
			}
			if done.RowsAffected() == 0 {
				continue
			}
		}
		if unopened > 0 {
			result.Unopened = append(result.Unopened, Unopened{kind, id, unopened})
		}
		if changed {
			result.Resealed++
		} else if unopened == 0 {
			result.Current++
		}
		return nil
	}
	return errBusy
}

// resealed returns a row's secrets sealed again, in their order, and how many stay unchanged because they do not open.
func (s *Store) resealed(of holder, stored [][]byte) (sealed [][]byte, changed bool, unopened int) {
	for _, blob := range stored {
		secret, err := s.keys.open(of, blob)
		switch {
		case err != nil:
			unopened++
		case !s.keys.newest(blob):
			blob, changed = s.keys.seal(of, secret), true
		}
		sealed = append(sealed, blob)
	}
	return sealed, changed, unopened
}

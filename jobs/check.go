package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrKeys is the ErrKey of a key that does not open every stored secret.
var ErrKeys = fmt.Errorf("%w does not open every stored secret", ErrKey)

const storedSecrets = `
SELECT 'source', id, provider, '00000000-0000-0000-0000-000000000000'::uuid, provider || ' source ' || name, secrets
  FROM agent.provider_sources
 WHERE removed_at IS NULL AND secrets <> '{}'
UNION ALL
SELECT 'job', id, provider, organization_id, 'job ' || id, secrets FROM agent.provider_jobs
 WHERE closed_at IS NULL AND secrets <> '{}'`

// CheckKeys opens every live secret of every source and active job once. Its error wraps ErrKeys when one
// does not open, and tells how many, whose, and which keys are missing. Any other error says that the
// database could not be asked.
func CheckKeys(ctx context.Context, pool *pgxpool.Pool, keys *Keys) error {
	rows, err := pool.Query(ctx, storedSecrets)
	if err != nil {
		return fmt.Errorf("read sealed secrets: %w", err)
	}
	var (
		of      holder
		name    string
		secrets [][]byte

		total, unknown, altered int
		needed                  = make(map[string]bool)
		holders                 []string
	)
	_, err = pgx.ForEachRow(rows, []any{&of.kind, &of.id, &of.provider, &of.organization, &name, &secrets}, func() error {
		closed := unknown + altered
		for _, sealed := range secrets {
			total++
			switch _, err := keys.open(of, sealed); {
			case errors.Is(err, errUnknownKey):
				unknown++
				with, _ := sealedWith(sealed)
				needed[with.String()] = true
			case err != nil:
				altered++
			}
		}
		if unknown+altered > closed {
			holders = append(holders, name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read sealed secrets: %w", err)
	}
	if unknown+altered == 0 {
		return nil
	}
	why := fmt.Sprintf("%d of %d cannot be opened (%s)", unknown+altered, total, some(holders))
	if unknown > 0 {
		why += fmt.Sprintf("; %d of them were sealed with another key, id %s: put that key after the first, with a comma between",
			unknown, strings.Join(slices.Sorted(maps.Keys(needed)), ", "))
	}
	if altered > 0 {
		why += fmt.Sprintf("; %d of them do not open with their own key, the row was copied or altered, or given to another provider or organization: set the secret anew with set-secret --drop-previous",
			altered)
	}
	return fmt.Errorf("%w: %s", ErrKeys, why)
}

// some names the first few.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

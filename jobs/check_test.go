package jobs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

func TestCheckKeysAccepts(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	if err := CheckKeys(ctx, b.pool, mustKeys(t, 9)); err != nil {
		t.Errorf("without any secret: %v", err)
	}
	b.source(t, "slack", "none")
	source := b.source(t, "slack", "main", "s1", "s2")
	b.job(t, NewJob{Provider: "nylas", Secret: mustSecret(t, "s3")})
	if err := CheckKeys(ctx, b.pool, b.keys); err != nil {
		t.Error(err)
	}
	if err := NewStore(b.pool, mustKeys(t, 2, 1)).SetSecret(ctx, Verifier{BySource, source.ID}, mustSecret(t, "s4"), false); err != nil {
		t.Fatal(err)
	}
	if err := CheckKeys(ctx, b.pool, mustKeys(t, 3, 1, 2)); err != nil {
		t.Error(err)
	}
}

func TestCheckKeysRefuses(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.source(t, "slack", "main", "s1", plain)
	var ids []string
	for range 4 {
		ids = append(ids, b.job(t, NewJob{Provider: "nylas", Secret: mustSecret(t, plain)}).ID.String())
	}
	other, err := NewStore(b.pool, mustKeys(t, 2)).AddJob(ctx, NewJob{Provider: "nylas", Organization: uuid.New(), Secret: mustSecret(t, plain)})
	if err != nil {
		t.Fatal(err)
	}

	one, two := mustKeys(t, 1).first.String(), mustKeys(t, 2).first.String()
	err = CheckKeys(ctx, b.pool, b.keys)
	want := fmt.Sprintf("GATEWAY_SECRETS_KEY does not open every stored secret: 1 of 7 cannot be opened (job %s); "+
		"1 of them were sealed with another key, id %s: put that key after the first, with a comma between", other.ID, two)
	if !errors.Is(err, ErrKeys) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	err = CheckKeys(ctx, b.pool, mustKeys(t, 3))
	if !errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), "7 of 7 cannot be opened (slack source main, ") ||
		!strings.Contains(err.Error(), " and 3 more)") || !strings.Contains(err.Error(), "7 of them were sealed with another key, id ") ||
		!strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), two) || strings.Contains(err.Error(), plain) {
		t.Errorf("a strange key: got %v", err)
	}

	// A row that holds another row's secret.
	b.exec(t, `UPDATE agent.provider_jobs SET secrets = (SELECT secrets FROM agent.provider_jobs WHERE id = $1) WHERE id = $2`, ids[0], ids[1])
	err = CheckKeys(ctx, b.pool, mustKeys(t, 1, 2))
	if !errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), "1 of 7 cannot be opened (job "+ids[1]+
		"); 1 of them do not open with their own key, the row was copied or altered, or given to another provider or organization: set the secret anew with set-secret --drop-previous") {
		t.Errorf("a row that was copied: got %v", err)
	}

	// Secrets of closed jobs do not keep a gateway from starting.
	for _, id := range []uuid.UUID{uuid.MustParse(ids[1]), other.ID} {
		if err := b.CloseJob(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckKeys(ctx, b.pool, b.keys); err != nil {
		t.Errorf("of closed jobs: %v", err)
	}
	b.exec(t, `UPDATE agent.provider_jobs SET closed_at = now()`)
	b.exec(t, `UPDATE agent.provider_sources SET removed_at = now()`)
	if err := CheckKeys(ctx, b.pool, mustKeys(t, 3)); err != nil {
		t.Errorf("of a removed source: %v", err)
	}
}

func TestCheckKeysUnreachable(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/none")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := CheckKeys(t.Context(), pool, mustKeys(t, 1)); err == nil || errors.Is(err, ErrKeys) {
		t.Errorf("got %v", err)
	}
}

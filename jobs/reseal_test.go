package jobs

import (
	"context"
	"encoding/hex"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// verifies reports what the directory makes of a call that a job's or a source's own secret signed.
func (b *bed) verifies(t *testing.T, of Verifier, provider, secret string) Result {
	t.Helper()
	d := b.reads(t, slog.New(slog.DiscardHandler))
	signed := func(text string) bool { return text == secret }
	if of.Kind == BySource {
		s, ok := d.Current().SourceByID(of.ID)
		if !ok {
			t.Fatalf("no source %s", of.ID)
		}
		return s.Keyring.Verify(signed)
	}
	j, ok := d.Current().Job(provider, of.ID)
	if !ok {
		t.Fatalf("no job %s", of.ID)
	}
	return j.Keyring.Verify(signed)
}

func TestSecretInAlteredRow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		kind VerifierKind
		sql  string // what is done to the row $1 with the row $2, which has another secret
	}{
		"a job's, copied":            {ByJob, `UPDATE agent.provider_jobs SET secrets = (SELECT secrets FROM agent.provider_jobs WHERE id = $2) WHERE id = $1`},
		"a source's, copied":         {BySource, `UPDATE agent.provider_sources SET secrets = (SELECT secrets FROM agent.provider_sources WHERE id = $2) WHERE id = $1`},
		"a job's, its organization":  {ByJob, `UPDATE agent.provider_jobs SET organization_id = (SELECT organization_id FROM agent.provider_jobs WHERE id = $2) WHERE id = $1`},
		"a job's, its provider":      {ByJob, `UPDATE agent.provider_jobs SET provider = 'nylas' WHERE id = $1 AND id <> $2`},
		"a source's, its provider":   {BySource, `UPDATE agent.provider_sources SET provider = 'nylas' WHERE id = $1 AND id <> $2`},
		"a source's, its row's id":   {BySource, `UPDATE agent.provider_sources SET id = gen_random_uuid() WHERE id = $2 AND id <> $1`},
		"untouched, to see it open ": {ByJob, `SELECT $1::uuid, $2::uuid`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			var one, other uuid.UUID
			if tt.kind == BySource {
				one, other = b.source(t, "slack", "one", "of one").ID, b.source(t, "slack", "other", "of other").ID
			} else {
				one = b.job(t, NewJob{Provider: "slack", Secret: mustSecret(t, "of one")}).ID
				other = b.job(t, NewJob{Provider: "slack", Secret: mustSecret(t, "of other")}).ID
			}
			b.exec(t, tt.sql, one, other)
			err := CheckKeys(t.Context(), b.pool, b.keys)
			if name == "untouched, to see it open " {
				if got := b.verifies(t, Verifier{tt.kind, one}, "slack", "of one"); !got.Matched || err != nil {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			wantRefused(t, err, ErrKeys, "1 of 2 cannot be opened")
			d := b.reads(t, slog.New(slog.DiscardHandler))
			if got := testutil.ToFloat64(d.metrics.unopened); got != 1 {
				t.Errorf("%v secrets are counted", got)
			}
			if name == "a source's, its row's id" {
				return
			}
			for _, provider := range []string{"slack", "nylas"} {
				if j, ok := d.Current().Job(provider, one); ok {
					if got := j.Keyring.Verify(func(string) bool { return true }); got != (Result{Doubt: Sealed}) {
						t.Errorf("%+v", got)
					}
				}
			}
			if s, ok := d.Current().SourceByID(one); ok {
				if got := s.Keyring.Verify(func(string) bool { return true }); got != (Result{Doubt: Sealed}) {
					t.Errorf("%+v", got)
				}
			}
		})
	}
}

func TestReseal(t *testing.T) {
	t.Parallel()
	b := newBed(t) // seals with the key 1
	ctx := t.Context()
	old := b.source(t, "slack", "old", "previous", "current")
	closed := b.job(t, NewJob{Provider: "nylas", Secret: mustSecret(t, "of a closed job")})
	if err := b.CloseJob(ctx, closed.ID); err != nil {
		t.Fatal(err)
	}
	v1, err := hex.DecodeString(sealedV1)
	if err != nil {
		t.Fatal(err)
	}
	b.exec(t, `INSERT INTO agent.provider_jobs (id, organization_id, provider, secrets) VALUES ($1, $2, 'slack', $3)`, rowV1, uuid.New(), [][]byte{v1})
	b.keys = mustKeys(t, 2, 1)
	b.Store = NewStore(b.pool, b.keys)
	b.source(t, "slack", "new", "sealed by 2")
	lost := NewStore(b.pool, mustKeys(t, 3))
	strange, err := lost.AddSource(ctx, NewSource{Provider: "slack", Name: "strange", Secret: mustSecret(t, plain)})
	if err != nil {
		t.Fatal(err)
	}
	b.source(t, "slack", "bare")

	oldSeals := func() float64 {
		return testutil.ToFloat64(b.reads(t, slog.New(slog.DiscardHandler)).metrics.old)
	}
	if got := oldSeals(); got != 5 {
		t.Errorf("%v old seals, want 5", got)
	}
	want := Resealed{KeyID: b.keys.first.String(), Resealed: 3, Current: 1, Unopened: []Unopened{{BySource, strange.ID, 1}}}
	for _, dryRun := range []bool{true, true, false} { // a dry run changes nothing for the next
		got, err := b.Reseal(ctx, dryRun)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("dry run %v: %v %s", dryRun, err, diff)
		}
	}
	if got := oldSeals(); got != 1 {
		t.Errorf("%v old seals, want that of the key which is not there", got)
	}
	want.Resealed, want.Current = 0, 4
	if got, err := b.Reseal(ctx, false); err != nil || !cmp.Equal(want, got) {
		t.Errorf("again: %+v, %v", got, err)
	}

	b.keys = mustKeys(t, 2) // the old key is gone
	for _, tt := range []struct {
		of   Verifier
		want []string
	}{
		{Verifier{BySource, old.ID}, []string{"current", "previous"}},
		{Verifier{ByJob, closed.ID}, []string{"of a closed job"}},
		{Verifier{ByJob, uuid.MustParse(rowV1)}, []string{plainV1}},
	} {
		if diff := cmp.Diff(tt.want, b.opened(t, tt.of)); diff != "" {
			t.Errorf("%s: %s", tt.of.ID, diff)
		}
	}
	b.exec(t, `UPDATE agent.provider_jobs SET organization_id = gen_random_uuid() WHERE id = $1`, rowV1)
	if got := b.verifies(t, Verifier{ByJob, uuid.MustParse(rowV1)}, "slack", plainV1); got != (Result{Doubt: Sealed}) {
		t.Errorf("of version 1, resealed and given away: %+v", got)
	}
}

// A secret that is set between the read of a row and its write is not lost.
func TestResealConcurrentSet(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	source := b.source(t, "slack", "main", "first")
	of := Verifier{BySource, source.ID}
	b.keys = mustKeys(t, 2, 1)
	b.Store = NewStore(b.pool, b.keys)

	tx, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // of no use once it is committed
	// As SetSecret does, but not committed yet.
	second := b.keys.seal(holder{kind: BySource, id: source.ID, provider: "slack"}, mustSecret(t, "second"))
	if _, err := tx.Exec(ctx, `UPDATE agent.provider_sources SET secrets = $2 || secrets WHERE id = $1`, source.ID, [][]byte{second}); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		Resealed
		error
	}
	ended := make(chan outcome, 1)
	go func() {
		r, err := b.Reseal(ctx, false)
		ended <- outcome{r, err}
	}()
	b.waitsForALock(t)
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got.error != nil || got.Resealed.Resealed != 1 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{"second", "first"}, b.opened(t, of)); diff != "" {
		t.Error(diff)
	}
}

// waitsForALock returns once a statement of another session waits for a row.
func (b *bed) waitsForALock(t *testing.T) {
	t.Helper()
	for late := time.Now().Add(soon); ; {
		var waits bool
		err := b.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
		switch {
		case err != nil:
			t.Fatal(err)
		case waits:
			return
		case time.Now().After(late):
			t.Fatal(errors.New("no statement waits for a lock"))
		}
	}
}

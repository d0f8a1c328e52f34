package idempotency_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"webhook-gateway/idempotency"
)

func TestRetryable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.ref("tool.x", "k")
	b.own(r, content("1"))
	_, inFlight := idempotency.Do(t.Context(), b.keys, task[int](r), answering(1))
	if after, ok := idempotency.Retryable(inFlight); !ok || after <= lease/2 || after > lease {
		t.Errorf("in flight: %s, %v, want what is left of the lease", after, ok)
	}
	other := task[int](r)
	other.Content = content("2")
	_, mismatch := idempotency.Do(t.Context(), b.keys, other, answering(1))
	for name, err := range map[string]error{
		"nil": nil, "a mismatch": mismatch, "the effect's own": errors.New("no"), "a failure": &idempotency.Failure{Code: "x"},
		"an inner one's, as the effect's own": effectOf(b, inFlight),
		"unkept":                              &idempotency.UnkeptError{}, "no effect given": idempotency.ErrNoEffectGiven,
	} {
		if _, ok := idempotency.Retryable(err); ok {
			t.Errorf("%s is retryable", name)
		}
	}
}

// The classes of PostgreSQL's errors: https://www.postgresql.org/docs/15/errcodes-appendix.html
func TestRetryableByCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"08006": true, "25006": true, "40001": true, "40P01": true, "53100": true, "53300": true, "55P03": true,
		"57P01": true, "57014": true, "58030": true, "XX000": true,
		"22P02": false, "23505": false, "23514": false, "28P01": false, "42501": false, "42P01": false,
	} {
		if _, ok := idempotency.Retryable(&pgconn.PgError{Code: code}); ok != want {
			t.Errorf("%s is retryable: %v, want %v", code, ok, want)
		}
	}
}

// effectOf returns the error of a Do whose effect failed with err.
func effectOf(b *bundle, err error) error {
	b.Helper()
	_, failed := idempotency.Do(b.Context(), b.keys, task[int](b.ref("tool.x", "outer of "+err.Error()[:5])), func(context.Context, *idempotency.Claim) (int, error) {
		return 0, err
	})
	return failed
}

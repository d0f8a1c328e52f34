package main

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
	"webhook-gateway/idempotency/idempotencytest"
)

func TestMain(m *testing.M) { idempotencytest.Main(m) }

func setup(t *testing.T) (*tool, *pretendBank, *pgxpool.Pool) {
	t.Helper()
	pool := idempotencytest.Pool(t)
	b := &pretendBank{log: io.Discard, by: map[string]receipt{}}
	s := httptest.NewServer(b.handler())
	t.Cleanup(s.Close)
	keys := idempotency.MustService(pool, idempotency.Options{})
	return &tool{keys: keys, bank: bank{s.URL}, organization: uuid.New()}, b, pool
}

func (b *pretendBank) payments() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paid
}

func TestRefundOnce(t *testing.T) {
	tool, bank, _ := setup(t)
	for call := range 3 {
		got, err := tool.refund(t.Context(), "job_17", 3, order{"pay_1", 1999})
		if err != nil || got.Value.Refund != "rf_1" || got.Replayed != (call > 0) {
			t.Errorf("call %d: %+v, %v", call, got, err)
		}
	}
	if bank.payments() != 1 {
		t.Errorf("the bank has paid %d times", bank.payments())
	}
	if _, err := tool.refund(t.Context(), "job_17", 3, order{"pay_1", 5}); !errors.Is(err, idempotency.ErrMismatch) {
		t.Errorf("another amount under the same key: %v", err)
	}
}

// dies is a log whose first line kills the writer.
type dies func()

func (d dies) Write(line []byte) (int, error) {
	d()
	return len(line), nil
}

func TestNextWorkerAsksBank(t *testing.T) {
	for name, paid := range map[string]bool{"paid": true, "not paid": false} {
		t.Run(name, func(t *testing.T) {
			tool, bank, pool := setup(t)
			dying, die := context.WithCancel(t.Context())
			defer die()
			url := tool.bank.url
			if paid {
				bank.slow, bank.log = time.Hour, dies(die)
			} else {
				tool.bank.url = "http://127.0.0.1:1" // the call does not reach the bank
			}
			if _, err := tool.refund(dying, "job_17", 3, order{"pay_1", 1999}); err == nil {
				t.Fatal("the first worker got an answer")
			}
			tool.bank.url = url
			if _, err := tool.refund(t.Context(), "job_17", 3, order{"pay_1", 1999}); !errors.Is(err, idempotency.ErrInFlight) {
				t.Errorf("while the lease lives: %v", err)
			}
			idempotencytest.Pass(t, pool, lease)
			got, err := tool.refund(t.Context(), "job_17", 3, order{"pay_1", 1999})
			if err != nil || got.Value.Refund != "rf_1" || bank.payments() != 1 {
				t.Errorf("%+v, %v; the bank has paid %d times", got, err, bank.payments())
			}
		})
	}
}

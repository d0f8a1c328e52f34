package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/idempotency"
)

// lease is the bank's timeout plus a margin.
const lease = bankTimeout + 5*time.Second

// order is the input of a refund.
type order struct {
	Payment string `json:"payment"`
	Cents   int    `json:"cents"`
}

// receipt is the tool's answer.
type receipt struct {
	Refund string `json:"refund"`
}

// tool holds what all calls share.
type tool struct {
	keys         *idempotency.Service
	bank         bank
	organization uuid.UUID
}

// refund pays an order back, once per step of a job, however often it is called.
func (t *tool) refund(ctx context.Context, job string, step int64, o order) (idempotency.Result[receipt], error) {
	key, err := idempotency.ToolKey(job, step, "refund")
	if err != nil {
		return idempotency.Result[receipt]{}, err
	}
	content, err := json.Marshal(o)
	if err != nil {
		return idempotency.Result[receipt]{}, err
	}
	task := idempotency.Task[receipt]{
		Ref:     idempotency.Ref{Organization: t.organization, Scope: idempotency.MustScope("tool.refund"), Key: key},
		Content: idempotency.Content(content),
		Lease:   lease,
		Reconcile: func(ctx context.Context, c *idempotency.Claim) (receipt, bool, error) {
			return t.bank.find(ctx, c.Ref.Key.String())
		},
	}
	return idempotency.Do(ctx, t.keys, task, func(ctx context.Context, c *idempotency.Claim) (receipt, error) {
		return t.bank.pay(ctx, c.Ref.Key.String(), o)
	})
}

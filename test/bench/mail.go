package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/report"
	"webhook-gateway/test/bench/world"
)

// mail compares the gateway with COPY of the same bytes. The value is in bytes of bodies a second.
func (b *bench) mail(ctx context.Context) error {
	return b.inTurn(ctx, min(b.rounds, 3),
		segment{report.Mail, func(ctx context.Context, s *report.Sample) error {
			spec := b.traffic(load.Mail, b.gateway)
			if err := b.send(ctx, spec, b.gateway, s); err != nil {
				return err
			}
			s.Value *= float64(s.Result.BodyBytes)
			return nil
		}},
		segment{report.MailByCopy, b.copyMail},
	)
}

// copyMail writes inbox rows by COPY, a thousand in each transaction.
func (b *bench) copyMail(ctx context.Context, s *report.Sample) error {
	const each = 1000
	bodies := make([][]byte, 0, each)
	err := load.Bodies(&load.Spec{
		Addresses: []string{""}, Application: world.Application, Tenants: b.world.Grants, Shape: load.Mail,
		Requests: each, Secret: b.world.Secret, Run: "copy",
	}, func(body []byte) error {
		bodies = append(bodies, append([]byte(nil), body...))
		return nil
	})
	if err != nil {
		return err
	}
	began, bytes := time.Now(), 0
	for time.Since(began) < b.each {
		n, err := b.copyOnce(ctx, bodies)
		if err != nil {
			return fmt.Errorf("copy mail: %w", err)
		}
		bytes += n
		s.Deliveries += len(bodies)
	}
	s.Value = float64(bytes) / time.Since(began).Seconds()
	return nil
}

func (b *bench) copyOnce(ctx context.Context, bodies [][]byte) (bytes int, err error) {
	tenant := b.db.Tenants[b.world.Grants[0]]
	now := time.Now()
	columns := []string{
		"id", "organization_id", "provider", "job_id", "delivery_key", "event_type", "request_hash", "headers",
		"content_type", "content_encoding", "body", "ordering_key", "received_at",
	}
	i := 0
	_, err = b.db.Pool.CopyFrom(ctx, pgx.Identifier{"agent", "webhook_deliveries"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		if i == len(bodies) {
			return nil, nil
		}
		body := bodies[i]
		i++
		bytes += len(body)
		return []any{
			uuid.Must(uuid.NewV7()), tenant.Organization, "nylas", tenant.Job, tenant.Job.String() + "/ABCDEFGHIJKLMNOPQRSTUVWXYZ12",
			"message.created", "c1:0000000000000000000000000000000000000000000000000000000000000000", `[["user-agent","Nylas/1.0"]]`,
			"application/json", "", body, tenant.Job.String(), now,
		}, nil
	}))
	return bytes, err
}

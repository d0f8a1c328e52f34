package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
)

// Settings returns settings with which every outcome occurs within seconds.
func Settings() []string {
	return []string{
		"GATEWAY_MAX_BODY_BYTES=131072", "GATEWAY_BODY_BUDGET_BYTES=1MiB", "GATEWAY_QUEUE_BYTES=1MiB",
		"GATEWAY_READ_TIMEOUT=2s", "GATEWAY_SETTLE_TIMEOUT=700ms", "GATEWAY_SWEEP_INTERVAL=1s",
		"GATEWAY_SHUTDOWN_TIMEOUT=10s",
	}
}

// Registered holds what Register has added: a Nylas source with one tenant, one with an open rotation, a job without
// a secret, and a Slack source with one tenant.
type Registered struct {
	current, previous string // secrets of the Nylas source
	tenant            uuid.UUID
	secretless        uuid.UUID
}

const (
	slackSecret  = "8f742231b10e8888abcd99yyyzzz85a5"
	mainPath     = "/webhooks/nylas/sources/main"
	rotatingPath = "/webhooks/nylas/sources/rotating"
	slackPath    = "/webhooks/slack/sources/main"
)

// Register adds the sources and jobs that the traffic needs.
func Register(ctx context.Context, g *Gateway) (*Registered, error) {
	t := &Registered{current: "the secret that was set last", previous: "the one before it"}
	secret := func(text string) jobs.Secret {
		s, _ := jobs.NewSecret(text) // these texts are valid secrets
		return s
	}
	main, err := g.Store.AddSource(ctx, jobs.NewSource{
		Provider: "nylas", Name: "main", Secret: secret(t.previous), Pins: []jobs.Identity{{Name: "application_id", Value: "app-1"}},
	})
	if err != nil {
		return nil, err
	}
	if err := g.Store.SetSecret(ctx, jobs.Verifier{Kind: jobs.BySource, ID: main.ID}, secret(t.current), false); err != nil {
		return nil, err
	}
	rotating, err := g.Store.AddSource(ctx, jobs.NewSource{Provider: "nylas", Name: "rotating", Secret: secret("one more")})
	if err != nil {
		return nil, err
	}
	if _, err := g.Store.OpenRotation(ctx, jobs.Verifier{Kind: jobs.BySource, ID: rotating.ID}, time.Hour); err != nil {
		return nil, err
	}
	if _, err := g.Store.AddSource(ctx, jobs.NewSource{Provider: "slack", Name: "main", Secret: secret(slackSecret)}); err != nil {
		return nil, err
	}
	for _, n := range []struct {
		to  *uuid.UUID
		job jobs.NewJob
	}{
		{&t.tenant, jobs.NewJob{Provider: "nylas", Source: "main", Pins: []jobs.Identity{{Name: "grant_id", Value: "G1"}}}},
		{&t.secretless, jobs.NewJob{Provider: "nylas"}},
		{new(uuid.UUID), jobs.NewJob{Provider: "slack", Source: "main", Pins: []jobs.Identity{{Name: "team_id", Value: "T1"}}}},
	} {
		n.job.Organization = uuid.New()
		added, err := g.Store.AddJob(ctx, n.job)
		if err != nil {
			return nil, fmt.Errorf("add a job of %s: %w", n.job.Provider, err)
		}
		*n.to = added.ID
	}
	return t, nil
}

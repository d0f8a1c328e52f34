package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
	"webhook-gateway/test/watch"
)

const (
	honestSource = "honest"
	honestSecret = "the secret of the honest source"
	honestPath   = "/webhooks/nylas/sources/" + honestSource
	honestGrant  = "the honest grant"
	tenantSecret = "the secret of one tenant"
)

// target is a gateway under attack, and what the attackers know about it.
type target struct {
	address string // host and port
	pid     int
	tenant  string // path of the job whose secret an attacker knows
}

// register adds the honest source and job, the attacker's job, and as many other sources as the gateway tries for an
// unknown id.
func register(ctx context.Context, g *watch.Gateway) (target, error) {
	t := target{address: strings.TrimPrefix(g.URL, "http://"), pid: g.PID()}
	for n := range jobs.MaxTried {
		name, secret := honestSource, honestSecret
		if n > 0 {
			name, secret = "other-"+strconv.Itoa(n), uuid.NewString()
		}
		sealed, err := jobs.NewSecret(secret)
		if err != nil {
			return t, err
		}
		if _, err := g.Store.AddSource(ctx, jobs.NewSource{Provider: "nylas", Name: name, Secret: sealed}); err != nil {
			return t, fmt.Errorf("add a source: %w", err)
		}
	}
	_, err := g.Store.AddJob(ctx, jobs.NewJob{
		Provider: "nylas", Organization: uuid.New(), Source: honestSource,
		Pins: []jobs.Identity{{Name: "grant_id", Value: honestGrant}},
	})
	if err != nil {
		return t, fmt.Errorf("add the honest job: %w", err)
	}
	secret, err := jobs.NewSecret(tenantSecret)
	if err != nil {
		return t, err
	}
	job, err := g.Store.AddJob(ctx, jobs.NewJob{Provider: "nylas", Organization: uuid.New(), Secret: secret})
	if err != nil {
		return t, fmt.Errorf("add the attacker's job: %w", err)
	}
	t.tenant = "/webhooks/nylas/" + job.ID.String()
	return t, nil
}

// resident returns the largest memory of the process so far, in MiB; 0 if the system does not show it.
func (t target) resident() int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(t.pid) + "/status")
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, _ := strconv.Atoi(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))))
			return kib >> 10
		}
	}
	return 0
}

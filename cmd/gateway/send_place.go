package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// place is a gateway's database, and how to reach the gateway.
type place struct {
	databaseURL, secretsKey, listen string
	dev                             devDir // empty: it is not one of gateway dev

	pool *pgxpool.Pool
	keys *jobs.Keys
}

// place finds the gateway to send to: the one that the settings name when a source or a job is given and
// they name any, else the one of gateway dev.
func (f *sendFlags) place(cmd *cobra.Command) (*place, error) {
	if (f.source != "" || f.job != "") && !cmd.Flags().Changed("dir") {
		cfg, err := settings(cmd)
		if err != nil {
			return nil, err
		}
		if cfg.DatabaseURL.Reveal() != "" {
			if err := cfg.Require("GATEWAY_SECRETS_KEY"); err != nil {
				return nil, withStatus(exitConfig, err)
			}
			return &place{databaseURL: cfg.DatabaseURL.Reveal(), secretsKey: cfg.SecretsKey.Reveal(), listen: cfg.Listen}, nil
		}
	}
	dir := devDir(f.dir)
	env, err := dir.readEnv()
	if err != nil {
		return nil, withStatus(exitConfig, err)
	}
	return &place{databaseURL: env.databaseURL, secretsKey: env.secretsKey, listen: env.listen, dev: dir}, nil
}

func (p *place) open(ctx context.Context) error {
	var err error
	if p.keys, err = jobs.NewKeys(p.secretsKey); err != nil {
		return withStatus(exitConfig, err)
	}
	if p.pool, err = connect(ctx, p.databaseURL, 2); err != nil && p.dev != "" {
		return withStatus(exitUnreachable, fmt.Errorf("the gateway dev that ran in %s has ended; start it again with: %s dev", p.dev, invocation()))
	}
	return err
}

// holder is whom a sample is sent to: a URL's path, the secret that verifies there, and the identities
// that a body for it names.
type holder struct {
	path   string
	secret string
	named  named
}

// holder finds the source or job that is named, or the sample source.
func (p *place) holder(ctx context.Context, provider, source, job string) (holder, error) {
	directory := jobs.NewDirectory(p.pool, p.keys, slog.New(slog.DiscardHandler), nil)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go directory.Run(ctx)
	if err := directory.Refresh(ctx, time.Now()); err != nil {
		return holder{}, fmt.Errorf("read sources and jobs: %w", err)
	}
	if job != "" {
		return jobHolder(directory, provider, job)
	}
	if source == "" {
		source = sampleSource
	}
	s, ok := directory.Source(provider, source)
	if !ok {
		return holder{}, fmt.Errorf("%s has no source %q; see them with: gateway sources list", provider, source)
	}
	h := holder{path: providers.SourcePath(provider, source), named: named{}}
	h.name(s.Pins)
	// Every tenant's, the newest job first: a body names one of each kind.
	list, err := jobs.NewStore(p.pool, nil).ListJobs(ctx, jobs.JobFilter{Provider: provider, Source: source})
	if err != nil {
		return holder{}, err
	}
	for _, j := range list {
		h.name(j.Pins)
	}
	return h, h.unlock(s.Keyring, "source "+source)
}

func jobHolder(directory *jobs.Directory, provider, text string) (holder, error) {
	id, err := parseID("--job", text)
	if err != nil {
		return holder{}, err
	}
	j, ok := directory.Job(provider, id)
	if !ok {
		return holder{}, fmt.Errorf("%s has no job %s; see them with: gateway jobs list", provider, id)
	}
	h := holder{path: providers.JobPath(provider, id), named: named{}}
	h.name(j.Pins)
	ring := j.Keyring
	if j.SourceID != uuid.Nil {
		if s, ok := directory.SourceByID(j.SourceID); ok {
			h.name(s.Pins)
			ring = s.Keyring
		}
	}
	return h, h.unlock(ring, "job "+text)
}

func (h *holder) name(pins []jobs.Identity) {
	for _, p := range pins {
		if h.named[p.Name] == "" {
			h.named[p.Name] = p.Value
		}
	}
}

func (h *holder) unlock(ring jobs.Keyring, of string) error {
	switch {
	case len(ring.Secrets) > 0:
		h.secret = ring.Secrets[0].Reveal()
		return nil
	case ring.Unopened > 0:
		return withStatus(exitConfig, fmt.Errorf("GATEWAY_SECRETS_KEY does not open the secret of %s", of))
	default:
		return fmt.Errorf("%s has no secret to sign with yet; set one with set-secret", of)
	}
}

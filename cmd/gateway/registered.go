package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/pg"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// registry finds sources and jobs, with their secrets, in a gateway's database.
type registry struct {
	pool      *pgxpool.Pool
	store     *jobs.Store
	directory *jobs.Directory
}

// openRegistry opens the database that the settings name, or else the one of a gateway dev.
func openRegistry(cmd *cobra.Command, dir string) (*registry, error) {
	cfg, err := settings(cmd)
	if err != nil {
		return nil, err
	}
	p := &place{databaseURL: cfg.DatabaseURL.Reveal(), secretsKey: cfg.SecretsKey.Reveal()}
	if p.databaseURL == "" || cmd.Flags().Changed("dir") {
		env, err := devDir(dir).readEnv()
		if err != nil {
			return nil, withStatus(exitConfig, fmt.Errorf("whose ids and secrets? set DATABASE_URL and GATEWAY_SECRETS_KEY, or give --secrets FILE (%w)", err))
		}
		p = &place{databaseURL: env.databaseURL, secretsKey: env.secretsKey, dev: devDir(dir)}
	} else if err := cfg.Require("GATEWAY_SECRETS_KEY"); err != nil {
		return nil, withStatus(exitConfig, err)
	}
	ctx := cmd.Context()
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	r := &registry{pool: p.pool, store: jobs.NewStore(p.pool, p.keys), directory: jobs.NewDirectory(p.pool, p.keys, slog.New(slog.DiscardHandler), nil)}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go r.directory.Run(reading)
	if err := r.directory.Refresh(reading, time.Now()); err != nil {
		pg.Close(p.pool)
		return nil, unmigrated(fmt.Errorf("read sources and jobs: %w", err))
	}
	return r, nil
}

func (r *registry) close() { pg.Close(r.pool) }

// found is a source or a job that a capture needs.
type found struct {
	path string
	ring jobs.Keyring
	job  *jobs.Job    // nil: a source
	of   *jobs.Source // nil: the job has secrets of its own
}

// source finds a source by its name, or by the identities that it pins.
func (r *registry) source(ctx context.Context, provider string, p capture.Party) (*jobs.Source, error) {
	if s, ok := r.directory.Source(provider, p.Name); ok && (len(p.Pins) == 0 || maps.Equal(refsOf(s.Pins), p.Pins)) {
		return s, nil
	}
	if len(p.Pins) > 0 {
		list, err := r.store.ListSources(ctx, provider)
		if err != nil {
			return nil, err
		}
		for _, stored := range list {
			if s, ok := r.directory.SourceByID(stored.ID); ok && maps.Equal(refsOf(s.Pins), p.Pins) {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("no %s source is called %q%s; see gateway sources list", provider, p.Name, pinning(p))
}

// job finds a job by the identity that it pins, or by its id.
func (r *registry) job(ctx context.Context, provider string, p capture.Party, source *jobs.Source) (*jobs.Job, error) {
	under := uuid.Nil
	if source != nil {
		under = source.ID
	}
	fits := func(j *jobs.Job) bool {
		return j.SourceID == under && !j.Closed && (len(p.Pins) == 0 || maps.Equal(refsOf(j.Pins), p.Pins))
	}
	if id, err := uuid.Parse(p.Name); err == nil {
		if j, ok := r.directory.Job(provider, id); ok && (source == nil || fits(j)) {
			return j, nil
		}
	}
	var matches []*jobs.Job
	if len(p.Pins) > 0 {
		filter := jobs.JobFilter{Provider: provider}
		if source != nil {
			filter.Source = source.Name
		}
		for name, value := range p.Pins {
			filter.Pin = jobs.Identity{Name: name, Value: value}
			break
		}
		list, err := r.store.ListJobs(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, stored := range list {
			if j, ok := r.directory.Job(provider, stored.ID); ok && fits(j) {
				matches = append(matches, j)
			}
		}
	}
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		return nil, fmt.Errorf("no %s job is %q%s; see gateway jobs list", provider, p.Name, pinning(p))
	default:
		return nil, fmt.Errorf("%d %s jobs%s: name the one by its id, in the place of %q", len(matches), provider, pinning(p), p.Name)
	}
}

func pinning(p capture.Party) string {
	if len(p.Pins) == 0 {
		return ""
	}
	text := " or pins"
	for _, name := range slices.Sorted(maps.Keys(p.Pins)) {
		text += " " + name + "=" + p.Pins[name]
	}
	return text
}

// find finds what the captures need. It names everything that is missing.
func (r *registry) find(ctx context.Context, list []*capture.Capture) (capture.Places, map[string]found, error) {
	cast, err := capture.Parties(list)
	if err != nil {
		return nil, nil, usagef("%w", err)
	}
	places, all := make(capture.Places), make(map[string]found)
	sources := make(map[string]*jobs.Source)
	var missing []error
	for _, m := range cast.Sources {
		s, err := r.source(ctx, m.Provider, m.Party)
		if err != nil {
			missing = append(missing, err)
			continue
		}
		sources[m.Provider+" "+m.Name] = s
		all[capture.PlaceKey(m.Provider, "source", m.Name)] = found{path: providers.SourcePath(m.Provider, s.Name), ring: s.Keyring, of: s}
	}
	for _, m := range cast.Jobs {
		f := found{}
		if m.Source != "" {
			if f.of = sources[m.Provider+" "+m.Source]; f.of == nil {
				continue // it is missing, and that is told
			}
		}
		if f.job, err = r.job(ctx, m.Provider, m.Party, f.of); err != nil {
			missing = append(missing, err)
			continue
		}
		f.path, f.ring = providers.JobPath(m.Provider, f.job.ID), f.job.Keyring
		if s, ok := r.directory.SourceByID(f.job.SourceID); ok {
			f.of = s
		}
		if f.of != nil {
			f.ring = f.of.Keyring
		}
		all[capture.PlaceKey(m.Provider, "job", m.Name)] = f
	}
	for key, f := range all {
		h := holder{}
		if err := h.unlock(f.ring, key); err != nil {
			missing = append(missing, err)
		}
		places[key] = capture.Place{Path: f.path, Secret: h.secret}
	}
	return places, all, errors.Join(missing...)
}

// ring finds the secrets of one source by its name, or of one job by its id.
func (r *registry) ring(cmd *cobra.Command, provider, source, job string) (jobs.Keyring, error) {
	if source != "" {
		s, err := r.source(cmd.Context(), provider, capture.Party{Name: source})
		if err != nil {
			return jobs.Keyring{}, err
		}
		return s.Keyring, nil
	}
	id, err := parseID("--job", job)
	if err != nil {
		return jobs.Keyring{}, err
	}
	j, ok := r.directory.Job(provider, id)
	if !ok {
		return jobs.Keyring{}, fmt.Errorf("%s has no job %s; see them with: gateway jobs list", provider, id)
	}
	if s, ok := r.directory.SourceByID(j.SourceID); ok {
		return s.Keyring, nil
	}
	return j.Keyring, nil
}

package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/samples"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// Source is the name of each vendor's sample source.
const Source = "dev"

// Registered says where a vendor's samples are received.
type Registered struct {
	Provider     string    `json:"provider"`
	Organization uuid.UUID `json:"organization_id"`
	SourcePath   string    `json:"source_path"`
	JobPaths     []string  `json:"job_paths"`
	Send         string    `json:"send"` // a command for a shell; the caller fills it in
}

// Register makes sure that there is a sample organization, with a source and its jobs for each vendor that has
// samples. It reuses those of an earlier run. Secrets are random; it replaces them when keys cannot open all secrets
// in the database.
func Register(ctx context.Context, pool *pgxpool.Pool, keys *jobs.Keys, vendors []providers.Provider) ([]Registered, error) {
	lostKey := jobs.CheckKeys(ctx, pool, keys)
	if lostKey != nil && !errors.Is(lostKey, jobs.ErrKeys) {
		return nil, lostKey
	}
	r := registrar{store: jobs.NewStore(pool, keys), organization: uuid.New(), newSecrets: lostKey != nil}
	earlier, err := r.store.ListJobs(ctx, jobs.JobFilter{Source: Source, Closed: true})
	if err != nil {
		return nil, err
	}
	if n := len(earlier); n > 0 {
		r.organization = earlier[n-1].Organization
	}
	var all []Registered
	for _, v := range vendors {
		sampler, ok := v.(providers.Sampler)
		if !ok {
			continue
		}
		one, err := r.register(ctx, v.Name(), sampler.Samples())
		if err != nil {
			return nil, fmt.Errorf("register the %s samples: %w", v.Name(), err)
		}
		all = append(all, one)
	}
	return all, nil
}

type registrar struct {
	store        *jobs.Store
	organization uuid.UUID
	newSecrets   bool
}

func (r registrar) register(ctx context.Context, provider string, set samples.Set) (Registered, error) {
	out := Registered{Provider: provider, Organization: r.organization, SourcePath: providers.SourcePath(provider, Source)}
	secret, err := jobs.NewSecret(rand.Text())
	if err != nil {
		return out, err
	}
	source, err := r.store.Source(ctx, provider, Source)
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		_, err = r.store.AddSource(ctx, jobs.NewSource{Provider: provider, Name: Source, Pins: []jobs.Identity{set.Application}, Secret: secret})
	case err == nil && (r.newSecrets || source.Secrets == 0):
		err = r.store.SetSecret(ctx, jobs.Verifier{Kind: jobs.BySource, ID: source.ID}, secret, true)
	}
	if err != nil {
		return out, err
	}
	for _, tenant := range set.Tenants {
		path, err := r.job(ctx, provider, tenant)
		if err != nil {
			return out, err
		}
		out.JobPaths = append(out.JobPaths, path)
	}
	return out, nil
}

// job returns the path of a tenant's sample job, and adds the job if it is missing.
func (r registrar) job(ctx context.Context, provider string, tenant jobs.Identity) (string, error) {
	list, err := r.store.ListJobs(ctx, jobs.JobFilter{Provider: provider, Source: Source, Pin: tenant})
	if err != nil {
		return "", err
	}
	if len(list) > 0 {
		return providers.JobPath(provider, list[0].ID), nil
	}
	added, err := r.store.AddJob(ctx, jobs.NewJob{Provider: provider, Organization: r.organization, Source: Source, Pins: []jobs.Identity{tenant}})
	return providers.JobPath(provider, added.ID), err
}

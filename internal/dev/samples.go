package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// Source is the name of each vendor's sample source.
const Source = "dev"

// Samples is what is registered for a vendor, so that samples can be sent in its name.
type Samples struct {
	Provider    string
	Application jobs.Identity   // the sample source pins it
	Tenants     []jobs.Identity // each is pinned by a sample job
}

// Registered is where a vendor's samples are received.
type Registered struct {
	Provider     string    `json:"provider"`
	Organization uuid.UUID `json:"organization_id"`
	SourcePath   string    `json:"source_path"`
	JobPaths     []string  `json:"job_paths"`
	Send         string    `json:"send"` // a command for a shell; the caller fills it in
}

// Register makes sure that there is a sample organization with a source and its jobs for each vendor. It uses again
// what an earlier run has made. Secrets are random, and are replaced where keys does not open all of the database's.
func Register(ctx context.Context, pool *pgxpool.Pool, keys *jobs.Keys, vendors []Samples) ([]Registered, error) {
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
		one, err := r.register(ctx, v)
		if err != nil {
			return nil, fmt.Errorf("register the %s samples: %w", v.Provider, err)
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

func (r registrar) register(ctx context.Context, v Samples) (Registered, error) {
	out := Registered{Provider: v.Provider, Organization: r.organization, SourcePath: providers.SourcePath(v.Provider, Source)}
	secret, err := jobs.NewSecret(rand.Text())
	if err != nil {
		return out, err
	}
	source, err := r.store.Source(ctx, v.Provider, Source)
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		_, err = r.store.AddSource(ctx, jobs.NewSource{Provider: v.Provider, Name: Source, Pins: []jobs.Identity{v.Application}, Secret: secret})
	case err == nil && (r.newSecrets || source.Secrets == 0):
		err = r.store.SetSecret(ctx, jobs.Verifier{Kind: jobs.BySource, ID: source.ID}, secret, true)
	}
	if err != nil {
		return out, err
	}
	for _, tenant := range v.Tenants {
		path, err := r.job(ctx, v.Provider, tenant)
		if err != nil {
			return out, err
		}
		out.JobPaths = append(out.JobPaths, path)
	}
	return out, nil
}

// job returns the path of the sample job of a tenant, which it adds if it is missing.
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

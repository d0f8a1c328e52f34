// Package registry finds the sources and jobs that a command names, with their secrets: in a gateway's database, which
// it reads once, or in a file of secrets.
package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// Registry holds the sources and jobs of a database as they were when it was read. It is safe for concurrent use.
type Registry struct{ *jobs.Snapshot }

// Read reads every source and job. Secrets that keys does not open are counted and left out.
func Read(ctx context.Context, pool *pgxpool.Pool, keys *jobs.Keys) (*Registry, error) {
	s, err := jobs.Read(ctx, pool, keys)
	return &Registry{s}, err
}

// Found is a source, or a job with the source that it belongs to.
type Found struct {
	Source *jobs.Source // nil: the job has its own secrets
	Job    *jobs.Job    // nil: a source
}

// place returns the path of a source or job, and the secret that signs requests to it.
func (f Found) place(of string) (capture.Place, error) {
	var p capture.Place
	if f.Job != nil {
		p.Path = providers.JobPath(f.Job.Provider, f.Job.ID)
	} else {
		p.Path = providers.SourcePath(f.Source.Provider, f.Source.Name)
	}
	var err error
	p.Secret, err = Newest(f.ring(), of)
	return p, err
}

// ring returns the secrets that verify calls of the source or job.
func (f Found) ring() jobs.Keyring {
	if f.Source != nil {
		return f.Source.Keyring
	}
	return f.Job.Keyring
}

// Newest returns the secret that was set last. The error names the holder; it wraps jobs.ErrKey when the secret is
// sealed with another key.
func Newest(ring jobs.Keyring, holder string) (string, error) {
	switch {
	case len(ring.Secrets) > 0:
		return ring.Secrets[0].Reveal(), nil
	case ring.Unopened > 0:
		return "", fmt.Errorf("%w does not open the secret of %s", jobs.ErrKey, holder)
	default:
		return "", fmt.Errorf("%s has no secret to sign with yet; set one with set-secret", holder)
	}
}

// ErrJobID says that a job is not named by its id.
var ErrJobID = errors.New("not a UUID like 3f2b8c1e-5d0a-4c57-9a55-0c6f3a1d2b7e")

// Keyring returns the secrets that verify calls of a source, by its name, or else of a job, by its id. An id that is no
// UUID is ErrJobID.
func (r *Registry) Keyring(provider, source, job string) (jobs.Keyring, error) {
	if source != "" {
		s, err := r.source(provider, capture.Party{Name: source})
		if err != nil {
			return jobs.Keyring{}, err
		}
		return s.Keyring, nil
	}
	id, err := uuid.Parse(job)
	if err != nil {
		return jobs.Keyring{}, fmt.Errorf("job %q is %w", job, ErrJobID)
	}
	f, err := r.jobByID(provider, id)
	if err != nil {
		return jobs.Keyring{}, err
	}
	return f.ring(), nil
}

func (r *Registry) jobByID(provider string, id uuid.UUID) (Found, error) {
	j, ok := r.Job(provider, id)
	if !ok {
		return Found{}, fmt.Errorf("%s has no job %s; see them with: gateway jobs list", provider, id)
	}
	f := Found{Job: j}
	f.Source, _ = r.SourceByID(j.SourceID)
	return f, nil
}

// Find returns the places of the sources and jobs that captures name, and the sources and jobs themselves, both by
// capture.PlaceKey. The error names everything that is missing.
func (r *Registry) Find(list []*capture.Capture) (capture.Places, map[string]Found, error) {
	cast, err := capture.Parties(list)
	if err != nil {
		return nil, nil, err
	}
	all := make(map[string]Found)
	var missing []error
	add := func(key string, f Found, err error) {
		if err != nil {
			missing = append(missing, err)
			return
		}
		all[key] = f
	}
	for _, m := range cast.Sources {
		s, err := r.source(m.Provider, m.Party)
		add(capture.PlaceKey(m.Provider, "source", m.Name), Found{Source: s}, err)
	}
	for _, m := range cast.Jobs {
		of := all[capture.PlaceKey(m.Provider, "source", m.Source)].Source
		if m.Source != "" && of == nil {
			continue // its source is among the missing
		}
		f, err := r.job(m.Provider, m.Party, of)
		add(capture.PlaceKey(m.Provider, "job", m.Name), f, err)
	}
	places := make(capture.Places)
	for key, f := range all {
		if places[key], err = f.place(key); err != nil {
			missing = append(missing, err)
		}
	}
	return places, all, errors.Join(missing...)
}

// source finds a source by its name, or by the identities that it pins.
func (r *Registry) source(provider string, p capture.Party) (*jobs.Source, error) {
	if s, ok := r.Source(provider, p.Name); ok && (len(p.Pins) == 0 || maps.Equal(jobs.ByName(s.Pins), p.Pins)) {
		return s, nil
	}
	if len(p.Pins) > 0 {
		for _, s := range r.AllSources(provider) {
			if maps.Equal(jobs.ByName(s.Pins), p.Pins) {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("no %s source is called %q%s; see gateway sources list", provider, p.Name, pinning(p))
}

// job finds a job by its id, or by the identities that it pins: of a source, or with its own secrets.
func (r *Registry) job(provider string, p capture.Party, source *jobs.Source) (Found, error) {
	under := uuid.Nil
	if source != nil {
		under = source.ID
	}
	fits := func(j *jobs.Job) bool {
		return j.SourceID == under && !j.Closed && (len(p.Pins) == 0 || maps.Equal(jobs.ByName(j.Pins), p.Pins))
	}
	if id, err := uuid.Parse(p.Name); err == nil {
		if f, err := r.jobByID(provider, id); err == nil && (source == nil || fits(f.Job)) {
			return f, nil
		}
	}
	var matches []*jobs.Job
	if len(p.Pins) > 0 {
		for _, j := range r.ActiveJobs(provider) {
			if fits(j) {
				matches = append(matches, j)
			}
		}
	}
	switch len(matches) {
	case 1:
		return Found{Source: source, Job: matches[0]}, nil
	case 0:
		return Found{}, fmt.Errorf("no %s job is %q%s; see gateway jobs list", provider, p.Name, pinning(p))
	default:
		return Found{}, fmt.Errorf("%d %s jobs%s: name one by its id, in place of %q", len(matches), provider, pinning(p), p.Name)
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

// Keyrings returns the secrets of the provider's sources, and of its active jobs that have their own. The keys say
// whose they are: "source main", "job 019c…".
func (r *Registry) Keyrings(provider string) map[string]jobs.Keyring {
	rings := make(map[string]jobs.Keyring)
	for _, s := range r.AllSources(provider) {
		rings["source "+s.Name] = s.Keyring
	}
	for _, j := range r.ActiveJobs(provider) {
		if j.OwnSecrets() {
			rings["job "+j.ID.String()] = j.Keyring
		}
	}
	return rings
}

package registry

import (
	"fmt"

	"github.com/google/uuid"

	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
)

// Target is where a sample is sent, and the identities that the sample names there.
type Target struct {
	capture.Place
	Identities map[string]string // by the vendor's names for them; one value for each
}

// SourceTarget returns the target of a source. Its identities include the newest tenant of each kind among its jobs.
func (r *Registry) SourceTarget(provider, name string) (Target, error) {
	s, ok := r.Source(provider, name)
	if !ok {
		return Target{}, fmt.Errorf("%s has no source %q; see them with: gateway sources list", provider, name)
	}
	pins := [][]jobs.Identity{s.Pins}
	for _, j := range r.ActiveJobs(provider) {
		if j.SourceID == s.ID {
			pins = append(pins, j.Pins)
		}
	}
	return target(Found{Source: s}, "source "+name, pins...)
}

// JobTarget returns the target of a job.
func (r *Registry) JobTarget(provider string, id uuid.UUID) (Target, error) {
	f, err := r.jobByID(provider, id)
	if err != nil {
		return Target{}, err
	}
	pins := [][]jobs.Identity{f.Job.Pins}
	if f.Source != nil {
		pins = append(pins, f.Source.Pins)
	}
	return target(f, "job "+id.String(), pins...)
}

func target(f Found, of string, pins ...[]jobs.Identity) (Target, error) {
	t := Target{Identities: make(map[string]string)}
	for _, list := range pins {
		for _, p := range list {
			if t.Identities[p.Name] == "" {
				t.Identities[p.Name] = p.Value
			}
		}
	}
	var err error
	t.Place, err = f.place(of)
	return t, err
}

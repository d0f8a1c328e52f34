// Package jobs stores sources and jobs: which webhooks we accept and which organization owns them. A source is one
// application at a vendor, a job is one reason to be called. It seals their signing secrets, and its Directory keeps all
// of them in memory.
package jobs

import (
	"bytes"
	"time"

	"github.com/google/uuid"
)

// Identity is one name that a vendor gives to a tenant or an application, under the vendor's own word
// for it: {team_id T1}, {grant_id …}, {api_app_id A1}.
type Identity struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// ByName returns identities as a map from their names to their values.
func ByName(list []Identity) map[string]string {
	values := make(map[string]string, len(list))
	for _, i := range list {
		values[i.Name] = i.Value
	}
	return values
}

// VerifierKind says whether a source or a job holds a secret.
type VerifierKind string

// The holders of signing secrets.
const (
	BySource VerifierKind = "source"
	ByJob    VerifierKind = "job"
)

// Verifier names whose secret verified a request.
type Verifier struct {
	Kind VerifierKind `json:"kind"`
	ID   uuid.UUID    `json:"id"`
}

// Source is one application at a vendor, as the Directory holds it. It is shared between requests and
// is never written to: a change makes a new one.
type Source struct {
	ID       uuid.UUID
	Provider string
	Name     string
	// Pins names the application itself, sorted by name; often empty.
	Pins    []Identity
	Keyring Keyring

	created time.Time
}

// Job is one reason to be called, as the Directory holds it. It is shared between requests and is never
// written to: a change makes a new one.
type Job struct {
	ID           uuid.UUID
	Organization uuid.UUID
	Provider     string
	// SourceID is the source whose secrets verify this job's calls; zero: the job holds its own.
	SourceID uuid.UUID
	// Pins names the tenant, sorted by name: exactly one identity under a source, any number otherwise.
	Pins []Identity
	// Fallback reports whether the job takes what names no tenant at all on its source's URL.
	Fallback bool
	// Closed reports that the job takes nothing any more. Its calls are still verified.
	Closed bool
	// Keyring holds the job's own secrets. Under a source it is empty and verifies nothing.
	Keyring Keyring
}

// OwnSecrets reports whether the job holds its own secrets and belongs to no source.
func (j *Job) OwnSecrets() bool { return j.SourceID == uuid.Nil }

// replaces reports whether j is found for its tenant instead of the other job: an active job before a closed one, a
// newer before an older. The other may be nil.
func (j *Job) replaces(other *Job) bool {
	if other == nil || j.Closed != other.Closed {
		return other == nil || other.Closed
	}
	return bytes.Compare(j.ID[:], other.ID[:]) > 0
}

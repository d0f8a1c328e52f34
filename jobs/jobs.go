// Package jobs holds why a call may arrive and whose it is: sources (one application at a vendor),
// jobs (one reason to be called, and its organization), their sealed signing secrets, and the directory
// that keeps them in memory for the door.
package jobs

import "github.com/google/uuid"

// Identity is one name that a vendor gives to a tenant or an application, under the vendor's own word
// for it: {team_id T1}, {grant_id …}, {api_app_id A1}.
type Identity struct {
	Name  string `json:"name"`
	Value string `json:"value"`
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

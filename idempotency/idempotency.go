package idempotency

import (
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// Ref is the address of one key. The organization is always an argument, never implied.
type Ref struct {
	Organization uuid.UUID
	Scope        Scope
	Key          Key
}

// validate refuses a Ref that no builder made. It allocates only if it refuses.
func (r Ref) validate() error {
	switch {
	case r.Organization == uuid.Nil:
		return ErrOrganization
	case r.Scope.name == "":
		return ErrScope
	case r.Key.text == "":
		return ErrKey
	}
	return nil
}

// LogValue returns the attributes that identify the key: organization, scope and key.
func (r Ref) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("organization_id", r.Organization.String()),
		slog.String("scope", r.Scope.name),
		slog.String("key", r.Key.text),
	)
}

// Kind is the state of a key, as seen by the caller. The set is closed, so it can be a metric label.
type Kind string

// The kinds. An Outcome has one of the first five; a batch of Effects returns one of the last five.
const (
	// Absent: no answer is known. Only Read returns it, also for a claim whose lease has passed and for a row past its
	// retention; Claim takes those over.
	Absent Kind = "absent"
	// Claimed: the caller owns the key. Make the effect, then Complete or Release.
	Claimed Kind = "claimed"
	// Completed: the effect was made; its answer is stored.
	Completed Kind = "completed"
	// Processing: another worker holds a live lease. It says nothing about the effect.
	Processing Kind = "processing"
	// Conflict: the key was claimed for another content.
	Conflict Kind = "conflict"
	// Unsettled: the batch could not decide, and claimed nothing. Claim the key singly.
	Unsettled Kind = "unsettled"
)

// Verdict is the Kind that a batch of Effects returns for one item: any except Absent.
type Verdict = Kind

// Identity identifies a claim: the row's id and the fencing token. One worker generates it once for one claim. A repeat
// with the same Identity after an uncertain answer recognizes its own row. Two workers with the same Identity both own
// the key.
type Identity struct {
	ID    uuid.UUID // version 7 keeps the primary key's index small
	Token uuid.UUID // unguessable; new for every claim and every reclaim
}

// Mint returns a new Identity.
func Mint() Identity {
	return Identity{ID: uuid.Must(uuid.NewV7()), Token: uuid.New()}
}

// Claim is the right to end one claim. Complete and Release need nothing else; it holds the organization.
type Claim struct {
	Ref Ref
	Identity
	// Reclaimed says that an earlier worker held the key and its lease passed. That worker may have made the effect.
	// Unless the vendor takes the key, check before you make it again.
	Reclaimed bool
	// Deadline is when the lease passes, on this process's monotonic clock and never later than on the database's. The
	// effect must be over by then. Extend moves it.
	Deadline time.Time

	within *leaseContext // the effect's context, once it exists
}

// Outcome is the result of Read and Claim.
type Outcome struct {
	Kind   Kind
	Claim  *Claim // only for Claimed
	Answer Answer // only for Completed
	// Own is set for Completed if the key was completed under the Identity that asked. It is not a duplicate: the call
	// repeats its own claim, whose acknowledgement was lost.
	Own bool
	// RetryAfter is set for Processing: the rest of the live lease.
	RetryAfter time.Duration

	ref Ref
}

// Err returns the outcome as an error, for a caller under an orchestrator: an *InFlightError for Processing, a
// *MismatchError for Conflict, nil for the rest. A caller that answers a vendor must not return it: the delivery has
// not failed.
func (o Outcome) Err() error {
	switch o.Kind {
	case Processing:
		return &InFlightError{Ref: o.ref, RetryAfter: o.RetryAfter}
	case Conflict:
		return &MismatchError{Ref: o.ref}
	default:
		return nil
	}
}

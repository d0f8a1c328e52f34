package idempotency

import (
	"log/slog"
	"time"

	"github.com/google/uuid"
)

// Ref is the address of one key. The tenant is always an argument; there is no ambient one.
type Ref struct {
	Organization uuid.UUID
	Scope        Scope
	Key          Key
}

// validate refuses what no builder made. It allocates nothing unless it refuses.
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

// LogValue gives the attributes by which a key is looked up: organization, scope and key.
func (r Ref) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("organization_id", r.Organization.String()),
		slog.String("scope", r.Scope.name),
		slog.String("key", r.Key.text),
	)
}

// Kind is how a key stands, for the caller that asks. The set is closed; it serves as a metric label.
type Kind string

// The kinds. An Outcome is one of the first five; a batch of Effects answers one of the last five.
const (
	// Absent: no answer is known. Read alone answers it, also for a claim whose lease has passed and
	// for a row past its retention; Claim then takes them over.
	Absent Kind = "absent"
	// Claimed: the key is the caller's. Make the effect, then Complete or Release.
	Claimed Kind = "claimed"
	// Completed: the effect was made; its answer is stored.
	Completed Kind = "completed"
	// Processing: another worker holds a live lease. It is no answer and says nothing about the effect.
	Processing Kind = "processing"
	// Conflict: the key was claimed for another content.
	Conflict Kind = "conflict"
	// Unsettled: the batch could not tell, and took nothing. Claim the key singly.
	Unsettled Kind = "unsettled"
)

// Verdict is the Kind that a batch of Effects answers for one item: any but Absent.
type Verdict = Kind

// Identity is what a claim is recognised by: the row's id and the fence. One worker mints it once for one
// claim; a repeat with the same Identity after an uncertain answer recognises its own row. Two workers
// that share one both own the key.
type Identity struct {
	ID    uuid.UUID // version 7 keeps the primary key's index small
	Token uuid.UUID // unguessable; new on every claim and every reclaim
}

// Mint returns a new Identity.
func Mint() Identity {
	return Identity{ID: uuid.Must(uuid.NewV7()), Token: uuid.New()}
}

// Claim is the right to end one claim. It is all that Complete and Release need: the tenant was told once.
type Claim struct {
	Ref Ref
	Identity
	// Reclaimed says that an earlier worker held the key and its lease passed: it may have made the
	// effect. Unless the vendor takes the key, find out before making it again.
	Reclaimed bool
	// Deadline is when the lease passes, on this process's monotonic clock and never later than on the
	// database's. The effect must be over by then. Extend moves it.
	Deadline time.Time

	within *leaseContext // the context of the effect, once there is one
}

// Outcome is what Read and Claim answer.
type Outcome struct {
	Kind   Kind
	Claim  *Claim // Claimed alone
	Answer Answer // Completed alone
	// Own accompanies Completed: the key was completed under the very Identity that asked. It is no
	// duplicate but a repeat of one's own claim whose acknowledgement was lost.
	Own bool
	// RetryAfter accompanies Processing: what is left of the live lease.
	RetryAfter time.Duration

	ref Ref
}

// Err is the outcome as an error, for a caller that an orchestrator drives: an *InFlightError for
// Processing, a *MismatchError for Conflict, nil for the rest. A caller at an HTTP boundary must not
// raise it: a vendor would be told that a delivery failed which did not.
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

// Package idempotency makes a repeated command have the effect of one. Every layer that makes an effect
// claims a key for it in one PostgreSQL table, and ends the claim when it knows how the effect went. The
// table is the source of truth; no cache and no lock outside it takes part.
//
// # A claim
//
// A key belongs to an organization and a scope, and is claimed for a content. Service.Claim answers with an
// Outcome, which is one of four things to its caller:
//
//	Claimed      the key is yours: make the effect, then Complete or Release
//	Completed    the effect was made: here is its answer
//	Processing   another worker holds a live lease; this is no answer
//	Conflict     the key was claimed for another content: never repeat, alert
//
// Service.Read tells the same without claiming, and Absent where nothing is known. A caller that an
// orchestrator drives raises Outcome.Err for Processing and Conflict. A caller at an HTTP boundary does not:
// a vendor would be told that a delivery failed which did not; it drops the delivery and acknowledges.
//
// # Two clocks
//
// The lease says how long the claim's worker may be busy: it is the effect's time-out and a margin, and the
// caller's to choose. Once it has passed, the next caller reclaims the key. The retention says how long the
// answer is remembered: it is a constant of the scope (NewScope), and a longer lease raises it. Neither is
// derived from the other. Both are kept by the database's clock: durations go in, and no host's clock can
// steal a lease. An orchestrator's last attempt must come after the lease (RetrySchedule).
//
// # The fence
//
// Every claim and every reclaim has a new token, and an ending counts only under it. A worker that stalled
// past its lease and was replaced can neither store its answer nor release its successor's claim; it is told
// false, and does nothing. While nobody has replaced it, it may still complete: its effect was made.
//
// # Three endings
//
// An answer, good or bad, completes the claim, and every repeat gets the same one. A failure that certainly
// had no effect and is worth repeating releases it. When it is unknown whether the effect was made, the claim
// is left alone: its lease runs out, and whoever reclaims it sees Claim.Reclaimed. Do and DoTx choose between
// them by what the effect returns.
//
// # Where the effect is
//
// An effect that is rows in the same database shares a transaction with its claim (Service.In, DoTx,
// Service.NewEffects): nobody ever sees it half done. An effect elsewhere cannot: the worker may die between
// the effect and its record. If the vendor takes idempotency keys, pass the key on, and the repeat is
// harmless. If it takes none, reconcile first (Task.Reconcile); without either, the operation is not safe to
// repeat.
//
// # Keys
//
// A key says which effect, not which attempt: builders make it from what does not change when a worker
// repeats itself, and a model never chooses it. Two different inputs never give one key. What the request was
// is its Fingerprint, which leaves out what a sender changes between two attempts.
//
// # Batches
//
// ClaimMany, CompleteMany and NewEffects take many keys in one ordered statement, so that two writers cannot
// deadlock. Two of them in one transaction are unsorted together; a transaction takes one.
//
// # The server
//
// PostgreSQL 15 or later, a primary, READ COMMITTED, fsync on: CheckServer refuses anything else. Waits for a
// key that an open transaction holds are bounded, and end in ErrLockTimeout, which is no outcome: the holder
// may yet roll back.
//
// With synchronous standbys an answer waits for them, whatever it rests on: also the answer that a key is
// completed. Make the pool's config with WatchCommits, so that a wait that an administrator cancels is
// ErrUnreplicated.
package idempotency

// Package idempotency makes a repeated command take effect once. Every layer that makes an effect claims a key for it
// in one PostgreSQL table, and ends the claim when it knows the outcome. The table is the source of truth; there is no
// cache and no lock outside it.
//
// # One call
//
//	keys, err := idempotency.NewService(pool, idempotency.Options{})
//	…
//	result, err := idempotency.Do(ctx, keys, idempotency.Task[Receipt]{
//		Ref:     idempotency.Ref{Organization: org, Scope: scope, Key: key}, // which effect
//		Content: idempotency.Content(arguments),                             // its input
//		Lease:   40 * time.Second,                                           // its timeout plus a margin
//	}, func(ctx context.Context, c *idempotency.Claim) (Receipt, error) {
//		return bank.Pay(ctx, c.Ref.Key.String(), arguments)
//	})
//
// The first call makes the effect and stores its answer; every later one gets that answer, Replayed. What the effect
// returns decides how the claim ends: a value or a *Failure is the answer, NoEffect(err) releases the key. After any
// other error it is unknown whether the effect was made, so the claim stays until its lease has passed. Retryable says
// which errors are temporary, and when to call again.
//
//	InTx  the effect is rows in the same database: begins and commits one transaction
//	DoTx  the same in the caller's transaction
//	Do    the effect is elsewhere: a vendor, a mail server, another database
//	Peek  the stored answer without a claim, before a policy checkpoint
//
// Package httpdoor protects an HTTP API this way, and idempotencytest gives your tests a database. In the module,
// docs/tutorial.md builds a complete tool, and docs/effects.md has a section for each kind of effect.
//
// # Scopes
//
// A Scope names the operation, and its prefix determines how long answers are remembered. NewScope refuses other names.
//
//	tool.*     30 days  a tool's write, by the step of its job: ToolKey, ToolCallKey
//	surface.*  1 day    a command that a user gives at a surface: NewKey
//	http.*     1 day    an API's operation, under the key that its client chose: ClientKey
//
// NewScopeFor takes any name and the retention that its sender needs. The gateway makes the scope of each vendor's
// deliveries this way, and their keys with DeliveryKey.
//
// # The schema
//
// The table comes with the gateway: run gateway migrate up before you start a new build, or call migrations.Up. The
// pool must reach the primary of that database, with prepared statements. If no gateway serves the database, run
// gateway sweep or call Service.Sweep: it removes rows past their retention.
//
// # Keys
//
// A key identifies an effect, not an attempt: builders make it from parts that do not change when a worker repeats
// itself, and a model never chooses it. Two different inputs never give one key; a missing part is an error. The
// Fingerprint identifies the content of the request, without the members that a sender changes between two attempts:
// the same key with other content is an ErrMismatch.
//
// # Where the effect is
//
// An effect that is rows in the same database shares a transaction with its claim (InTx, DoTx, Service.NewEffects): it
// is never visible half done. An effect elsewhere cannot: the worker may die between the effect and its record. If the
// vendor takes idempotency keys, pass the key on, and the repeat is safe. If it takes none, reconcile first
// (Task.Reconcile). Without either, the operation is not safe to repeat.
//
// # Types that change
//
// Stored answers and fingerprints outlive a release, for the retention of their scope. A renamed field of an answer is
// zero in answers stored before: keep reading the old name in Task.Decode. A new field of the input changes the content
// of the same command, which then gets ErrMismatch: leave the field out of the JSON while it has its old meaning
// (omitempty).
//
// # Your responsibility
//
// The package cannot refuse some mistakes. Middleware above httpdoor must not read the body. An effect of InTx and DoTx
// must write only through its transaction: what it does over another connection, or at a vendor, stays after a
// rollback. A claim of Do is committed at once, even if its caller rolls back a surrounding transaction. Return NoEffect
// only if it is certain.
//
// # For builders
//
// The rest is for code that the calls above do not fit: another receiver, a batch of deliveries.
//
// # A claim
//
// A key belongs to an organization and a scope, and is claimed for a content. Service.Claim returns an Outcome with one
// of four kinds:
//
//	Claimed      you own the key: make the effect, then Complete or Release
//	Completed    the effect was made: here is its answer
//	Processing   another worker holds a live lease; this is not an answer
//	Conflict     the key was claimed for another content: never repeat, alert
//
// Service.Read returns the same without claiming, and Absent if nothing is known. Under an orchestrator, return
// Outcome.Err for Processing and Conflict. Do not return it to a vendor, because the delivery has not failed: drop the
// delivery and acknowledge it.
//
// # Two clocks
//
// The lease is how long the claim's worker may be busy: the effect's timeout plus a margin, chosen by the caller. Once
// it has passed, the next caller reclaims the key. The retention is how long the answer is remembered: a constant of
// the scope (NewScope), which a longer lease raises. Neither is derived from the other. The database's clock measures
// both: calls send durations, so a host with a wrong clock cannot steal a lease. An orchestrator's last attempt must
// come after the lease (RetrySchedule).
//
// # The fence
//
// Every claim and every reclaim has a new token, and an ending counts only with that token. A worker that stalled past
// its lease and was replaced can neither store its answer nor release the new worker's claim: its call returns false,
// and it does nothing. Until another worker replaces it, it may still complete, because its effect was made.
//
// # Three endings
//
// An answer, good or bad, completes the claim, and every repeat gets the same one. A failure that certainly had no
// effect, and that is worth a retry, releases the claim. If it is unknown whether the effect was made, the claim stays:
// its lease runs out, and the worker that reclaims it sees Claim.Reclaimed. Do and DoTx choose the ending by what the
// effect returns.
//
// # Batches
//
// ClaimMany, CompleteMany and NewEffects take many keys in one sorted statement, so that two writers cannot deadlock.
// Two such statements in one transaction are not sorted together, so a transaction takes only one. Ending.End tells
// CompleteMany for each claim what an effect's error tells Do.
//
// # The server
//
// PostgreSQL 15 or later, a primary, READ COMMITTED, fsync on: CheckServer refuses anything else. Waits for a key that
// an open transaction holds are bounded, and end in ErrLockTimeout, which is not an outcome: the holder may still roll
// back.
//
// With synchronous standbys every answer waits for them, also the answer that a key is completed. Make the pool's
// config with WatchCommits: then a wait that an administrator cancels returns ErrUnreplicated.
package idempotency

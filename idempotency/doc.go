// Package idempotency makes a repeated command have the effect of one. Every layer that makes an effect
// claims a key for it in one PostgreSQL table, and ends the claim when it knows how the effect went. The
// table is the source of truth; no cache and no lock outside it takes part.
//
// # One call
//
//	keys, err := idempotency.NewService(pool, idempotency.Options{})
//	…
//	result, err := idempotency.Do(ctx, keys, idempotency.Task[Receipt]{
//		Ref:     idempotency.Ref{Organization: org, Scope: scope, Key: key}, // which effect
//		Content: idempotency.Content(arguments),                             // what it is asked with
//		Lease:   40 * time.Second,                                           // its time-out and a margin
//	}, func(ctx context.Context, c *idempotency.Claim) (Receipt, error) {
//		return bank.Pay(ctx, c.Ref.Key.String(), arguments)
//	})
//
// The first call makes the effect and stores its answer; every later one gets that answer, Replayed. What the
// effect returns decides how the claim ends: a value or a *Failure is the answer, NoEffect(err) frees the key, any
// other error leaves it alone until its lease has passed, because it is unknown whether the effect was made. Retryable
// tells which errors pass, and when to call again.
//
//	InTx  the effect is rows in the same database: one transaction, begun and committed for you
//	DoTx  the same in a transaction of yours
//	Do    the effect is elsewhere: a vendor, a mail server, another database
//	Peek  the stored answer without a claim, before a policy checkpoint
//
// Package httpdoor puts this before an HTTP API, and idempotencytest gives your tests a database. In the module,
// docs/tutorial.md makes a whole tool, and docs/effects.md has a section for each kind of effect.
//
// # Scopes
//
// A Scope names the operation, and its beginning says how long answers are remembered. Other names are refused.
//
//	tool.*         30 days  a tool's write, by the step of its job: ToolKey, ToolCallKey
//	surface.*      1 day    a command that a user gives at a surface: NewKey
//	http.*         1 day    an API's operation, under the key that its client chose: ClientKey
//	webhook.nylas  1 day    a vendor's delivery: DeliveryKey
//	webhook.slack  2 days
//	webhook.*      7 days
//
// # The schema
//
// The table comes with the gateway: run gateway migrate up before you start a new build, or call migrations.Up. The
// pool must reach the primary of that database, with prepared statements. Run gateway sweep, or call
// Service.Sweep, where no gateway serves: it removes what is past its retention.
//
// # Keys
//
// A key says which effect, not which attempt: builders make it from what does not change when a worker
// repeats itself, and a model never chooses it. Two different inputs never give one key; a missing part is an
// error. What the request was is its Fingerprint, which leaves out what a sender changes between two attempts: the
// same key for another content is an ErrMismatch.
//
// # Where the effect is
//
// An effect that is rows in the same database shares a transaction with its claim (InTx, DoTx,
// Service.NewEffects): it is never seen half done. An effect elsewhere cannot: the worker may die between
// the effect and its record. If the vendor takes idempotency keys, pass the key on, and the repeat is
// harmless. If it takes none, reconcile first (Task.Reconcile); without either, the operation is not safe to
// repeat.
//
// # Types that change
//
// Answers and contents outlive a release, by the retention of their scope. A renamed field of an answer is read as its
// zero from answers stored before: keep the old name readable in Task.Decode. An added field of the input makes another
// content of the same command, an ErrMismatch: leave it out of the JSON while it has its old meaning (omitempty).
//
// # What stays yours
//
// Some mistakes cannot be refused. Middleware above httpdoor must not read the body. An effect of InTx and DoTx must
// write through its transaction alone: what goes out by another connection or to a vendor stays when it rolls back. A
// claim of Do is committed at once, also where its caller rolls back a transaction around it. NoEffect must be certain.
//
// # For builders
//
// The rest is for code that the calls above do not fit: another door, a batch of deliveries.
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
// # Batches
//
// ClaimMany, CompleteMany and NewEffects take many keys in one ordered statement, so that two writers cannot
// deadlock. Two of them in one transaction are unsorted together; a transaction takes one. Ending.End says of each
// claim what the effect's error says to Do.
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

package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// DefaultLockWait is how long a claim waits for an open transaction that holds its key.
	DefaultLockWait = 200 * time.Millisecond

	// maxRounds is how often a claim retries when the key changes hands meanwhile. Sixteen workers on three keys with
	// leases of 20 ms needed five.
	maxRounds = 8
	// maxResends is how often a statement is repeated after its connection was lost.
	maxResends = 2
)

// Options configure a Service. The zero value is good.
type Options struct {
	LockWait time.Duration // DefaultLockWait if zero
	Observer Observer      // receives every outcome and ending; may be nil
}

// Service decides what a duplicate means. It is safe for concurrent use.
type Service struct {
	repo     repository
	observer Observer
}

// ErrPool refuses a pool that a Service cannot use.
var ErrPool = errors.New("idempotency: unusable pool")

// NewService returns a Service on the pool, whose connections must reach a primary, never a standby. The error wraps
// ErrPool: the pool is nil, or it does not use prepared statements (default_query_exec_mode), without which batches
// fail.
func NewService(pool *pgxpool.Pool, o Options) (*Service, error) {
	if pool == nil {
		return nil, fmt.Errorf("%w: nil", ErrPool)
	}
	if mode := pool.Config().ConnConfig.DefaultQueryExecMode; mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeSimpleProtocol {
		return nil, fmt.Errorf("%w: its default_query_exec_mode is %s: leave it out", ErrPool, mode)
	}
	if conn := pool.Config().ConnConfig; conn.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement && conn.StatementCacheCapacity <= 0 ||
		conn.DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe && conn.DescriptionCacheCapacity <= 0 {
		return nil, fmt.Errorf("%w: its statement_cache_capacity or description_cache_capacity is 0: leave it out", ErrPool)
	}
	if o.LockWait <= 0 {
		o.LockWait = DefaultLockWait
	}
	return &Service{repo: repository{db: checkedPool{pool}, lockWait: o.LockWait}, observer: o.Observer}, nil
}

// MustService is NewService for the start of a program. It panics on an error.
func MustService(pool *pgxpool.Pool, o Options) *Service {
	s, err := NewService(pool, o)
	if err != nil {
		panic(err)
	}
	return s
}

// pool returns the Service's pool; false in a transaction.
func (s *Service) pool() (*pgxpool.Pool, bool) {
	p, ok := s.repo.db.(checkedPool)
	return p.Pool, ok
}

// In returns the Service in a caller's transaction, for an effect that is a row: claim, effect and completion commit or
// roll back together, and other workers never see the key as processing. The transaction must be READ COMMITTED and
// must not be used concurrently. Each call runs in a savepoint, so that an error such as ErrLockTimeout leaves the
// transaction usable and its lock_timeout unchanged. A lost fence returns ErrFenceLost. After a lost connection nothing
// is repeated, because the transaction is lost too.
func (s *Service) In(tx pgx.Tx) *Service {
	t := *s
	t.repo.db, t.repo.nested = tx, true
	return &t
}

// Read returns the state of the key without claiming it, and never writes. Absent means that there is no answer, not
// that there is no row: a claim whose lease passed belongs to a worker that is gone.
func (s *Service) Read(ctx context.Context, r Ref, f Fingerprint) (Outcome, error) {
	if err := validate(r, f); err != nil {
		return Outcome{}, err
	}
	var rec *record
	err := s.resend(ctx, func() (err error) {
		rec, err = s.repo.get(ctx, r)
		return err
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("read key: %w", explain(err))
	}
	o := outcome(r, f, rec)
	s.observe(ctx, Event{Op: OpRead, Ref: r, Kind: o.Kind})
	return o, nil
}

// outcome judges a row that another worker wrote. Absent: the caller may take it.
func outcome(r Ref, f Fingerprint, rec *record) Outcome {
	o := Outcome{Kind: Absent, ref: r}
	switch {
	case rec == nil || rec.Forgotten:
	case !same(f, rec.Hash): // before the lease: an expired claim for other content is still a conflict
		o.Kind = Conflict
	case rec.Completed:
		o.Kind, o.Answer = Completed, rec.Answer
	case !rec.LeasePassed:
		o.Kind, o.RetryAfter = Processing, rec.Remaining
	}
	return o
}

// Claim claims the key for the caller, or returns its state. The lease is the effect's timeout plus a margin. Once it
// has passed, the next caller reclaims the key.
func (s *Service) Claim(ctx context.Context, r Ref, f Fingerprint, lease time.Duration) (Outcome, error) {
	return s.ClaimAs(ctx, Mint(), r, f, lease)
}

// ClaimAs is Claim under an Identity that the caller generated, for a caller that may have to repeat the claim after an
// uncertain COMMIT of its own. If the repeat finds the key completed by itself, the outcome is Completed with Own.
// Outside a transaction, do not reuse an Identity if ctx ends during the call: the claim is released later.
func (s *Service) ClaimAs(ctx context.Context, who Identity, r Ref, f Fingerprint, lease time.Duration) (Outcome, error) {
	if err := validate(r, f); err != nil {
		return Outcome{}, err
	}
	if err := who.validate(); err != nil {
		return Outcome{}, err
	}
	if err := validateLease(lease); err != nil {
		return Outcome{}, err
	}
	started := time.Now()
	o, err := runDetached(ctx, s, func(ctx context.Context, s *Service) (Outcome, error) { return s.claiming(who, r, f, lease).run(ctx) },
		func(o Outcome) []Outcome { return []Outcome{o} })
	if err != nil {
		return Outcome{}, fmt.Errorf("claim key: %w", err)
	}
	s.observe(ctx, Event{Op: OpClaim, Ref: r, Kind: o.Kind, Reclaimed: o.Claim != nil && o.Claim.Reclaimed, Took: time.Since(started)})
	return o, nil
}

// Complete stores the answer and ends the claim for good. If recorded is false, another worker owns the key and the
// caller does nothing. It also completes a claim whose lease passed, if no worker reclaimed it, because its effect was
// made. Repeating a Complete keeps the first answer and returns true; repeat it after an error such as ErrLockTimeout,
// when an open transaction holds the row. A stub replaces a response that cannot be kept: see Answer.Unkept.
func (s *Service) Complete(ctx context.Context, c *Claim, a Answer) (recorded bool, err error) {
	if err := a.validate(); err != nil {
		return false, err
	}
	err = s.resend(ctx, func() error {
		rec, err := s.repo.complete(ctx, c.Identity, a)
		if err == nil && rec == nil { // another worker's, or completed by a call whose answer was lost
			rec, err = s.repo.held(ctx, c.Identity)
		}
		recorded = rec != nil && rec.Completed
		return err
	})
	return s.ended(ctx, c, OpComplete, recorded, err)
}

// Release ends an unfinished claim after a failure that certainly had no effect: the next caller claims the key at
// once. A claim that was Reclaimed keeps its row, with a passed lease: this worker made no effect, but the previous one
// may have, and the next caller must learn that too. If released is false, another worker owns the key or the claim had
// ended, and the caller does nothing.
func (s *Service) Release(ctx context.Context, c *Claim) (released bool, err error) {
	if c.Reclaimed {
		err = s.resend(ctx, func() error {
			rec, err := s.repo.lapse(ctx, c.Identity)
			released = rec != nil
			return err
		})
		return s.ended(ctx, c, OpRelease, released, err)
	}
	sent := 0
	err = s.resend(ctx, func() (err error) {
		released, err = s.repo.release(ctx, c.Identity)
		if sent++; err == nil && !released && sent > 1 {
			// An earlier sending deleted the row, unless another worker has it now.
			taken, err := s.repo.idExists(ctx, c.ID)
			released = err == nil && !taken
			return err
		}
		return err
	})
	return s.ended(ctx, c, OpRelease, released, err)
}

// Extend renews the whole lease of a claim that is still held, for work that takes longer than expected. It moves the
// claim's Deadline and the end of the effect's context. Call it from the goroutine that holds the claim. If held is
// false, another worker owns the key or the claim had ended: stop working.
func (s *Service) Extend(ctx context.Context, c *Claim, lease time.Duration) (held bool, err error) {
	if err := validateLease(lease); err != nil {
		return false, err
	}
	started := time.Now()
	err = s.resend(ctx, func() error {
		rec, err := s.repo.extend(ctx, c.Identity, lease)
		if held = rec != nil; held {
			c.Deadline = started.Add(min(rec.Remaining, lease))
		}
		return err
	})
	if held && c.within != nil {
		c.within.arm(c.Deadline)
	}
	return s.ended(ctx, c, OpExtend, held, err)
}

func (s *Service) ended(ctx context.Context, c *Claim, op Op, held bool, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("%s claim: %w", op, explain(err))
	}
	s.observe(ctx, Event{Op: op, Ref: c.Ref, Kind: Claimed, Reclaimed: c.Reclaimed, FenceLost: !held})
	if !held && s.repo.nested {
		return false, ErrFenceLost
	}
	return held, nil
}

// resend runs a statement, and repeats it if its connection was lost before the answer came. The statements recognize
// what an earlier sending did.
func (s *Service) resend(ctx context.Context, send func() error) error {
	for n := 0; ; n++ {
		err := send()
		if err == nil || s.repo.nested || n == maxResends || !acknowledgementLost(ctx, err) {
			return err
		}
	}
}

func validate(r Ref, f Fingerprint) error {
	if err := r.validate(); err != nil {
		return err
	}
	if f == nil || f.Current().text == "" {
		return ErrHash
	}
	return nil
}

func (i Identity) validate() error {
	if i.ID == (Identity{}).ID || i.Token == (Identity{}).Token {
		return ErrIdentity
	}
	return nil
}

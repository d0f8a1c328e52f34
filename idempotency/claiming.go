package idempotency

import (
	"context"
	"time"
)

// claiming is a claim in progress. The token stays the same in every round, so that the claim recognizes its own row.
type claiming struct {
	s           *Service
	ref         Ref
	fingerprint Fingerprint
	terms       terms

	decided *record // the row that decided
}

func (s *Service) claiming(who Identity, r Ref, f Fingerprint, lease time.Duration) *claiming {
	return &claiming{s: s, ref: r, fingerprint: f, terms: terms{
		Identity: who, Hash: f.Current(), Lease: lease, Retention: r.Scope.retain(lease),
	}}
}

// run repeats rounds until the key is settled.
func (c *claiming) run(ctx context.Context) (Outcome, error) {
	for range maxRounds {
		o, settled, err := c.round(ctx)
		if err != nil || settled {
			return o, err
		}
	}
	return Outcome{}, ErrContended
}

// round reads the key once. Not settled: the key changed hands meanwhile.
func (c *claiming) round(ctx context.Context) (o Outcome, settled bool, err error) {
	started := time.Now() // the deadline counts from before the statement was sent
	var rec *record
	err = c.s.resend(ctx, func() error {
		rec, err = c.s.repo.tryClaim(ctx, c.ref, c.terms)
		return err
	})
	if err != nil || rec == nil {
		return Outcome{}, false, err
	}
	return c.judge(ctx, rec, started)
}

// judge returns the outcome for the row that exists after the insert.
func (c *claiming) judge(ctx context.Context, rec *record, started time.Time) (o Outcome, settled bool, err error) {
	c.decided = rec
	if rec.Token == c.terms.Token {
		return c.own(ctx, rec, started)
	}
	if o := outcome(c.ref, c.fingerprint, rec); o.Kind != Absent {
		return o, true, nil
	}
	return c.take(ctx, rec)
}

// take takes over a row that is free to take: a row past its retention completely, an expired claim by its lease.
func (c *claiming) take(ctx context.Context, seen *record) (o Outcome, settled bool, err error) {
	started := time.Now()
	var rec *record
	err = c.s.resend(ctx, func() error {
		if seen.Forgotten {
			rec, err = c.s.repo.takeOver(ctx, seen.Identity, c.terms)
		} else {
			rec, err = c.s.repo.reclaim(ctx, seen.Identity, c.terms)
		}
		return err
	})
	if err != nil || rec == nil {
		return Outcome{}, false, err
	}
	return c.own(ctx, rec, started)
}

// own returns the outcome for a row with the caller's token.
func (c *claiming) own(ctx context.Context, rec *record, started time.Time) (o Outcome, settled bool, err error) {
	c.decided = rec
	if rec.Completed {
		return Outcome{Kind: Completed, Answer: rec.Answer, Own: true, ref: c.ref}, true, nil
	}
	// If the statement waited, it computed the lease before its wait; a recognized claim was made earlier. So the lease
	// is extended to its full length, under the fence.
	if lost := c.terms.Lease - rec.Remaining; lost > min(time.Second, c.terms.Lease/10) {
		started = time.Now()
		held := rec.Identity
		err = c.s.resend(ctx, func() error {
			rec, err = c.s.repo.extend(ctx, held, c.terms.Lease)
			return err
		})
		if err != nil || rec == nil {
			return Outcome{}, false, err
		}
		c.decided = rec
	}
	return Outcome{
		Kind: Claimed,
		Claim: &Claim{
			Ref: c.ref, Identity: rec.Identity,
			Reclaimed: rec.ID != c.terms.ID, // a reclaimed row keeps the id of the first claim
			Deadline:  started.Add(rec.Remaining),
		},
		ref: c.ref,
	}, true, nil
}

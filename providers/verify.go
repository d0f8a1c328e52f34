package providers

import (
	"errors"
	"slices"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
)

// The ways in which a well-formed signature is not accepted.
var (
	errMismatch    = errors.New("signature matches no live secret")
	errNoSecret    = errors.New("no secret to verify with yet")
	errUnconfirmed = errors.New("mismatch could not be confirmed")
)

// holder is who may have signed a request. Two are equal only if their secrets are the same: a change of the
// directory makes a new keyring.
type holder struct {
	verifier jobs.Verifier
	keyring  *jobs.Keyring
}

// verify finds whose secret signed the body. A mismatch is final only after a look at the directory that
// began after the request came: a secret set a moment ago at another gateway is then known here, and a
// vendor that never repeats a refused call loses nothing.
func (r *Receiver) verify(p Provider, x *exchange, proof Proof) (jobs.Verifier, error) {
	holders, _ := r.holders(p, x.target)
	verifier, ok, err := r.try(p, x, proof, trial{holders: holders})
	if ok || err != nil {
		return verifier, err
	}
	ctx, cancel := x.patience()
	defer cancel()
	if r.directory.Refresh(ctx, x.arrived) != nil {
		return jobs.Verifier{}, errUnconfirmed
	}
	again, known := r.holders(p, x.target)
	verifier, ok, err = r.try(p, x, proof, trial{holders: again, failed: holders})
	if ok || err != nil {
		return verifier, err
	}
	if doubt := doubtOf(again); known && doubt != nil {
		return jobs.Verifier{}, doubt
	}
	return jobs.Verifier{}, errMismatch
}

// trial is who may have made a proof.
type trial struct {
	holders []holder
	failed  []holder // of whom it is known that they did not
}

// manyBytes is how much may be hashed for one request at once. A body is hashed with each secret of each
// holder, so that a stranger's few megabytes can cost a thousand times as many.
const manyBytes = 16 << 20

// try takes every holder in turn. One whose keyring is still the one that failed is not tried again.
func (r *Receiver) try(p Provider, x *exchange, proof Proof, t trial) (who jobs.Verifier, ok bool, err error) {
	secrets := 0
	for _, h := range t.holders {
		if !slices.Contains(t.failed, h) {
			secrets += len(h.keyring.Secrets)
		}
	}
	if secrets > 1 && secrets*len(x.body) > manyBytes {
		ctx, cancel := x.patience()
		defer cancel()
		select {
		case r.trials <- struct{}{}:
			defer func() { <-r.trials }()
		case <-ctx.Done():
			return who, false, errOverBudget
		}
	}
	for _, h := range t.holders {
		if slices.Contains(t.failed, h) {
			continue
		}
		result := h.keyring.Verify(func(secret string) bool { return proof.Verify(secret, x.body) })
		if result.Matched {
			r.metrics.verified(p.Name(), result.Previous)
			return h.verifier, true, nil
		}
	}
	if secrets == 0 && t.failed == nil {
		// An id that nobody holds takes an HMAC's time, like one that somebody does.
		proof.Verify("no secret is held for this request", x.body)
	}
	return who, false, nil
}

// doubtOf is why it is not certain that none of the holders signed; nil when it is.
func doubtOf(holders []holder) (doubt error) {
	for _, h := range holders {
		switch h.keyring.Verify(func(string) bool { return false }).Doubt {
		case jobs.NoSecret, jobs.Sealed:
			doubt = errNoSecret
		case jobs.Rotating:
			doubt = errUnconfirmed
		}
	}
	return doubt
}

// holders lists whose secrets are tried for a target. A job's own secrets, or its source's: never another
// one's. For an id that nobody holds every source of the provider is tried, so that a call of the vendor
// (an unknown job) is told from a stranger's.
func (r *Receiver) holders(p Provider, t Target) (holders []holder, known bool) {
	if t.Job != uuid.Nil {
		if job, ok := r.directory.Job(p.Name(), t.Job); ok {
			if job.SourceID == uuid.Nil {
				return []holder{{jobs.Verifier{Kind: jobs.ByJob, ID: job.ID}, &job.Keyring}}, true
			}
			if source, ok := r.directory.SourceByID(job.SourceID); ok {
				return []holder{ofSource(source)}, true
			}
		}
	}
	if t.Source != "" {
		if source, ok := r.directory.Source(p.Name(), t.Source); ok {
			return []holder{ofSource(source)}, true
		}
	}
	for _, source := range r.directory.Sources(p.Name()) {
		holders = append(holders, ofSource(source))
	}
	return holders, false
}

func ofSource(s *jobs.Source) holder {
	return holder{jobs.Verifier{Kind: jobs.BySource, ID: s.ID}, &s.Keyring}
}

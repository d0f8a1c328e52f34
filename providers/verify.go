package providers

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
)

// The ways in which a well-formed signature is not accepted.
var (
	errMismatch    = errors.New("signature matches no live secret")
	errNoSecret    = errors.New("no secret to verify with yet")
	errUnconfirmed = errors.New("mismatch could not be confirmed")
)

// holder is who may have signed a request.
type holder struct {
	verifier jobs.Verifier
	keyring  *jobs.Keyring
}

// verify finds whose secret signed the body. A mismatch is final only after a look at the directory that
// began after the request came: a secret set a moment ago at another gateway is then known here, and a
// vendor that never repeats a refused call loses nothing.
func (r *Receiver) verify(ctx context.Context, p Provider, x *exchange, proof Proof, body []byte) (jobs.Verifier, error) {
	for fresh := false; ; fresh = true {
		holders, known := r.holders(p, x.target)
		verifier, ok, doubt := r.try(p, holders, proof, body)
		switch {
		case ok:
			return verifier, nil
		case !fresh:
			if r.directory.Refresh(ctx, x.arrived) != nil {
				return jobs.Verifier{}, errUnconfirmed
			}
		case known && doubt != nil:
			return jobs.Verifier{}, doubt
		default:
			return jobs.Verifier{}, errMismatch
		}
	}
}

// try takes every holder in turn. Where none matches, doubt is the reason why that is not certain.
func (r *Receiver) try(p Provider, holders []holder, proof Proof, body []byte) (who jobs.Verifier, ok bool, doubt error) {
	tried := false
	for _, h := range holders {
		result := h.keyring.Verify(func(secret string) bool {
			tried = true
			return proof.Verify(secret, body)
		})
		if result.Matched {
			r.metrics.verified(p.Name(), result.Previous)
			return h.verifier, true, nil
		}
		switch result.Doubt {
		case jobs.NoSecret, jobs.Sealed:
			doubt = errNoSecret
		case jobs.Rotating:
			doubt = errUnconfirmed
		}
	}
	if !tried {
		// An id that nobody holds takes an HMAC's time, like one that somebody does.
		proof.Verify("no secret is held for this request", body)
	}
	return jobs.Verifier{}, false, doubt
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

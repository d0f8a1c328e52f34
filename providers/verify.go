package providers

import (
	"errors"
	"slices"
	"sync"
	"time"

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
func (r *Receiver) verify(p Provider, x *requestState, proof Proof) (jobs.Verifier, error) {
	now := r.directory.Current()
	own, known := holderOf(now, p, x.target)
	verifier, ok, err := r.tryOwn(p, x, proof, own)
	if ok || err != nil {
		return verifier, err
	}
	failed := own
	if all := allSources(now, p); known {
		err = r.spendTimeOfAll(x, proof, all)
	} else {
		failed = all
		verifier, ok, err = r.tryAll(p, x, proof, all)
	}
	if ok || err != nil {
		return verifier, err
	}
	ctx, cancel := x.settleContext()
	defer cancel()
	if r.directory.Refresh(ctx, x.arrived) != nil {
		return jobs.Verifier{}, errUnconfirmed
	}
	now = r.directory.Current()
	again, known := holderOf(now, p, x.target)
	if !known {
		again = allSources(now, p)
	}
	if verifier, ok = r.try(p, x, proof, again, failed); ok {
		return verifier, nil
	}
	if doubt := doubtOf(again); known && doubt != nil {
		return jobs.Verifier{}, doubt
	}
	return jobs.Verifier{}, errMismatch
}

// tryOwn tries the secrets of whom the URL names. Large bodies are hashed a few at a time: many at once would
// hold up everything else. An unknown id takes an HMAC's time, like a known one.
func (r *Receiver) tryOwn(p Provider, x *requestState, proof Proof, own []holder) (who jobs.Verifier, ok bool, err error) {
	if len(x.body) > large {
		ctx, cancel := x.settleContext()
		defer cancel()
		select {
		case r.hashing <- struct{}{}:
			defer func() { <-r.hashing }()
		case <-ctx.Done():
			return who, false, errOverBudget
		}
	}
	if secretsOf(own) == 0 {
		proof.Verify(noSecret, x.body)
	}
	who, ok = r.try(p, x, proof, own, nil)
	return who, ok, nil
}

// noSecret is hashed with where there is no secret, or no use for one: the time tells nothing then.
const noSecret = "no secret is held for this request"

// tryAll tries the secrets of every source, for an unknown id. That tells a vendor's call (an unknown job) from a
// stranger's.
func (r *Receiver) tryAll(p Provider, x *requestState, proof Proof, all []holder) (who jobs.Verifier, ok bool, err error) {
	if !r.strangers.take(secretsOf(all) * len(x.body)) {
		return who, false, errOverBudget
	}
	who, ok = r.try(p, x, proof, all, nil)
	return who, ok, nil
}

// spendTimeOfAll takes as long as tryAll, for a call that failed at a known id, and refuses when tryAll does: neither
// the time of a refusal nor its status shows which ids are known.
func (r *Receiver) spendTimeOfAll(x *requestState, proof Proof, all []holder) error {
	secrets := secretsOf(all)
	if !r.strangers.take(secrets * len(x.body)) {
		return errOverBudget
	}
	for range secrets {
		proof.Verify(noSecret, x.body)
	}
	return nil
}

// try takes every holder in turn. One whose keyring is still the one that failed is not tried again.
func (r *Receiver) try(p Provider, x *requestState, proof Proof, holders, failed []holder) (who jobs.Verifier, ok bool) {
	for _, h := range holders {
		if slices.Contains(failed, h) {
			continue
		}
		result := h.keyring.Verify(func(secret string) bool { return proof.Verify(secret, x.body) })
		if result.Matched {
			r.metrics.verified(p.Name(), result.Previous)
			return h.verifier, true
		}
	}
	return who, false
}

func secretsOf(holders []holder) (n int) {
	for _, h := range holders {
		n += len(h.keyring.Secrets)
	}
	return n
}

// strangers bounds how many bytes are hashed, in the whole process, for calls that the secrets of whom they name
// did not sign. Each is hashed with every secret of every source, so that a stranger's few megabytes can cost
// hundreds of times as many. Nothing waits: over the bound a call is asked to come again.
type strangers struct {
	mu    sync.Mutex
	left  float64 // below zero after a body that was large
	since time.Time
}

// strangersRate is the bytes a second, a tenth of a processor's time or so; as many may come at once.
const strangersRate = 64 << 20

func (s *strangers) take(bytes int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.left = min(strangersRate, s.left+strangersRate*now.Sub(s.since).Seconds())
	s.since = now
	if s.left < 0 {
		return false
	}
	s.left -= float64(bytes)
	return true
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

// holderOf returns whose secrets are tried for a target: the job's own or its source's, never any other.
func holderOf(now *jobs.Snapshot, p Provider, t Target) (own []holder, known bool) {
	if t.Job != uuid.Nil {
		if job, ok := now.Job(p.Name(), t.Job); ok {
			if job.SourceID == uuid.Nil {
				return []holder{{jobs.Verifier{Kind: jobs.ByJob, ID: job.ID}, &job.Keyring}}, true
			}
			if source, ok := now.SourceByID(job.SourceID); ok {
				return []holder{ofSource(source)}, true
			}
		}
	}
	if t.Source != "" {
		if source, ok := now.Source(p.Name(), t.Source); ok {
			return []holder{ofSource(source)}, true
		}
	}
	return nil, false
}

// allSources lists every source of a provider.
func allSources(now *jobs.Snapshot, p Provider) (all []holder) {
	for _, source := range now.Sources(p.Name()) {
		all = append(all, ofSource(source))
	}
	return all
}

func ofSource(s *jobs.Source) holder {
	return holder{jobs.Verifier{Kind: jobs.BySource, ID: s.ID}, &s.Keyring}
}

package providers

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/jobs"
)

// Why a well-formed signature is not accepted.
var (
	errMismatch    = errors.New("signature matches no live secret")
	errNoSecret    = errors.New("no secret to verify with yet")
	errUnconfirmed = errors.New("mismatch could not be confirmed")
)

// holder is a source or job that may have signed a request. Two holders are equal only if their secrets are: a change
// in the directory makes a new keyring.
type holder struct {
	verifier jobs.Verifier
	keyring  *jobs.Keyring
}

// verify finds whose secret signed the body. A mismatch is final only after a read of the directory that began after
// the request came. A secret that another gateway stored a moment ago is then known here; a vendor that never repeats
// a refused call loses nothing.
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

// tryOwn tries the secrets of the job or source that the URL names. Large bodies are hashed a few at a time: many at
// once would hold up everything else. An unknown id takes an HMAC's time too, so that time does not reveal which ids
// are known.
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

// noSecret is hashed with when there is no secret to try, so that the time reveals nothing.
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

// try tries the holders in turn. It skips one whose keyring is still the one that failed.
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

// strangers bounds how many bytes the process hashes for calls that were not signed with a secret of their target.
// Each is hashed with every secret of every source, so a stranger's few megabytes can cost hundreds of times as much.
// Calls over the bound do not wait: they are answered 503.
type strangers struct {
	mu    sync.Mutex
	left  float64 // below zero after a large body
	since time.Time
}

// strangersRate is in bytes a second, about a tenth of a processor's time. As many may come at once.
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

// doubtOf returns why it is not certain that none of the holders signed; nil when it is certain.
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

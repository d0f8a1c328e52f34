package providers

import (
	"context"
	"slices"
	"sync"

	"webhook-gateway/jobs"
)

// room bounds how many large bodies are parsed at once. One signer has at most half of the places, and the waiting
// bodies get theirs in turn by signer: a signer with many large bodies delays another signer's by one body.
type room struct {
	share int   // most places that one signer may have
	bytes int64 // most bytes that one signer may have waiting

	mu      sync.Mutex
	free    int
	signers map[jobs.Verifier]*signer
	turns   []*signer // the signers with waiting bodies, the next one first
}

// signer has bodies in the room or waiting for it.
type signer struct {
	inside  int
	waiting []*waiter // in the order of arrival
	bytes   int64     // of waiting
}

// waiter is one body that waits.
type waiter struct {
	bytes   int64
	entered chan struct{} // closed once it has its place
}

func newRoom(places int, bytes int64) *room {
	return &room{share: max(1, places/2), bytes: bytes, free: places, signers: make(map[jobs.Verifier]*signer)}
}

// enter waits for a place until ctx ends. It returns ErrOverloaded then, or at once when the signer has too much
// waiting already. The caller calls leave once.
func (r *room) enter(ctx context.Context, who jobs.Verifier, bytes int64) (leave func(), err error) {
	r.mu.Lock()
	s := r.signers[who]
	if s == nil {
		s = &signer{}
		r.signers[who] = s
	}
	if len(s.waiting) > 0 && s.bytes+bytes > r.bytes {
		r.mu.Unlock()
		return nil, ErrOverloaded
	}
	w := &waiter{bytes: bytes, entered: make(chan struct{})}
	if s.waiting = append(s.waiting, w); len(s.waiting) == 1 {
		r.turns = append(r.turns, s)
	}
	s.bytes += bytes
	r.admit()
	r.mu.Unlock()

	select {
	case <-w.entered:
	case <-ctx.Done():
		if !r.giveUp(who, s, w) {
			return nil, ErrOverloaded
		}
	}
	return func() { r.leave(who, s) }, nil
}

// admit gives the free places to the waiting bodies, in turn.
func (r *room) admit() {
	for i := 0; r.free > 0 && i < len(r.turns); {
		s := r.turns[i]
		if s.inside >= r.share {
			i++
			continue
		}
		w := s.waiting[0]
		s.waiting, s.bytes = s.waiting[1:], s.bytes-w.bytes
		s.inside++
		r.free--
		close(w.entered)
		r.turns = append(r.turns[:i], r.turns[i+1:]...)
		if len(s.waiting) > 0 {
			r.turns = append(r.turns, s)
		}
	}
}

// giveUp takes a body out of those that wait. It reports whether the body has got a place meanwhile.
func (r *room) giveUp(who jobs.Verifier, s *signer, w *waiter) (entered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return true
	}
	s.waiting, s.bytes = slices.Delete(s.waiting, i, i+1), s.bytes-w.bytes
	if len(s.waiting) == 0 {
		i = slices.Index(r.turns, s)
		r.turns = slices.Delete(r.turns, i, i+1)
	}
	r.forget(who, s)
	return false
}

func (r *room) leave(who jobs.Verifier, s *signer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.inside--
	r.free++
	r.forget(who, s)
	r.admit()
}

func (r *room) forget(who jobs.Verifier, s *signer) {
	if s.inside == 0 && len(s.waiting) == 0 {
		delete(r.signers, who)
	}
}

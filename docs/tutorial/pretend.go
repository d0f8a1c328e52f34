package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// pretendBank stands in for a bank. It takes no idempotency keys: every POST pays. It pays at once and answers late.
type pretendBank struct {
	slow time.Duration
	log  io.Writer

	mu   sync.Mutex
	paid int
	by   map[string]receipt
}

func (b *pretendBank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reference := r.PathValue("reference")
	if r.Method == http.MethodGet {
		found, ok := b.find(reference)
		if !ok {
			http.Error(w, "no such refund", http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(found)
		return
	}
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Cents <= 0 {
		http.Error(w, "declined", http.StatusUnprocessableEntity)
		return
	}
	paid := b.pay(reference)
	select {
	case <-time.After(b.slow):
	case <-r.Context().Done(): // the caller is gone
	}
	_ = json.NewEncoder(w).Encode(paid)
}

func (b *pretendBank) pay(reference string) receipt {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paid++
	b.by[reference] = receipt{Refund: fmt.Sprintf("rf_%d", b.paid)}
	fmt.Fprintf(b.log, "paid %s for %s\n", b.by[reference].Refund, reference)
	return b.by[reference]
}

func (b *pretendBank) find(reference string) (receipt, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r, ok := b.by[reference]
	fmt.Fprintf(b.log, "asked for %s, found: %t\n", reference, ok)
	return r, ok
}

// handler routes the bank's paths.
func (b *pretendBank) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/refunds/{reference}", b)
	return mux
}

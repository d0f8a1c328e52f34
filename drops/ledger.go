package drops

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Ledger counts every verified delivery from its arrival to its one ending. Nothing else counts them, so that at any
// scrape, for each provider,
//
//	received + recovered = accepted + dropped + failed + waiting
//
// A scrape sees all of a method's change or nothing of it. The methods are safe for concurrent use and take one short
// lock.
type Ledger struct {
	accounts map[string]*account // its keys never change
	reasons  []string            // label values, in the order of Reasons
	descs    descs

	mu sync.Mutex // guards what the accounts hold
}

var _ prometheus.Collector = (*Ledger)(nil)

// account holds the counts of one provider. waiting is counted and not computed from the others: computed, it would hide
// a delivery that is counted twice or lost.
type account struct {
	provider                              string
	received, recovered, accepted, failed uint64
	dropped                               [reasonCount]uint64
	waiting                               int64
	last                                  time.Time
}

// NewLedger returns a ledger for these providers, with every series at zero. Its methods panic for any other provider:
// that is a mistake in the wiring.
func NewLedger(providers []string) *Ledger {
	l := &Ledger{accounts: make(map[string]*account, len(providers)), descs: newDescs()}
	for _, p := range providers {
		l.accounts[p] = &account{provider: p}
	}
	for _, reason := range Reasons() {
		l.reasons = append(l.reasons, string(reason))
	}
	return l
}

// Receive counts n verified deliveries that the vendor has just sent. They wait until End.
func (l *Ledger) Receive(provider string, n int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(provider)
	a.received += uint64(n)
	a.waiting += int64(n)
	a.last = now
}

// Recover counts n deliveries that are redriven. They wait until End.
func (l *Ledger) Recover(provider string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(provider)
	a.recovered += uint64(n)
	a.waiting += int64(n)
}

// End counts endings of deliveries that waited. A delivery ends once, when its ending is known, even if the vendor got its
// answer before that. It panics for a reason that Reasons does not list.
func (l *Ledger) End(provider string, endings ...Ending) {
	var accepted, failed uint64
	var dropped [reasonCount]uint64
	for _, e := range endings {
		switch {
		case e.Failed:
			failed++
		case e.Dropped == "":
			accepted++
		default:
			i := slices.Index(Reasons(), e.Dropped)
			if i < 0 {
				panic("no such reason to drop a delivery: " + string(e.Dropped))
			}
			dropped[i]++
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(provider)
	a.accepted += accepted
	a.failed += failed
	for i, n := range dropped {
		a.dropped[i] += n
	}
	a.waiting -= int64(len(endings))
}

// Fail counts n deliveries that waited as failed.
func (l *Ledger) Fail(provider string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(provider)
	a.failed += uint64(n)
	a.waiting -= int64(n)
}

func (l *Ledger) account(provider string) *account {
	a, ok := l.accounts[provider]
	if !ok {
		panic("the ledger has no provider " + provider)
	}
	return a
}

// reasonCount is how many reasons there are.
const reasonCount = 5

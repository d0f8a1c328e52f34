package drops

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Ledger counts every verified delivery from its arrival to its one ending. It is the only place that
// does, so that at any scrape, for each provider,
//
//	received + recovered = accepted + dropped + failed + waiting
//
// A method's whole change is seen by a scrape or none of it is. The methods are safe for concurrent use
// and cost one short lock.
type Ledger struct {
	accounts map[string]*account // its keys never change
	reasons  []string            // label values, in the order of Reasons
	descs    descs

	mu sync.Mutex // guards what the accounts hold
}

var _ prometheus.Collector = (*Ledger)(nil)

// account is what the ledger knows of one provider. waiting is moved on its own and not derived from the
// others: derived, it would hide every delivery that is counted twice or lost.
type account struct {
	provider                              string
	received, recovered, accepted, failed uint64
	dropped                               [reasonCount]uint64
	waiting                               int64
	last                                  time.Time
}

// NewLedger returns a ledger for the providers named, every series at zero. It counts nothing for any
// other provider: a name that it was not given is a mistake in the wiring, and panics.
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

// Receive counts n verified deliveries that the vendor has just sent. They wait from now on, until End.
func (l *Ledger) Receive(provider string, n int) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(provider)
	a.received += uint64(n)
	a.waiting += int64(n)
	a.last = now
}

// Recover counts n deliveries that are taken up again without the vendor: found on disk at start, or
// driven again from a kept drop. They wait from now on, until End.
func (l *Ledger) Recover(provider string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(provider)
	a.recovered += uint64(n)
	a.waiting += int64(n)
}

// End counts the endings of deliveries that waited, all at once. A delivery ends once, when its ending is
// known, whatever the vendor was answered meanwhile.
func (l *Ledger) End(provider string, t Tally) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(provider)
	a.accepted += uint64(t.Accepted)
	a.failed += uint64(t.Failed)
	for i, n := range t.dropped {
		a.dropped[i] += uint64(n)
	}
	a.waiting -= int64(t.Ended())
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

// Tally is what became of some deliveries. The zero value is of none.
type Tally struct {
	Accepted int // kept
	Failed   int // not kept; the vendor is asked to send them again
	dropped  [reasonCount]int
}

// Drop adds a delivery that was dropped for the reason. It panics for a reason that is not of Reasons.
func (t *Tally) Drop(reason Reason) {
	i := slices.Index(Reasons(), reason)
	if i < 0 {
		panic("no such reason to drop a delivery: " + string(reason))
	}
	t.dropped[i]++
}

// Ended returns how many deliveries the tally is of.
func (t *Tally) Ended() int {
	n := t.Accepted + t.Failed
	for _, dropped := range t.dropped {
		n += dropped
	}
	return n
}

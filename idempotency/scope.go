package idempotency

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

const day = 24 * time.Hour

// MaxLease is the maximum lease.
const MaxLease = 30 * day

// retention is how long the keys of a scope are remembered, by the first part of its name; 0: unknown. It outlasts every
// repeat that a sender makes, and is a constant: the lease is what a caller chooses.
func retention(name string) time.Duration {
	first, _, _ := strings.Cut(name, ".")
	switch first {
	case "tool":
		// A tool's key is the journal of its run, and a run may wait for an approval for as long as
		// its definition may last: 30 days, for every tool.
		return 30 * day
	case "surface", "http":
		return day
	}
	return 0
}

var scopeForm = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z0-9][a-z0-9_-]*)+$`)

// Scope names an operation and determines how long its answers are remembered. Only NewScope and
// NewScopeFor make one.
type Scope struct {
	name      string
	retention time.Duration
}

// NewScope returns the scope of that name, for example tool.email.send: at most 100 lower-case
// letters, digits, underscores and hyphens in parts joined by dots. If the name has no known retention, the error wraps
// ErrScope.
func NewScope(name string) (Scope, error) {
	if err := checkScope(name); err != nil {
		return Scope{}, err
	}
	d := retention(name)
	if d == 0 {
		return Scope{}, fmt.Errorf("%w: %q", ErrScope, name)
	}
	return Scope{name, d}, nil
}

// NewScopeFor returns the scope of that name, in the form that NewScope takes, with the retention that its sender needs:
// it must outlast the sender's last repeat. If it is not positive, the error wraps ErrScope. Every process that claims in
// the scope must use the same retention.
func NewScopeFor(name string, retention time.Duration) (Scope, error) {
	if err := checkScope(name); err != nil {
		return Scope{}, err
	}
	if retention <= 0 {
		return Scope{}, fmt.Errorf("%w: the retention of %q is %s", ErrScope, name, retention)
	}
	return Scope{name, retention}, nil
}

func checkScope(name string) error {
	if len(name) > 100 || !scopeForm.MatchString(name) {
		return fmt.Errorf("%w: %.120q is not parts of lower-case letters joined by dots", ErrScope, name)
	}
	return nil
}

// MustScope is NewScope for the start of a program. It panics on an error.
func MustScope(name string) Scope {
	s, err := NewScope(name)
	if err != nil {
		panic(err)
	}
	return s
}

// String returns the scope's name.
func (s Scope) String() string { return s.name }

// Retention returns how long a key of the scope is remembered, counted from its claim. A longer lease raises it.
func (s Scope) Retention() time.Duration { return s.retention }

// retain returns the retention, raised to the lease: a held claim is never forgotten.
func (s Scope) retain(lease time.Duration) time.Duration { return max(s.retention, lease) }

func validateLease(lease time.Duration) error {
	if lease < time.Millisecond || lease > MaxLease {
		return fmt.Errorf("%w, not %s", ErrLease, lease)
	}
	return nil
}

// Package drops names why a verified delivery is not kept, counts every delivery to its one ending,
// and keeps what was dropped so that an operator can look at it.
package drops

// Reason says why a verified delivery was acknowledged but not kept. It is a metric label and a
// column value, so the set is closed. The zero value means that the delivery was not dropped.
type Reason string

// The reasons. Duplicate is only counted; the others also keep the request in agent.webhook_drops.
const (
	Duplicate    Reason = "duplicate"     // the key was already claimed with the same content
	HashMismatch Reason = "hash_mismatch" // the key was already claimed with other content
	UnknownJob   Reason = "unknown_job"   // no job answers for the path or for the tenant that the body names
	JobMismatch  Reason = "job_mismatch"  // the body names another tenant than the path
	Malformed    Reason = "malformed"     // signed, but it cannot be read
)

// Reasons lists every reason, in the order of the documentation.
func Reasons() []Reason {
	return []Reason{Duplicate, HashMismatch, UnknownJob, JobMismatch, Malformed}
}

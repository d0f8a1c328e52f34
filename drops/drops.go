// Package drops names why a verified delivery is dropped, counts every delivery from arrival to ending, and keeps drops
// for operators to look at.
package drops

// Reason is why a verified delivery was acknowledged but not kept. It is a metric label and a column value, so the set is
// closed. The zero value means that the delivery was not dropped.
type Reason string

// The reasons. Duplicate is only counted; the others also keep the request in agent.webhook_drops.
const (
	Duplicate    Reason = "duplicate"     // its key exists with the same content
	HashMismatch Reason = "hash_mismatch" // its key exists with other content
	UnknownJob   Reason = "unknown_job"   // no job matches the URL or the tenant in the body
	JobMismatch  Reason = "job_mismatch"  // the body names another tenant or application than the job or its source
	Malformed    Reason = "malformed"     // signed, but it cannot be read
)

// Reasons lists every reason, in the order of the documentation.
func Reasons() []Reason {
	return []Reason{Duplicate, HashMismatch, UnknownJob, JobMismatch, Malformed}
}

// Ending is how a delivery ended: kept (the zero value), dropped for a reason, or failed.
type Ending struct {
	Dropped Reason // empty if it was kept or failed
	Failed  bool   // the vendor is asked to send it again
}

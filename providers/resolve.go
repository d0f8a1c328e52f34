package providers

import (
	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
)

// resolve finds the job that a delivery belongs to. The organization comes from the job alone. The secret that
// verified the request bounds the jobs in reach: a source's secret reaches that source's jobs, a job's own secret
// only that job.
func resolve(known *jobs.Snapshot, req *Request, item *Item) {
	job, reason, detail := find(known, req, &item.Delivery)
	item.Job, item.Organization = uuid.Nil, uuid.Nil
	if job != nil {
		item.Job, item.Organization = job.ID, job.Organization
	}
	item.Reason, item.Detail = reason, detail
}

// find returns a job, a reason to drop, or both: the job whose URL was called, although the body is for another.
func find(known *jobs.Snapshot, req *Request, d *Delivery) (*jobs.Job, drops.Reason, string) {
	if req.VerifiedBy.Kind == jobs.ByJob {
		return findOwn(known, req, d)
	}
	source, ok := known.SourceByID(req.VerifiedBy.ID)
	if !ok {
		return nil, drops.UnknownJob, "the source was removed"
	}
	if req.Target.Job != uuid.Nil {
		return findOnJobURL(known, req, d, source)
	}
	return findOnSourceURL(known, req, d, source)
}

// findOwn resolves a request that a job's own secret verified: it can only be for that job.
func findOwn(known *jobs.Snapshot, req *Request, d *Delivery) (*jobs.Job, drops.Reason, string) {
	job, ok := known.Job(req.Provider, req.VerifiedBy.ID)
	if !ok || req.Target.Job != req.VerifiedBy.ID {
		return nil, drops.UnknownJob, "no such job"
	}
	if job.Closed {
		return job, drops.UnknownJob, "the job is closed"
	}
	if pin, contradicted := contradiction(job.Pins, d.Named); contradicted {
		return job, drops.JobMismatch, "the body names another " + pin + " than the job"
	}
	return job, "", ""
}

func findOnJobURL(known *jobs.Snapshot, req *Request, d *Delivery, source *jobs.Source) (*jobs.Job, drops.Reason, string) {
	job, ok := known.Job(req.Provider, req.Target.Job)
	if !ok || job.SourceID != source.ID {
		return nil, drops.UnknownJob, "no such job"
	}
	if job.Closed {
		return job, drops.UnknownJob, "the job is closed"
	}
	if pin, contradicted := contradiction(source.Pins, d.Named); contradicted {
		return job, drops.JobMismatch, "the body names another " + pin + " than the source"
	}
	switch {
	case d.Tenant == jobs.Identity{} && job.Fallback:
		return job, "", ""
	case d.Tenant == jobs.Identity{}:
		return job, drops.JobMismatch, "the body names no tenant and the job is not the source's fallback"
	case len(job.Pins) != 1 || job.Pins[0] != d.Tenant:
		return job, drops.JobMismatch, "the body names another " + d.Tenant.Name + " than the job"
	}
	return job, "", ""
}

func findOnSourceURL(known *jobs.Snapshot, req *Request, d *Delivery, source *jobs.Source) (*jobs.Job, drops.Reason, string) {
	if named, ok := known.Source(req.Provider, req.Target.Source); !ok || named.ID != source.ID {
		return nil, drops.UnknownJob, "no such source"
	}
	if pin, contradicted := contradiction(source.Pins, d.Named); contradicted {
		return nil, drops.JobMismatch, "the body names another " + pin + " than the source"
	}
	if (d.Tenant == jobs.Identity{}) {
		job, ok := known.Fallback(source.ID)
		switch {
		case !ok:
			return nil, drops.UnknownJob, "the body names no tenant and the source has no fallback job"
		case job.Closed:
			return job, drops.UnknownJob, "the body names no tenant and the source's fallback job is closed"
		}
		return job, "", ""
	}
	// A tenant that is named but not registered never reaches the fallback: it belongs to another organization.
	job, ok := known.JobFor(source.ID, d.Tenant)
	switch {
	case !ok:
		return nil, drops.UnknownJob, "no job of the source pins the " + d.Tenant.Name + " that the body names"
	case job.Closed:
		return job, drops.UnknownJob, "the job that pins the " + d.Tenant.Name + " is closed"
	}
	return job, "", ""
}

// contradiction returns the name of a pinned identity that the body names with other values only.
func contradiction(pins, named []jobs.Identity) (name string, contradicted bool) {
	for _, pin := range pins {
		said, equal := false, false
		for _, n := range named {
			if n.Name == pin.Name {
				said, equal = true, equal || n.Value == pin.Value
			}
		}
		if said && !equal {
			return pin.Name, true
		}
	}
	return "", false
}

package capture

import (
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// capture turns an observation into a capture.
func (r *Recorder) capture(o providers.Observation) (*Capture, error) {
	m := &Message{Method: http.MethodPost, Target: o.URI, Headers: HeadersOf(o.Header), Body: o.Body, At: o.ReceivedAt}
	origin := Origin{Vendor: r.vendors[o.Provider]}
	if o.VerifiedBy == (jobs.Verifier{}) {
		origin.KeepSignature = true
		c, err := origin.Capture(m)
		if err != nil {
			return nil, err
		}
		c.About = "refused: " + o.Note
		c.Source, c.Job = r.targeted(o)
		c.Expect = Expect{Once: Result{Status: o.Status, Outcomes: Outcomes{o.Note: 1}}}
		return c, nil
	}
	var err error
	if origin.Source, origin.Job, err = r.parties(o); err != nil {
		return nil, err
	}
	c, err := origin.Capture(m)
	if err != nil {
		return nil, err
	}
	if len(o.Items) == 0 {
		c.Expect = ExpectHandshake(o.Answer)
		return c, nil
	}
	items := make([]providers.Item, len(o.Items))
	copy(items, o.Items)
	deliveries := c.Deliveries(origin.Vendor)
	for i := range items {
		if len(deliveries) == len(items) {
			items[i].Delivery = deliveries[i] // of the captured body: without its token it may have another fingerprint
		}
		// A duplicate or a mismatch depends on what came before. On its own the delivery is kept.
		if r := items[i].Reason; r == drops.Duplicate || r == drops.HashMismatch {
			items[i].Reason = ""
		}
	}
	c.Expect = ExpectItems(items)
	return c, nil
}

// parties returns the source and the job that a verified request needs to be received in the same way.
func (r *Recorder) parties(o providers.Observation) (source, job *Party, err error) {
	known := r.directory.Current()
	found := uuid.Nil
	for _, item := range o.Items {
		if item.Job != uuid.Nil {
			found = item.Job
			break
		}
	}
	if found == uuid.Nil {
		found = o.Target.Job
	}
	if o.VerifiedBy.Kind == jobs.BySource {
		s, ok := known.SourceByID(o.VerifiedBy.ID)
		if !ok {
			return nil, nil, fmt.Errorf("its source was removed meanwhile")
		}
		source = PartyOf(s.Name, s.Pins, false)
	}
	if j, ok := known.Job(o.Provider, found); ok && (source == nil || j.SourceID == o.VerifiedBy.ID) {
		job = PartyOf(j.ID.String(), j.Pins, j.Fallback)
	}
	if source == nil && job == nil {
		return nil, nil, fmt.Errorf("its job is not known any more")
	}
	return source, job, nil
}

// targeted returns the source or job that a refused request named, if it exists.
func (r *Recorder) targeted(o providers.Observation) (source, job *Party) {
	known := r.directory.Current()
	if j, ok := known.Job(o.Provider, o.Target.Job); ok {
		job = PartyOf(j.ID.String(), j.Pins, j.Fallback)
		if s, ok := known.SourceByID(j.SourceID); ok {
			source = PartyOf(s.Name, s.Pins, false)
		}
		return source, job
	}
	if o.Target.Source != "" {
		source = PartyOf(o.Target.Source, nil, false)
	}
	return source, nil
}

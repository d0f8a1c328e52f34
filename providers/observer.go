package providers

import (
	"net/http"
	"time"

	"webhook-gateway/jobs"
)

// Observer is shown each POST whose signature was looked at, with what became of it, after the answer was
// written; none that there was no room to read. It is called on the request's own goroutine and must not wait for anything: the connection takes
// the vendor's next request only afterwards.
type Observer interface {
	// WantsRefused reports whether a request that is refused before its body is read should have it read
	// all the same, up to MaxProbe bytes.
	WantsRefused() bool
	// Observe may keep what it is given, and changes nothing of it.
	Observe(o Observation)
}

// Observation is one request and what became of it.
type Observation struct {
	Provider   string
	Target     Target
	URI        string // path and query as they were called
	Header     http.Header
	Body       []byte // as a delivery keeps it: the bytes of the wire; of a refused request perhaps not all
	ReceivedAt time.Time
	VerifiedBy jobs.Verifier // zero: it was refused, and anybody may have sent it
	Items      []Item        // none of a handshake
	Endings    []Ending      // one an item; none when the vendor is asked to come again
	Status     int
	Answer     string // the body of the answer
	Note       string // why it was refused
}

// observe shows a request to the observer, but not a probe or a challenge, which is neither verified nor refused, nor a
// request that was turned away unread.
func (r *Receiver) observe(x *requestState, status int, out outcome, text string) {
	verified := x.verifier != jobs.Verifier{}
	if !verified && out != outcomeRejected || x.turnedAway {
		return
	}
	req := x.c.Request()
	if req.Method != http.MethodPost {
		return
	}
	body := x.body
	if x.request != nil {
		body = x.request.Body // a credential may be gone from it
	}
	r.observer.Observe(Observation{
		Provider:   x.provider,
		Target:     x.target,
		URI:        req.RequestURI,
		Header:     req.Header,
		Body:       body,
		ReceivedAt: x.arrived,
		VerifiedBy: x.verifier,
		Items:      x.items,
		Endings:    x.endings,
		Status:     status,
		Answer:     text,
		Note:       x.note,
	})
}

// readForObserver reads the body of a request that is refused for its headers, if the observer wants it. What cannot
// be read in time is left out. The caller gives its length back to the budget.
func (r *Receiver) readForObserver(x *requestState) {
	if r.observer == nil || x.body != nil || !r.observer.WantsRefused() {
		return
	}
	body, _ := x.intake.read(x.c.Request(), MaxProbe) // it is refused for another reason
	x.body = body
}

package providers

import (
	"net/http"
	"time"

	"webhook-gateway/jobs"
)

// Observer sees each POST whose signature was checked, and how it ended, after the answer was written; not one that
// was turned away for lack of room. It is called on the request's own goroutine and must not block: the connection
// takes the vendor's next request only afterwards.
type Observer interface {
	// WantsRefused reports whether the body of a request that is refused by its headers should be read all the same,
	// up to MaxProbe bytes.
	WantsRefused() bool
	// Observe may keep its argument, but must not change it.
	Observe(o Observation)
}

// Observation is one request and how it ended.
type Observation struct {
	Provider   string
	Target     Target
	URI        string // path and query as received
	Header     http.Header
	Body       []byte // as a delivery keeps it: the bytes of the wire; may be cut short for a refused request
	ReceivedAt time.Time
	VerifiedBy jobs.Verifier // zero for a refused request: anybody may have sent it
	Items      []Item        // none for a handshake
	Endings    []Ending      // one for each item; none when the vendor is asked to send again
	Status     int
	Answer     string // the body of the answer
	Note       string // why it was refused
}

// observe shows a request to the observer. It skips a probe or a challenge, which is neither verified nor refused,
// and a request that was turned away unread.
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
		body = x.request.Body // its credentials may have been removed
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

// readForObserver reads the body of a request that is refused by its headers, if the observer wants it. A part that
// does not arrive in time is left out. The caller releases the intake.
func (r *Receiver) readForObserver(x *requestState) {
	if r.observer == nil || x.body != nil || !r.observer.WantsRefused() {
		return
	}
	body, _ := x.intake.read(x.c.Request(), MaxProbe) // the request is refused for another reason
	x.body = body
}

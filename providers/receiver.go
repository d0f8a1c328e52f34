package providers

import (
	"errors"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"webhook-gateway/drops"
	"webhook-gateway/jobs"
)

// Limits bound what one request, and all requests together, may take.
type Limits struct {
	Body       int64         // most bytes of one body on the wire
	BodyBudget int64         // most bytes of all bodies in memory
	Read       time.Duration // time for a body to arrive
	Settle     time.Duration // time from the body's last byte to the answer
}

// Receiver is the public URL space. It turns bytes into a verified Request, and the Request's endings into a status.
type Receiver struct {
	providers []Provider
	directory Directory
	gate      *Gate
	limits    Limits
	bodies    *budget
	hashing   chan struct{} // holds one for each large body whose signature is computed
	strangers strangers
	metrics   *metrics
	refusals  *refusals
	log       *slog.Logger
	observer  Observer
}

// Deps are what a receiver reports its work to.
type Deps struct {
	Registerer prometheus.Registerer // its metrics are registered there
	Log        *slog.Logger
	Observer   Observer // may be nil
}

// NewReceiver returns a receiver for these providers.
func NewReceiver(list []Provider, gate *Gate, limits Limits, deps Deps) *Receiver {
	return &Receiver{
		providers: list,
		directory: gate.directory,
		gate:      gate,
		limits:    limits,
		bodies:    newBudget(limits.BodyBudget),
		hashing:   make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		metrics:   newMetrics(deps.Registerer, list),
		refusals:  newRefusals(deps.Registerer, deps.Log),
		log:       deps.Log,
		observer:  deps.Observer,
	}
}

// Mount registers every public route:
//
//	POST /webhooks/{provider}/{job_id}
//	POST /webhooks/{provider}/sources/{source}
//	GET  on both, for a provider that checks a URL with a challenge
//
// One slash at the end is accepted: people paste URLs.
func (r *Receiver) Mount(e *echo.Echo) {
	e.HTTPErrorHandler = r.answerError
	e.Use(r.recoverPanic, closeChunked, r.noOptions)
	for _, p := range r.providers {
		base := "/webhooks/" + p.Name()
		for _, path := range []string{base + "/:job", base + "/sources/:source"} {
			e.POST(path, oneSegment(func(c echo.Context) error { return r.receive(c, p) }))
			if challenger, ok := p.(Challenger); ok {
				e.GET(path, oneSegment(func(c echo.Context) error { return r.challenge(c, p, challenger) }))
			}
		}
	}
}

// Shed ends the request whose body has been arriving for longest, and its connection, if it came before a time. It
// returns false when there is none.
func (r *Receiver) Shed(before time.Time) bool { return r.bodies.cutOldest(before) }

// oneSegment matches a parameter to one path segment. echo would let it take the rest of the path. One slash at the
// end is accepted.
func oneSegment(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		value := c.ParamValues()[0]
		if strings.Contains(value, "/") {
			if value = strings.TrimSuffix(value, "/"); value == "" || strings.Contains(value, "/") {
				return echo.ErrNotFound
			}
			c.SetParamValues(value)
		}
		return next(c)
	}
}

// closeChunked closes the connection after a chunked request. If the request also gives a length, it may be an
// attempt to smuggle another request past a proxy that trusts the length. net/http removes the length and does not
// tell, so this applies to every chunked request.
func closeChunked(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if len(c.Request().TransferEncoding) > 0 {
			closeAfter(c)
		}
		return next(c)
	}
}

// noOptions answers OPTIONS like any other method that a route does not take. echo would answer 204.
func (r *Receiver) noOptions(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if c.Request().Method != http.MethodOptions {
			return next(c)
		}
		if _, ours := r.providerOf(c.Path()); !ours {
			return next(c)
		}
		if allow, ok := c.Get(echo.ContextKeyHeaderAllow).(string); ok {
			c.Response().Header().Set(echo.HeaderAllow, allow)
		}
		return echo.ErrMethodNotAllowed
	}
}

// receive answers one POST. It reads from top to bottom as the life of a request: bound, verify, handshake, gate,
// ACK.
func (r *Receiver) receive(c echo.Context, p Provider) error {
	x := &requestState{c: c, provider: p.Name(), arrived: time.Now(), target: target(c)}
	req := c.Request()
	contentType := req.Header.Get("Content-Type")
	setReadDeadline(c.Response(), x.arrived.Add(r.limits.Read))

	x.intake = intake{budget: r.bodies, w: c.Response(), since: x.arrived, partial: req.ContentLength != 0}
	defer x.intake.release()
	proof, err := p.Prove(req.Header, x.arrived)
	if err != nil {
		if r.probed(x, p) {
			return r.handshake(x, "")
		}
		r.readForObserver(x)
		return r.refuse(x, err)
	}
	body, err := x.intake.read(req, r.limits.Body)
	x.body, x.bytes = body, len(body)
	if err != nil {
		return r.refuse(x, err)
	}
	x.deadline = time.Now().Add(r.limits.Settle)
	if prober, ok := p.(Prober); ok && len(body) <= MaxProbe && x.target != (Target{}) && prober.Probe(contentType, body) {
		return r.handshake(x, "")
	}

	verifier, err := r.verify(p, x, proof)
	if err != nil {
		return r.refuse(x, err)
	}
	x.verifier = verifier
	if h, ok := p.(Handshaker); ok {
		if answer, ok := h.Handshake(contentType, body); ok {
			return r.handshake(x, answer)
		}
	}
	return r.admit(x, &Request{
		ID:              uuid.Must(uuid.NewV7()),
		Seed:            NewSeed(),
		Provider:        x.provider,
		Target:          x.target,
		VerifiedBy:      verifier,
		ReceivedAt:      x.arrived,
		ContentType:     contentType,
		ContentEncoding: strings.Join(req.Header.Values("Content-Encoding"), ","),
		Headers:         allowed(req.Header, p.Headers()),
		Body:            body,
	})
}

// admit hands a verified request to the gate and waits for its endings until the deadline. If the vendor hangs up,
// the deliveries are settled all the same.
func (r *Receiver) admit(x *requestState, req *Request) error {
	ctx, cancel := x.settleContext()
	defer cancel()

	x.request = req
	admission, err := r.gate.Admit(ctx, req, x.deadline)
	x.items = admission.Items
	if errors.Is(err, ErrNoDelivery) {
		return r.noDelivery(x)
	}
	if err != nil {
		x.turnedAway = len(x.items) == 0
		return r.unsettled(x, whyNotAdmitted(err))
	}
	select {
	case <-admission.Ended:
	case <-ctx.Done():
		select {
		case <-admission.Ended: // both may be ready, and select takes either
		default:
			x.trouble = admission.Trouble()
			return r.unsettled(x, "no ending within the time allowed")
		}
	}
	x.endings = admission.Endings
	for _, ending := range x.endings {
		if ending.Failed {
			x.trouble = admission.Trouble()
			return r.unsettled(x, "could not be settled")
		}
	}
	return r.ack(x)
}

// whyNotAdmitted describes an error of the gate for the log line.
func whyNotAdmitted(err error) string {
	if errors.Is(err, ErrUnconfirmed) {
		return "unconfirmed"
	}
	return "overloaded"
}

// challenge answers a vendor's GET on any well-formed URL, even an unregistered one: vendors check a URL before its
// secret exists. The value comes from an unauthenticated query, so the answer is always plain text.
func (r *Receiver) challenge(c echo.Context, p Provider, challenger Challenger) error {
	x := &requestState{c: c, provider: p.Name(), arrived: time.Now(), target: target(c)}
	x.intake.partial = c.Request().ContentLength != 0
	answer, ok := challenger.Challenge(c.Request().URL.Query())
	if !ok || x.target == (Target{}) {
		return r.answer(x, http.StatusNotFound, outcomeRejected, "")
	}
	return r.handshake(x, answer)
}

// probed reports whether a request without a usable signature is a probe, which needs no signature.
func (r *Receiver) probed(x *requestState, p Provider) bool {
	contentType := x.c.Request().Header.Get("Content-Type")
	prober, ok := p.(Prober)
	if !ok || !prober.MayProbe(contentType) || x.target == (Target{}) {
		return false
	}
	body, err := x.intake.read(x.c.Request(), MaxProbe)
	x.body = body
	return err == nil && prober.Probe(contentType, body)
}

// target reads the job or source from the URL.
func target(c echo.Context) Target {
	if source := c.Param("source"); source != "" {
		if jobs.ValidName(source) {
			return Target{Source: source}
		}
		return Target{}
	}
	id, err := uuid.Parse(c.Param("job"))
	if err != nil || len(c.Param("job")) != 36 {
		return Target{}
	}
	return Target{Job: id}
}

// maxLines is the number of lines that are kept of one header. They are stored with each delivery of a request.
const maxLines = 4

// allowed returns the header lines that may be stored with a delivery.
func allowed(h http.Header, names []string) []Header {
	kept := make([]Header, 0, len(names))
	for _, name := range names {
		values := h.Values(name)
		for _, value := range values[:min(len(values), maxLines)] {
			kept = append(kept, Header{Name: name, Value: value})
		}
	}
	return kept
}

// recoverPanic turns a panic into a 503, which every vendor repeats, instead of a cut connection. The vendor counts
// it as an answer, so the metrics do too.
func (r *Receiver) recoverPanic(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		arrived := time.Now()
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if e, ok := p.(error); ok && errors.Is(e, http.ErrAbortHandler) {
				panic(p)
			}
			r.log.Error("request panicked", "panic_type", panicType(p), "stack", stack())
			if provider, ok := r.providerOf(c.Path()); ok && !c.Response().Committed {
				r.metrics.answered(provider, outcomeFailed, http.StatusServiceUnavailable, time.Since(arrived))
			}
			err = echo.NewHTTPError(http.StatusServiceUnavailable)
		}()
		return next(c)
	}
}

// providerOf returns the provider that a route belongs to.
func (r *Receiver) providerOf(route string) (name string, ok bool) {
	for _, p := range r.providers {
		if strings.HasPrefix(route, "/webhooks/"+p.Name()+"/") {
			return p.Name(), true
		}
	}
	return "", false
}

// dropsOf counts the reasons of a request's endings, for its log line.
func dropsOf(endings []Ending) (counts []slog.Attr) {
	for _, reason := range drops.Reasons() {
		n := 0
		for _, e := range endings {
			if e.Dropped == reason {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, slog.Int(string(reason), n))
		}
	}
	return counts
}

package providers

import (
	"bytes"
	"context"
	"errors"
	"runtime"

	"webhook-gateway/drops"
)

// What it takes to take a body apart is many times its size: what it was inflated to, and an index of that.
// A large one therefore waits for room. Small ones do not: they are done before another one has its turn.
const large = 256 << 10 // bytes, on the wire or inflated

// largeAtOnce is how many large bodies are taken apart at once: more than there are processors would only take
// longer. One signer has half of the places at most.
func largeAtOnce() int { return max(2, runtime.GOMAXPROCS(0)) }

// largeWaiting is how many bytes of large bodies, as they came, may wait for that of one signer. They are in the
// budget of all bodies meanwhile.
const largeWaiting = 64 << 20

// unpack undoes a request's content encoding. A large body waits for room until ctx ends, and then the error
// is ErrOverloaded; any other one says that the body is malformed. The caller calls leave when it holds
// nothing of the body any more that is not bounded elsewhere. The request then says how its body is really
// encoded, and holds no credential that its provider redacts.
func (g *Gate) unpack(ctx context.Context, req *Request) (body []byte, leave func(), err error) {
	var codings string
	leave = func() {}
	if len(req.Body) <= large {
		body, codings, err = Inflate(req.ContentEncoding, req.Body, min(large, g.maxInflated))
		if !TooLarge(err) || g.maxInflated <= large {
			return g.redact(req, body, codings, err), leave, err
		}
	}
	if leave, err = g.room.enter(ctx, req.VerifiedBy, int64(len(req.Body))); err != nil {
		return nil, func() {}, err
	}
	body, codings, err = Inflate(req.ContentEncoding, req.Body, g.maxInflated)
	return g.redact(req, body, codings, err), leave, err
}

// redact makes the request what is kept of it, if its body could be unpacked.
func (g *Gate) redact(req *Request, body []byte, codings string, err error) []byte {
	if err != nil {
		return nil
	}
	req.ContentEncoding = codings
	if r, ok := g.providers[req.Provider].(Redactor); ok {
		if clean := r.Redact(body); len(clean) != len(body) {
			req.Body, req.ContentEncoding = clean, ""
			return clean
		}
	}
	return body
}

// split takes the request apart into its deliveries. What cannot be unpacked or read is one malformed delivery.
// The only error is ErrNoDelivery.
func (g *Gate) split(req *Request, body []byte, err error) ([]Item, error) {
	var deliveries []Delivery
	if err == nil {
		deliveries, err = g.providers[req.Provider].Parse(req.ContentType, body)
	}
	if err == nil && len(deliveries) > MaxDeliveries {
		err = errTooMany
	}
	if errors.Is(err, ErrNoDelivery) {
		return nil, ErrNoDelivery
	}
	if err != nil {
		return []Item{{Reason: drops.Malformed, Detail: err.Error()}}, nil
	}
	items := make([]Item, len(deliveries))
	for i := range deliveries {
		items[i].Delivery = deliveries[i]
		items[i].Position = i
		if req.ContentEncoding != "" {
			// A part must not hold all of what was inflated while it waits.
			items[i].Body = bytes.Clone(items[i].Body)
		}
	}
	return items, nil
}

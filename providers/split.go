package providers

import (
	"bytes"
	"context"
	"errors"
	"runtime"

	"webhook-gateway/drops"
)

// Parsing needs several times the body's size: the inflated body, and an index of it. A large body therefore waits
// for room. A small one does not: it is parsed sooner than a place would be free.
const large = 256 << 10 // bytes, on the wire or inflated

// largeAtOnce is the number of large bodies that are parsed at once. More than there are processors would only take
// longer. One signer has at most half of the places.
func largeAtOnce() int { return max(2, runtime.GOMAXPROCS(0)) }

// largeWaiting is the number of bytes on the wire that one signer's large bodies may have waiting. They count in the
// budget of all bodies meanwhile.
const largeWaiting = 64 << 20

// unpack undoes a request's content encoding. A large body waits for room until ctx ends; the error is then
// ErrOverloaded. Any other error says that the body is malformed. The caller calls leave once it holds nothing of the
// body that is not bounded elsewhere. Afterwards the request says how its body is really encoded, and holds no
// credential that its provider redacts.
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

// redact removes credentials from the request, and corrects its encoding, if the body could be unpacked.
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

// split parses the request into its deliveries. A body that cannot be unpacked or parsed is one malformed delivery.
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
			// A part must not keep the whole inflated body alive while it waits.
			items[i].Body = bytes.Clone(items[i].Body)
		}
	}
	return items, nil
}

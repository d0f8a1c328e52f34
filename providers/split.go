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

// largeAtOnce is how many large bodies are taken apart at once: more than there are processors would only
// take longer.
func largeAtOnce() int { return max(2, runtime.GOMAXPROCS(0)) }

// unpack undoes a request's content encoding. A large body waits for room until ctx ends, and then the error
// is ErrOverloaded; any other one says that the body is malformed. The caller calls leave when it holds
// nothing of the body any more that is not bounded elsewhere.
func (g *Gate) unpack(ctx context.Context, req *Request) (body []byte, leave func(), err error) {
	leave = func() {}
	if len(req.Body) <= large {
		body, err = inflate(req.ContentEncoding, req.Body, min(large, g.maxInflated))
		if !errors.Is(err, errInflated) || g.maxInflated <= large {
			return body, leave, err
		}
	}
	select {
	case g.room <- struct{}{}:
	case <-ctx.Done():
		return nil, leave, ErrOverloaded
	}
	body, err = inflate(req.ContentEncoding, req.Body, g.maxInflated)
	return body, func() { <-g.room }, err
}

// split takes the request apart into its deliveries. What cannot be unpacked or read is one malformed delivery.
func (g *Gate) split(req *Request, body []byte, err error) []Item {
	var deliveries []Delivery
	if err == nil {
		deliveries, err = g.providers[req.Provider].Parse(req.ContentType, body)
	}
	if err == nil && len(deliveries) > MaxDeliveries {
		err = errTooMany
	}
	if err != nil {
		return []Item{{Reason: drops.Malformed, Detail: err.Error()}}
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
	return items
}

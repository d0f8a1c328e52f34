package providers

import (
	"context"

	"webhook-gateway/internal/canonical"
)

// Rehash returns the fingerprint of one delivery by another method than its Hash: the one by which a stored key was
// hashed. An empty fingerprint says that the content has none by that method, so the key belongs to other content.
// known is false when this release does not know the method, or when the body could not be unpacked before ctx ended.
func (g *Gate) Rehash(ctx context.Context, req *Request, position int, method string) (hash string, known bool) {
	own := *req // unpacking changes it, and others read the request
	body, leave, err := g.unpack(ctx, &own)
	defer leave()
	if err != nil {
		return "", false
	}
	provider := g.providers[req.Provider]
	if older, can := provider.(Rehasher); can {
		if hashes, known := older.Rehash(method, req.ContentType, body); known {
			return at(hashes, position), true
		}
	}
	switch method {
	case canonical.Method: // it would be the Hash, if the content had a canonical form
		return "", true
	case canonical.RawMethod:
		return at(rawHashes(provider, req.ContentType, body), position), true
	default:
		return "", false
	}
}

func rawHashes(p Provider, contentType string, body []byte) []string {
	deliveries, err := p.Parse(contentType, body)
	if err != nil {
		return nil
	}
	hashes := make([]string, len(deliveries))
	for i, d := range deliveries {
		hashes[i] = canonical.Raw(body)
		if d.Body != nil {
			hashes[i] = canonical.Raw(d.Body)
		}
	}
	return hashes
}

func at(hashes []string, position int) string {
	if position < len(hashes) {
		return hashes[position]
	}
	return ""
}

package providers

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
)

var (
	errTooMany  = fmt.Errorf("%w: more than %d deliveries in one request", ErrMalformed, MaxDeliveries)
	errEncoding = fmt.Errorf("%w: content encoding is neither gzip nor identity", ErrMalformed)
	errGzip     = fmt.Errorf("%w: gzip cannot be read", ErrMalformed)
	errInflated = fmt.Errorf("%w: larger than the limit once inflated", ErrMalformed)
)

// inflate undoes a content encoding, after the bytes of the wire were verified. At most limit bytes are
// made of it, so that a small body cannot become a large one.
func inflate(encoding string, body []byte, limit int64) ([]byte, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return body, nil
	case "gzip", "x-gzip":
	default:
		return nil, errEncoding
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, errGzip
	}
	var out bytes.Buffer
	n, err := io.Copy(&out, io.LimitReader(z, limit+1))
	switch {
	case n > limit:
		return nil, errInflated
	case err != nil:
		return nil, errGzip
	}
	return out.Bytes(), nil
}

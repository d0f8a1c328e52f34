package providers

import (
	"errors"
	"fmt"
	"strings"

	"webhook-gateway/internal/gunzip"
)

var (
	errTooMany  = fmt.Errorf("%w: more than %d deliveries in one request", ErrMalformed, MaxDeliveries)
	errEncoding = fmt.Errorf("%w: content encoding is not gzip, or gzip more than twice", ErrMalformed)
	errGzip     = fmt.Errorf("%w: gzip cannot be read", ErrMalformed)
	errInflated = fmt.Errorf("%w: larger than the limit once inflated", ErrMalformed)
)

// maxLayers is how often a body may be compressed: by the vendor, and once more by a proxy.
const maxLayers = 2

// Inflate undoes a content encoding, after the bytes of the wire were verified. It inflates no layer to more than
// limit bytes, so that a small body cannot become a large one; for a larger body it returns the first limit+1 bytes
// with the error. codings is what the body's bytes are really compressed with: empty, or gzip once for each layer.
// The header may claim more: a body that is not gzip is returned as it is.
func Inflate(encoding string, body []byte, limit int64) (plain []byte, codings string, err error) {
	layers, err := gzipLayers(encoding)
	if err != nil {
		return nil, "", err
	}
	undone := make([]string, 0, maxLayers)
	for range layers {
		if !gunzip.Is(body) {
			break
		}
		if body, err = gunzip.Inflate(body, limit); err != nil {
			return body, "", malformedGzip(err)
		}
		undone = append(undone, "gzip")
	}
	return body, strings.Join(undone, ", "), nil
}

// Readable returns a body for people: without its content encoding, or unchanged where that cannot be undone. whole
// is false when the body has more than limit bytes; at least limit+1 of them are returned then.
func Readable(encoding string, wire []byte, limit int) (body []byte, whole bool) {
	body, _, err := Inflate(encoding, wire, int64(limit))
	if err != nil && !TooLarge(err) {
		body = wire
	}
	return body, len(body) <= limit
}

// gzipLayers reads the value of Content-Encoding, which is a list. A name that is not a coding, such as a charset,
// changes nothing.
func gzipLayers(encoding string) (layers int, err error) {
	for coding := range strings.SplitSeq(encoding, ",") {
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			layers++
		case "aes128gcm", "br", "compress", "x-compress", "dcb", "dcz", "deflate", "exi", "pack200-gzip", "zstd":
			return 0, errEncoding
		}
	}
	if layers > maxLayers {
		return 0, errEncoding
	}
	return layers, nil
}

// Compressed reports whether a Content-Encoding says that the body is compressed, by any method.
func Compressed(encoding string) bool {
	layers, err := gzipLayers(encoding)
	return err != nil || layers > 0
}

// malformedGzip turns an error of gunzip into a reason to drop the request as malformed.
func malformedGzip(err error) error {
	switch {
	case errors.Is(err, gunzip.ErrTooLarge):
		return errInflated
	case err != nil:
		return errGzip
	}
	return nil
}

// TooLarge reports whether Inflate stopped at its limit.
func TooLarge(err error) bool { return errors.Is(err, errInflated) }

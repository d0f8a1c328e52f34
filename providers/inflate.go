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

// maxLayers is how often a body may be compressed: by the vendor, and once more by what stands between.
const maxLayers = 2

// Inflate undoes a content encoding, after the bytes of the wire were verified. No layer is inflated to more
// than limit bytes, so that a small body cannot become a large one; of a body that is larger, the bytes up to
// limit and one more are returned with the error. codings is what the body's bytes are compressed with: empty,
// or gzip once for each layer. The header may say more: a body that is no gzip is read as it is.
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

// Readable returns a body for people: without its content encoding, or as it came where that cannot be undone. whole
// is false for more than limit bytes, of which it returns one more at least.
func Readable(encoding string, wire []byte, limit int) (body []byte, whole bool) {
	body, _, err := Inflate(encoding, wire, int64(limit))
	if err != nil && !TooLarge(err) {
		body = wire
	}
	return body, len(body) <= limit
}

// gzipLayers reads the value of Content-Encoding, which is a list. A name that is no coding at all, as of a
// charset, changes nothing.
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

// Compressed reports whether a Content-Encoding says that the body is compressed, in whatever way.
func Compressed(encoding string) bool {
	layers, err := gzipLayers(encoding)
	return err != nil || layers > 0
}

// malformedGzip makes an error of gunzip a reason to drop the request as malformed.
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

// Package gunzip inflates gzip within a limit, so that a small body cannot become a large one.
package gunzip

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

var (
	// ErrTooLarge says that the body is larger than the limit once inflated.
	ErrTooLarge = errors.New("larger than the limit once inflated")
	// ErrFormat says that the body is not gzip, or ends too early.
	ErrFormat = errors.New("gzip cannot be read")
)

// Is reports whether the body begins as gzip does.
func Is(body []byte) bool { return bytes.HasPrefix(body, []byte{0x1f, 0x8b}) }

// Inflate undoes one layer of gzip. With ErrTooLarge it returns the first limit+1 bytes, with ErrFormat nothing.
func Inflate(body []byte, limit int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, ErrFormat
	}
	var plain bytes.Buffer
	n, err := io.Copy(&plain, io.LimitReader(z, limit+1))
	switch {
	case n > limit:
		return plain.Bytes(), ErrTooLarge
	case err != nil:
		return nil, ErrFormat
	}
	return plain.Bytes(), nil
}

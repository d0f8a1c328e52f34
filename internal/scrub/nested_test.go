package scrub

import (
	"errors"
	"testing"
)

// A body that is compressed over and over is given up: a gzip file that is its own content would never end.
func TestNestedCompressionIsBounded(t *testing.T) {
	t.Parallel()
	body := []byte(`{"token":"xoxb","a":"b"}`)
	for depth := 0; depth < 5; depth++ {
		_, err := New().Body("application/json", body, Words{})
		if depth <= maxNested && err != nil || depth > maxNested && !errors.Is(err, ErrNoText) {
			t.Errorf("compressed %d times: %v", depth, err)
		}
		if body, err = deflate(body); err != nil {
			t.Fatal(err)
		}
	}
}

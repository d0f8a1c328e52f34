package gunzip

import (
	"bytes"
	"compress/gzip"
	"errors"
	"testing"
)

func TestInflate(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	whole := zipped.Bytes()
	for name, c := range map[string]struct {
		body  []byte
		limit int64
		want  string
		err   error
	}{
		"at the limit":   {body: whole, limit: 10, want: "0123456789"},
		"past the limit": {body: whole, limit: 9, want: "0123456789", err: ErrTooLarge},
		"far past":       {body: whole, limit: 3, want: "0123", err: ErrTooLarge},
		"cut":            {body: whole[:len(whole)-4], limit: 100, err: ErrFormat},
		"plain":          {body: []byte("0123456789"), limit: 100, err: ErrFormat},
		"empty":          {limit: 100, err: ErrFormat},
	} {
		got, err := Inflate(c.body, c.limit)
		if string(got) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, err, c.want, c.err)
		}
	}
	if !Is(whole) || Is([]byte("{}")) || Is(nil) {
		t.Error("Is does not tell gzip from the rest")
	}
}

package files

import (
	"context"
	"io"
)

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// Interruptible reads until ctx ends: Ctrl-C must end a command that waits for a person. After it has failed this way,
// in must not be read again.
func Interruptible(ctx context.Context, in io.Reader) io.Reader {
	type result struct {
		n   int
		err error
	}
	return readerFunc(func(p []byte) (int, error) {
		into := make([]byte, len(p)) // an abandoned read must not write into the caller's buffer
		read := make(chan result, 1) // buffered, so that the goroutine can end
		go func() {
			n, err := in.Read(into)
			read <- result{n, err}
		}()
		select {
		case r := <-read:
			return copy(p, into[:r.n]), r.err
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	})
}

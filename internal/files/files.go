// Package files opens files that a user names or a folder holds: only regular files, and only up to a size. A pipe
// would block the process in a call that no signal ends.
package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// ErrNotRegular is the error of Open and Read for a folder, a pipe, a socket or a device.
var ErrNotRegular = errors.New("is not a regular file")

// Open opens a regular file for reading, also through symbolic links. It never blocks. The error wraps ErrNotRegular,
// or is that of os.Open.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}

// Read reads a whole regular file. A file larger than limit is an error, and only little of it is read.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return content, nil
}

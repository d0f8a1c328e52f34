package pgtest

import (
	"os"
	"testing"
)

// NewServerIn is NewServer in the given folder, with its own template.
func NewServerIn(t T, base string) *Server { return newServer(t, base, Options{}) }

// Passable returns a folder, in memory if possible, that every user can pass through, unlike t.TempDir.
func Passable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(baseFor(Options{}), "pgtest-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

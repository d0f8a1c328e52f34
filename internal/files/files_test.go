package files

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("file"), []byte("12345"), 0o600), os.Symlink("file", at("link")),
		syscall.Mkfifo(at("pipe"), 0o600), os.Symlink("pipe", at("link-to-pipe"))); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for _, name := range []string{"file", "link"} {
		if got, err := Read(at(name), 5); string(got) != "12345" || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := Read(at(name), 4); got != nil || err == nil || !strings.Contains(err.Error(), "is larger than 4 bytes") {
			t.Errorf("%s, 4 bytes: %q, %v", name, got, err)
		}
	}
	for _, path := range []string{dir, at("pipe"), at("link-to-pipe"), os.DevNull} {
		if got, err := Read(path, 5); got != nil || !errors.Is(err, ErrNotRegular) || !strings.HasPrefix(err.Error(), path+" ") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := Read(at("socket"), 5); err == nil {
		t.Error("a socket was read")
	}
	if _, err := Read(at("none"), 5); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

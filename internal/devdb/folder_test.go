package devdb

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Passable returns a folder that every user can pass through, unlike t.TempDir.
func Passable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "devdb-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// started returns a running server in a new folder.
func started(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context(), Options{Dir: filepath.Join(Passable(t), "pg")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Crash(); _ = s.Close() })
	return s
}

func TestStartStopsAnOrphan(t *testing.T) {
	t.Parallel()
	s := started(t)
	args := s.proc.cmd.Args
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	// The same server, whose process is not ours to stop.
	orphan := s.Command(context.Background(), "postgres", args[1:]...)
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	awaitFile(t, filepath.Join(s.DataDir(), "postmaster.pid"))

	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	late := time.After(20 * time.Second)
	for {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 { // PostgreSQL makes it, then writes it
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s does not appear", path)
		}
	}
}

func TestStartSparesAReusedPid(t *testing.T) {
	t.Parallel()
	other := started(t)
	s := started(t)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	// PostgreSQL refuses to start while a process of its user has the number in this file.
	pid := strconv.Itoa(other.proc.cmd.Process.Pid) + "\n/somewhere/else\n"
	path := filepath.Join(s.DataDir(), "postmaster.pid")
	if err := os.WriteFile(path, []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.folder.owner.chown(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if other.proc.ended() {
		t.Error("it was stopped")
	}
}

func TestStartRemakesUnfinishedData(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(Passable(t), "pg")
	s, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, dataDir+".new")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Crash(); _ = s.Close() })
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", half, err)
	}
}

func TestStartNamesTheDataVersion(t *testing.T) {
	t.Parallel()
	s := started(t)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.DataDir(), "PG_VERSION"), []byte("9.6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "PostgreSQL 9.6") {
		t.Errorf("got %v, want both versions named", err)
	}
}

func TestStartOnATakenPort(t *testing.T) {
	t.Parallel()
	other := started(t)
	s := started(t)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s.port = other.port
	if err := s.Start(t.Context()); err == nil {
		t.Fatal("started on a port that another server has")
	}
	s.port = 0
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.port == other.port {
		t.Errorf("port %d is taken", s.port)
	}
}

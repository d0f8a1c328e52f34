package devdb

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// passable returns a folder that every user can pass through, unlike t.TempDir.
func passable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(Scratch(), "devdb-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// started returns a running server in a workshop of the test's own.
func started(t *testing.T, above string) *Server {
	t.Helper()
	s, err := newRun(t.Context(), above, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.discard)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnOrphanIsStopped(t *testing.T) {
	t.Parallel()
	s := started(t, Scratch())
	args := s.proc.cmd.Args
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	// The same server, run by nobody who cares.
	orphan := exec.Command(args[0], args[1:]...)
	orphan.Dir = s.Dir()
	s.folder.owner.as(orphan)
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	awaitFile(t, filepath.Join(s.Dir(), dataDir, "postmaster.pid"))

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
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s does not appear", path)
		}
	}
}

func TestAPidThatNowIsSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	other := started(t, Scratch())
	s := started(t, Scratch())
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	// PostgreSQL refuses to start while a process of its user has the number in this file.
	pid := strconv.Itoa(other.proc.cmd.Process.Pid) + "\n/somewhere/else\n"
	path := filepath.Join(s.Dir(), dataDir, "postmaster.pid")
	if err := os.WriteFile(path, []byte(pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.folder.owner.give(path); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if other.proc.ended() {
		t.Error("it was stopped")
	}
}

func TestUnfinishedDataAreMadeAnew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(passable(t), "pg")
	s, err := newServer(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.acquire(); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(dir, dataDir+".new")
	if err := os.Mkdir(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.discard)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("%s stays: %v", half, err)
	}
}

func TestDataOfAnotherVersionAreRefusedInWords(t *testing.T) {
	t.Parallel()
	s := started(t, Scratch())
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir(), dataDir, "PG_VERSION"), []byte("9.6\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := s.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "PostgreSQL 9.6") {
		t.Errorf("got %v, want both versions named", err)
	}
}

func TestAPortThatIsTakenIsChosenAnew(t *testing.T) {
	t.Parallel()
	other := started(t, Scratch())
	s := started(t, Scratch())
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

func TestProcessesThatStartAtOnceShareOneTemplate(t *testing.T) {
	t.Parallel()
	above := passable(t)
	var wg sync.WaitGroup
	servers := make([]*Server, 3)
	errs := make([]error, len(servers))
	for i := range servers {
		wg.Go(func() { servers[i], errs[i] = newRun(t.Context(), above, Options{}) })
	}
	wg.Wait()
	for i, s := range servers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		t.Cleanup(s.discard)
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.clone("copy"); err != nil {
			t.Error(err)
		}
	}
	shop := filepath.Dir(servers[0].Dir())
	made, err := filepath.Glob(filepath.Join(shop, "template-*"))
	if err != nil || len(made) != 1 {
		t.Errorf("templates: got %v, %v, want one", made, err)
	}
}

func TestSweepLeavesWhatIsInUse(t *testing.T) {
	t.Parallel()
	above := passable(t)
	running := started(t, above)
	shop := filepath.Dir(running.Dir())
	abandoned := started(t, above)
	abandoned.proc.signal(syscall.SIGQUIT)
	<-abandoned.proc.done
	abandoned.release()
	stopped := started(t, above)
	if err := stopped.Stop(); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(shop, "template-old")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-2 * unused)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}

	started(t, above)
	for path, want := range map[string]bool{running.Dir(): true, stopped.Dir(): true, abandoned.Dir(): false, old: false} {
		_, err := os.Stat(path)
		if got := err == nil; got != want {
			t.Errorf("%s: there %v, want %v", path, got, want)
		}
	}
	if made, err := filepath.Glob(filepath.Join(shop, "template-*")); err != nil || len(made) != 1 {
		t.Errorf("templates: got %v, %v, want the one in use", made, err)
	}
}

func TestAWorkshopThatOthersCanWriteToIsRefused(t *testing.T) {
	t.Parallel()
	above := passable(t)
	dir := filepath.Join(above, "webhook-gateway-test-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if s, err := newRun(t.Context(), above, Options{}); err == nil {
		s.remove()
		t.Error("used it")
	}
}

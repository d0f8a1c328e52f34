package pgtest

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"webhook-gateway/internal/devdb"
)

func TestOneTemplateForAll(t *testing.T) {
	t.Parallel()
	base := Passable(t)
	var wg sync.WaitGroup
	servers := make([]*devdb.Server, 3)
	errs := make([]error, len(servers))
	for i := range servers {
		wg.Go(func() { servers[i], errs[i] = open(t.Context(), base, Options{}) })
	}
	wg.Wait()
	for i, s := range servers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		t.Cleanup(func() { discard(s) })
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := clone(t.Context(), s, "copy"); err != nil {
			t.Error(err)
		}
	}
	all := filepath.Dir(servers[0].Dir())
	made, err := filepath.Glob(filepath.Join(all, "template-*"))
	if err != nil || len(made) != 1 {
		t.Errorf("templates: got %v, %v, want one", made, err)
	}
}

func TestSweepSparesWhatIsInUse(t *testing.T) {
	t.Parallel()
	base := Passable(t)
	running := newServer(t, base, Options{})
	all := filepath.Dir(running.Dir())
	abandoned := newServer(t, base, Options{})
	if err := errors.Join(abandoned.Crash(), abandoned.Close()); err != nil {
		t.Fatal(err)
	}
	stopped := newServer(t, base, Options{})
	if err := stopped.Stop(); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(all, "template-old")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	used := time.Now().Add(-2 * templateAge)
	if err := os.Chtimes(old, used, used); err != nil {
		t.Fatal(err)
	}

	newServer(t, base, Options{})
	for path, want := range map[string]bool{running.Dir(): true, stopped.Dir(): true, abandoned.Dir(): false, old: false} {
		_, err := os.Stat(path)
		if got := err == nil; got != want {
			t.Errorf("%s: there %v, want %v", path, got, want)
		}
	}
	if made, err := filepath.Glob(filepath.Join(all, "template-*")); err != nil || len(made) != 1 {
		t.Errorf("templates: got %v, %v, want the one in use", made, err)
	}
}

func TestAWritableFolderIsRefused(t *testing.T) {
	t.Parallel()
	base := Passable(t)
	dir := filepath.Join(base, "webhook-gateway-test-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if s, err := open(t.Context(), base, Options{}); err == nil {
		discard(s)
		t.Error("used it")
	}
}

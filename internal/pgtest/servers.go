package pgtest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/migrations"
)

// template is the database from which every test's database is copied.
const template = "gateway_template"

// templateFormat changes when this code makes templates differently.
const templateFormat = "1"

// templateAge is how long a template is kept after its last use.
const templateAge = 24 * time.Hour

// servers is the one folder of a user's test servers, while it is locked:
//
//	template-HASH  a stopped server's data with the migrated template in it. Making it takes over a second,
//	               copying it a tenth
//	run-RANDOM     one server of one test process; locked as long as that process lives
//	lock           held while something is made or removed here
type servers struct {
	dir  string
	bin  devdb.Binaries
	lock *os.File
}

// memory is a file system in memory, if the machine has one. A copy takes a test seconds on a busy disk, and a tenth
// of a second there.
const memory = "/dev/shm"

// baseFor returns the folder that holds the folder of the test servers.
func baseFor(opts Options) string {
	if !opts.Fsync && roomInMemory() {
		return memory
	}
	return os.TempDir()
}

// lockServers opens the folder of test servers in base, and waits for its lock.
func lockServers(ctx context.Context, base string) (*servers, error) {
	bin, err := devdb.Find(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := devdb.Place(ctx, bin, filepath.Join(base, "webhook-gateway-test-"+strconv.Itoa(os.Geteuid())))
	if err != nil {
		return nil, err
	}
	// The servers' user may not be ours, and must pass through.
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the test servers' folder: %w", err)
	}
	if err := checkOwned(dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the test servers' lock: %w", err)
	}
	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = lock.Close() // nothing was written
		return nil, fmt.Errorf("wait for the test servers' lock: %w", err)
	}
	return &servers{dir: dir, bin: bin, lock: lock}, nil
}

func (s *servers) unlock() { _ = s.lock.Close() } // it was only locked, never written

// checkOwned refuses a folder that another user has made in the shared temporary folder.
func checkOwned(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the test servers' folder: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("use %s: it must be a folder that we own and that others cannot write to", dir)
	}
	return nil
}

// open returns a new server in base, not yet started, with a copy of the template. This process holds its folder.
func open(ctx context.Context, base string, opts Options) (*devdb.Server, error) {
	s, err := lockServers(ctx, base)
	if err != nil {
		return nil, err
	}
	defer s.unlock()
	s.sweep(ctx)
	from, err := s.template(ctx)
	if err != nil {
		return nil, fmt.Errorf("make the template of the test databases: %w", err)
	}
	return s.open(ctx, opts, from)
}

func (s *servers) open(ctx context.Context, opts Options, from string) (*devdb.Server, error) {
	return devdb.Open(ctx, devdb.Options{Dir: filepath.Join(s.dir, "run-"+rand.Text()[:12]), Binaries: s.bin,
		From: from, Fsync: opts.Fsync, Settings: opts.Settings})
}

// discard ends a server and deletes its folder.
func discard(s *devdb.Server) {
	_ = s.Crash()             // nothing of it is kept, so an error does not matter
	_ = os.RemoveAll(s.Dir()) // the next sweep removes what stays
	_ = s.Close()
}

// template returns the data of a stopped server with the template database, and makes them if they are missing.
func (s *servers) template(ctx context.Context) (string, error) {
	hash := sha256.Sum256([]byte(strings.Join([]string{templateFormat, s.bin.Dir, s.bin.Version, migrations.Hash()}, "\x00")))
	path := filepath.Join(s.dir, fmt.Sprintf("template-%x", hash[:6]))
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil { // so that it counts as used
		return path, nil
	}
	server, err := s.open(ctx, Options{}, "")
	if err != nil {
		return "", err
	}
	defer discard(server)
	if err := fill(ctx, server); err != nil {
		return "", err
	}
	if err := server.Stop(); err != nil {
		return "", err
	}
	if err := os.Rename(server.DataDir(), path); err != nil {
		return "", fmt.Errorf("keep the template: %w", err)
	}
	return path, nil
}

func fill(ctx context.Context, s *devdb.Server) error {
	if err := s.Start(ctx); err != nil {
		return err
	}
	url, err := s.Create(ctx, template)
	if err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, url); err != nil {
		return err
	}
	return execute(ctx, s, "ALTER DATABASE "+template+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false")
}

// sweep removes what killed runs and earlier schemas have left. What it cannot remove stays for the next sweep.
func (s *servers) sweep(ctx context.Context) {
	entries, _ := os.ReadDir(s.dir) // see above
	for _, e := range entries {
		path := filepath.Join(s.dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "template-"):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > templateAge {
				_ = os.RemoveAll(path)
			}
		case strings.HasPrefix(e.Name(), "run-"):
			_ = devdb.Remove(ctx, path) // it stays while its process lives
		}
	}
}

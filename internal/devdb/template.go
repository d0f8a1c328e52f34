package devdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/migrations"
)

// template is the database that every test's database is a copy of.
const template = "gateway_template"

// templateFormat changes when this code makes other templates than before.
const templateFormat = "1"

// Test servers live together in one folder per user, the workshop:
//
//	template-HASH  a stopped server's data with the migrated template in it, to be copied: making them
//	               takes over a second, copying them a tenth
//	run-RANDOM     one server of one test process; locked as long as that process lives
//	lock           held while something is made or removed here
type workshop struct {
	dir    string
	folder folder // for its owner and binaries
	lock   *os.File
}

// memory is a file system in memory, where there is one. On a busy disk a test waits seconds for its
// copies, there a tenth of one.
const memory = "/dev/shm"

// enterWorkshop opens the one in the folder above, and waits for its turn there.
func enterWorkshop(ctx context.Context, above string) (*workshop, error) {
	f, err := findFolder(ctx, filepath.Join(above, "webhook-gateway-test-"+strconv.Itoa(os.Geteuid())))
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o700)
	if !f.owner.self {
		mode = 0o711 // the servers' user passes through
	}
	if err := os.Mkdir(f.dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the test servers' folder: %w", err)
	}
	if err := ours(f.dir); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(f.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
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
	return &workshop{dir: f.dir, folder: f, lock: lock}, nil
}

func (w *workshop) leave() { _ = w.lock.Close() } // it was only locked, never written

// ours refuses a folder that somebody else has laid out for us in the shared temporary folder.
func ours(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the test servers' folder: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(st.Uid) != os.Geteuid() || info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("use %s: it must be a folder of ours that nobody else can write to", dir)
	}
	return nil
}

// workshopFor returns the folder that a test server's workshop is in.
func workshopFor(opts Options) string {
	if !opts.Fsync && roomInMemory() {
		return memory
	}
	return os.TempDir()
}

// newRun makes a server's folder with a copy of the template in it, locked for this process.
func newRun(ctx context.Context, above string, opts Options) (*Server, error) {
	w, err := enterWorkshop(ctx, above)
	if err != nil {
		return nil, err
	}
	defer w.leave()
	w.sweep(ctx)
	from, err := w.template(ctx)
	if err != nil {
		return nil, fmt.Errorf("make the template of the test databases: %w", err)
	}
	s, err := w.server(opts)
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.folder.dir, dataDir)
	err = os.CopyFS(data, os.DirFS(from))
	if err == nil {
		err = os.Chmod(data, 0o700) // PostgreSQL insists
	}
	if err == nil {
		err = s.folder.owner.give(data)
	}
	if err != nil {
		s.remove()
		return nil, fmt.Errorf("copy the template of the test databases: %w", err)
	}
	return s, nil
}

// server makes a new folder, locked, without data.
func (w *workshop) server(opts Options) (*Server, error) {
	f := w.folder
	f.dir = filepath.Join(w.dir, "run-"+randomHex(6))
	s := &Server{opts: opts, folder: f, port: opts.Port, swept: true}
	return s, s.acquire()
}

// remove deletes a test server's folder; the server has ended.
func (s *Server) remove() {
	_ = os.RemoveAll(s.folder.dir) // what stays is removed by the next sweep
	s.release()
}

// template returns the data of a stopped server that holds the template database, made if need be.
func (w *workshop) template(ctx context.Context) (string, error) {
	name := "template-" + shortHash(templateFormat, w.folder.bin.Dir, w.folder.bin.Version, migrations.Hash())
	path := filepath.Join(w.dir, name)
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil { // so that it counts as used
		return path, nil
	}
	s, err := w.server(Options{})
	if err != nil {
		return "", err
	}
	defer s.remove()
	if err := s.fill(ctx); err != nil {
		return "", errors.Join(err, s.Stop())
	}
	if err := s.Stop(); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(s.folder.dir, dataDir), path); err != nil {
		return "", fmt.Errorf("keep the template: %w", err)
	}
	return path, nil
}

func (s *Server) fill(ctx context.Context) error {
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
	return s.admin(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "ALTER DATABASE "+template+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false")
		return err
	})
}

// unused is how long a template is kept that no test asks for.
const unused = 24 * time.Hour

// sweep removes what killed runs and earlier schemas have left. It is tidying: what it cannot remove
// stays for the next one.
func (w *workshop) sweep(ctx context.Context) {
	entries, _ := os.ReadDir(w.dir) // see above
	for _, e := range entries {
		path := filepath.Join(w.dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "template-"):
			if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unused {
				_ = os.RemoveAll(path)
			}
		case strings.HasPrefix(e.Name(), "run-"):
			lock, err := tryLock(filepath.Join(path, lockFile))
			if err != nil {
				continue // its process lives
			}
			if stopOrphan(ctx, filepath.Join(path, dataDir)) == nil {
				_ = os.RemoveAll(path)
			}
			_ = lock.Close()
		}
	}
}

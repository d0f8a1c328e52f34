package devdb

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"webhook-gateway/internal/files"
)

// maxFile bounds a file of the folder that is read.
const maxFile = 64 << 10

// What lies in a server's folder. The password is in the data, so that the two appear at once.
const (
	dataDir      = "data"
	passwordFile = "password"
	logFile      = "postgres.log"
	lockFile     = "lock"
)

// folder is where one server keeps what it has, and whose it is.
type folder struct {
	dir   string
	owner owner
	bin   Binaries
}

func findFolder(ctx context.Context, dir string) (folder, error) {
	bin, err := Find(ctx)
	if err != nil {
		return folder{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return folder{}, fmt.Errorf("find the data folder: %w", err)
	}
	o, err := ownerFor(dir)
	if err != nil {
		return folder{}, err
	}
	placed, err := o.place(ctx, dir, filepath.Join(bin.Dir, "postgres"))
	if err != nil {
		return folder{}, err
	}
	if placed != dir {
		if o, err = ownerFor(placed); err != nil {
			return folder{}, err
		}
	}
	return folder{dir: placed, owner: o, bin: bin}, nil
}

// acquire takes the folder for this process. The lock goes with the process, so a killed one leaves
// nothing behind; PostgreSQL does not inherit it.
func (s *Server) acquire() error {
	if s.lock != nil {
		return nil
	}
	dir := s.folder.dir
	if err := os.Mkdir(dir, 0o700); err == nil {
		if err := s.folder.owner.give(dir); err != nil {
			return fmt.Errorf("hand over %s: %w", dir, err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the data folder: %w", err)
	}
	lock, err := tryLock(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("open %s, which another user's run has made (remove it as that user, or run as that user): %w", dir, err)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	s.lock = lock
	return nil
}

func (s *Server) release() {
	if s.lock != nil {
		_ = s.lock.Close() // it was only locked, never written
		s.lock = nil
	}
}

// tryLock takes a lock that ends with this process; ErrInUse when another holds it.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, err
	}
	return f, nil
}

// prepare leaves data that a server can be started on, and returns its password. The folder is locked.
func (f folder) prepare(ctx context.Context, sync bool) (string, error) {
	data := filepath.Join(f.dir, dataDir)
	version, err := files.Read(filepath.Join(data, "PG_VERSION"), maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.initdb(ctx, data, sync); err != nil {
			return "", err
		}
	case err != nil:
		return "", fmt.Errorf("read the data's version: %w", err)
	case strings.TrimSpace(string(version)) != strconv.Itoa(major(f.bin.Version)):
		return "", fmt.Errorf("use %s: it was made by PostgreSQL %s, and %s is installed in %s; remove the folder, or name the older binaries in GATEWAY_PG_BIN",
			data, strings.TrimSpace(string(version)), f.bin.Version, f.bin.Dir)
	default:
		if err := stopOrphan(ctx, data); err != nil {
			return "", err
		}
	}
	password, err := files.Read(filepath.Join(data, passwordFile), maxFile)
	if err != nil {
		return "", fmt.Errorf("read the server's password: %w", err)
	}
	return string(password), nil
}

// initdb makes the data beside their place and moves them there when they are whole.
func (f folder) initdb(ctx context.Context, data string, sync bool) error {
	fresh := data + ".new"
	password := filepath.Join(f.dir, passwordFile+".new")
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove unfinished data: %w", err)
	}
	if err := os.WriteFile(password, []byte(randomHex(24)), 0o600); err != nil {
		return fmt.Errorf("write the server's password: %w", err)
	}
	if err := f.owner.give(password); err != nil {
		return fmt.Errorf("hand over the server's password: %w", err)
	}
	cmd := exec.Command(filepath.Join(f.bin.Dir, "initdb"), "-D", fresh, "-U", superuser,
		"--auth=scram-sha-256", "--pwfile="+password, "--encoding=UTF8", "--locale=C")
	if !sync {
		cmd.Args = append(cmd.Args, "--no-sync", "--wal-segsize=1")
	}
	cmd.Dir, cmd.Env = f.dir, f.env()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := spawn(cmd, f.owner, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("start initdb: %w", err)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		p.signal(syscall.SIGKILL)
		<-p.done
		return fmt.Errorf("make the data: %w", context.Cause(ctx))
	}
	if p.err != nil {
		return fmt.Errorf("make the data: %w\n%s", p.err, strings.TrimSpace(out.String()))
	}
	if err := os.Rename(password, filepath.Join(fresh, passwordFile)); err != nil {
		return fmt.Errorf("keep the server's password: %w", err)
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("move the data into place: %w", err)
	}
	return nil
}

// env is what PostgreSQL's programs see of ours: no PG* variable that would send them elsewhere, and
// messages in English.
func (f folder) env() []string {
	return []string{"PATH=" + f.bin.Dir + ":/usr/bin:/bin", "LC_ALL=C", "TZ=" + os.Getenv("TZ")}
}

// stopOrphan ends a server that still runs on the data though its process is gone, and removes a pid
// file whose number has gone to somebody else: PostgreSQL would take that one for a running server.
func stopOrphan(ctx context.Context, data string) error {
	path := filepath.Join(data, "postmaster.pid")
	text, err := files.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the last server's pid: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || pid <= 1 || !serves(pid, data) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a stale pid file: %w", err)
		}
		return nil
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	sig, late := syscall.SIGINT, time.After(patience)
	for serves(pid, data) {
		_ = syscall.Kill(pid, sig) // the only likely error is that it has ended, and then serves says so
		select {
		case <-tick.C:
		case <-late:
			sig = syscall.SIGKILL
		case <-ctx.Done():
			return fmt.Errorf("stop the server of an earlier run: %w", context.Cause(ctx))
		}
	}
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand.Read never returns an error: it ends the process instead
	return hex.EncodeToString(b)
}

func shortHash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:6])
}

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

// maxFile bounds the files of the folder that are read.
const maxFile = 64 << 10

// The files in a server's folder. The password is inside the data, so that the two appear together.
const (
	dataDir      = "data"
	passwordFile = "password"
	logFile      = "postgres.log"
	lockFile     = "lock"
)

// folder is where one server keeps its files, and the user who owns them.
type folder struct {
	dir   string
	owner owner
	bin   Binaries
}

func findFolder(ctx context.Context, opts Options) (f folder, err error) {
	if f.bin = opts.Binaries; f.bin == (Binaries{}) {
		if f.bin, err = Find(ctx); err != nil {
			return folder{}, err
		}
	}
	if f.dir, err = filepath.Abs(opts.Dir); err != nil {
		return folder{}, fmt.Errorf("find the data folder: %w", err)
	}
	if f.dir, err = Place(ctx, f.bin, f.dir); err != nil {
		return folder{}, err
	}
	f.owner, err = ownerFor(f.dir)
	return f, err
}

// data is the folder that PostgreSQL calls its data directory.
func (f folder) data() string { return filepath.Join(f.dir, dataDir) }

// acquire makes the folder and locks it for this process. The lock ends with the process, so a killed process leaves
// no lock behind. PostgreSQL does not inherit it.
func (f folder) acquire() (*os.File, error) {
	if err := os.Mkdir(f.dir, 0o700); err == nil {
		if err := f.owner.chown(f.dir); err != nil {
			return nil, fmt.Errorf("hand over %s: %w", f.dir, err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	lock, err := tryLock(filepath.Join(f.dir, lockFile))
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("open %s, which belongs to another user's run (remove it as that user, or run as that user): %w", f.dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.dir, err)
	}
	return lock, nil
}

// Remove deletes the folder of a server whose process is gone; it first stops the server if it still runs. If the
// process is alive, the error is ErrInUse.
func Remove(ctx context.Context, dir string) error {
	lock, err := tryLock(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := stopOrphan(ctx, filepath.Join(dir, dataDir)); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// tryLock takes a lock that ends with this process. It returns ErrInUse when another process holds it.
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

// prepare makes sure that the folder has data that a server can start on, and returns the password. The folder must
// be locked.
func (f folder) prepare(ctx context.Context, opts Options) (string, error) {
	data := f.data()
	version, err := files.Read(filepath.Join(data, "PG_VERSION"), maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.make(ctx, data, opts); err != nil {
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

// make makes the data in a folder beside their place, and moves them there when they are complete.
func (f folder) make(ctx context.Context, data string, opts Options) error {
	fresh := data + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove unfinished data: %w", err)
	}
	var err error
	if opts.From != "" {
		err = f.copy(fresh, opts.From)
	} else {
		err = f.initdb(ctx, fresh, opts.Fsync)
	}
	if err != nil {
		return err
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("move the data into place: %w", err)
	}
	return nil
}

func (f folder) copy(fresh, from string) error {
	err := os.CopyFS(fresh, os.DirFS(from))
	if err == nil {
		err = os.Chmod(fresh, 0o700) // PostgreSQL insists
	}
	if err == nil {
		err = f.owner.chown(fresh)
	}
	if err != nil {
		return fmt.Errorf("copy the data from %s: %w", from, err)
	}
	return nil
}

func (f folder) initdb(ctx context.Context, fresh string, sync bool) error {
	password := filepath.Join(f.dir, passwordFile+".new")
	if err := os.WriteFile(password, []byte(randomHex(24)), 0o600); err != nil {
		return fmt.Errorf("write the server's password: %w", err)
	}
	if err := f.owner.chown(password); err != nil {
		return fmt.Errorf("hand over the server's password: %w", err)
	}
	cmd := f.command(context.Background(), "initdb", "-D", fresh, "-U", superuser, // ended below, by its group
		"--auth=scram-sha-256", "--pwfile="+password, "--encoding=UTF8", "--locale=C")
	if !sync {
		cmd.Args = append(cmd.Args, "--no-sync", "--wal-segsize=1")
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	p, err := spawn(cmd, syscall.SIGKILL)
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
	return nil
}

// Command returns a command that runs one of PostgreSQL's programs like the server: as its user, in its folder, with
// its environment.
func (s *Server) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return s.folder.command(ctx, program, args...)
}

func (f folder) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(f.bin.Dir, program), args...)
	cmd.Dir, cmd.Env = f.dir, f.env()
	f.owner.as(cmd)
	return cmd
}

// env is the environment of PostgreSQL's programs: without PG* variables, which would redirect them, and with
// messages in English.
func (f folder) env() []string {
	return []string{"PATH=" + f.bin.Dir + ":/usr/bin:/bin", "LC_ALL=C", "TZ=" + os.Getenv("TZ")}
}

// stopOrphan stops a server that still runs on the data although its process is gone. It also removes a pid file
// whose number belongs to another process by now: PostgreSQL would take that process for a running server.
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
	sig, late := syscall.SIGINT, time.After(stopTimeout)
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

package devdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// owner is the user that PostgreSQL runs as. PostgreSQL refuses to run as root.
type owner struct {
	uid, gid uint32
	name     string
	self     bool // it is our own user
}

// ownerFor returns the user for a folder: our own or, if we are root, the owner of the server's data, else the user
// "postgres", else the user "nobody".
func ownerFor(dir string) (owner, error) {
	if uid := os.Geteuid(); uid != 0 {
		return owner{uid: uint32(uid), gid: uint32(os.Getegid()), self: true}, nil
	}
	if info, err := os.Stat(filepath.Join(dir, dataDir)); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return owner{uid: st.Uid, gid: st.Gid, name: userName(st.Uid)}, nil
		}
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return owner{uid: uint32(uid), gid: uint32(gid), name: name}, nil
		}
	}
	return owner{}, errors.New("find a user for PostgreSQL, which does not run as root: neither postgres nor nobody exists")
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user " + id
}

// as makes a command run as the owner.
func (o owner) as(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if !o.self {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.uid, Gid: o.gid}
	}
}

// chown gives a file, or a directory with all that is in it, to the owner.
func (o owner) chown(root string) error {
	if o.self {
		return nil
	}
	return filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(o.uid), int(o.gid))
	})
}

// Place returns where a server's folder can be: dir itself, or a folder in /var/lib when PostgreSQL's user cannot
// enter the folder above dir (a checkout in root's home). It makes the folders above the one that it returns.
func Place(ctx context.Context, bin Binaries, dir string) (string, error) {
	o, err := ownerFor(dir)
	if err != nil {
		return "", err
	}
	return o.place(ctx, dir, filepath.Join(bin.Dir, "postgres"))
}

func (o owner) place(ctx context.Context, dir, program string) (string, error) {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", parent, err)
	}
	if o.self || o.canEnter(ctx, parent, program) {
		return dir, nil
	}
	parent = "/var/lib/webhook-gateway"
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", parent, err)
	}
	if !o.canEnter(ctx, parent, program) {
		return "", fmt.Errorf("find a place for the data: the user %s can enter neither %s nor %s", o.name, filepath.Dir(dir), parent)
	}
	return filepath.Join(parent, filepath.Base(dir)+"-"+shortHash(dir)), nil
}

// canEnter starts a program in the folder: only the kernel knows modes, groups and access lists together.
func (o owner) canEnter(ctx context.Context, dir, program string) bool {
	cmd := exec.CommandContext(ctx, program, "--version")
	cmd.Dir = dir
	o.as(cmd)
	return cmd.Run() == nil
}

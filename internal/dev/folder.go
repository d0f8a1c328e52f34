// Package dev runs what gateway dev needs on one machine: a folder that keeps its data and key between runs, a private
// PostgreSQL, and samples to send.
package dev

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"webhook-gateway/internal/files"
	"webhook-gateway/internal/safetext"
	"webhook-gateway/jobs"
)

// Folder is where gateway dev keeps its files between runs:
//
//	secrets-key   the key that seals the vendors' secrets in its database
//	env           the settings of the running gateway, for a shell and for gateway send
//	postgres/     the private PostgreSQL, unless the user it runs as cannot enter here
//	state/        its GATEWAY_STATE_DIR
type Folder string

// ErrNotRunning says that no gateway dev is running in a folder.
var ErrNotRunning = errors.New("no gateway dev runs")

// maxFile bounds a file that is read back.
const maxFile = 64 << 10

// EnvFile is the path of the settings that a shell reads.
func (f Folder) EnvFile() string { return filepath.Join(string(f), "env") }

// Postgres is the folder for the private PostgreSQL's data, if its user can enter it.
func (f Folder) Postgres() string { return filepath.Join(string(f), "postgres") }

func (f Folder) keyFile() string { return filepath.Join(string(f), "secrets-key") }

// MakeFolder makes the folder if it is missing, and hides it from git. Other users may pass through it, because
// PostgreSQL's user must; only its owner can read its files.
func MakeFolder(path string) (Folder, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find --dir %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return "", fmt.Errorf("make --dir: %w", err)
	}
	f := Folder(abs)
	return f, f.write(filepath.Join(abs, ".gitignore"), "*\n")
}

// write replaces a file in one step, so that a killed run never leaves half a file.
func (f Folder) write(path, text string) error {
	tmp, err := os.CreateTemp(string(f), ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s (did another user's run make the directory? give --dir): %w", path, err)
	}
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error is the one to report
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// key returns the text of the folder's key, and makes one the first time.
func (f Folder) key() (string, error) {
	text, err := files.Read(f.keyFile(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // it never returns an error: it ends the process instead
		made := base64.StdEncoding.EncodeToString(key)
		return made, f.write(f.keyFile(), made+"\n")
	}
	if err != nil {
		return "", fmt.Errorf("read the directory's key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if _, err := jobs.NewKeys(key); err != nil {
		return "", fmt.Errorf("%s does not hold a key; remove it to get a new one: %w", f.keyFile(), err)
	}
	return key, nil
}

// Env holds the settings of the gateway in a folder, as other commands read them.
type Env struct {
	DatabaseURL, SecretsKey, StateDir, Listen, AdminListen string
	AdminOpen                                              bool
}

// Vars returns the settings as environment variables.
func (e Env) Vars() []string {
	vars := []string{
		"DATABASE_URL=" + e.DatabaseURL,
		"GATEWAY_SECRETS_KEY=" + e.SecretsKey,
		"GATEWAY_STATE_DIR=" + e.StateDir,
		"GATEWAY_LISTEN=" + e.Listen,
		"GATEWAY_ADMIN_LISTEN=" + e.AdminListen,
	}
	if e.AdminOpen {
		vars = append(vars, "GATEWAY_ADMIN_OPEN=true")
	}
	return vars
}

// WriteEnv writes the settings to a file that other commands read.
func (f Folder) WriteEnv(e Env) error {
	var text strings.Builder
	text.WriteString("# Written by gateway dev at its start. For a shell: set -a; . THIS_FILE; set +a\n")
	for _, v := range e.Vars() {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&text, "%s=%s\n", name, safetext.Shell(value))
	}
	return f.write(f.EnvFile(), text.String())
}

// Env returns the settings that the running gateway has written, or ErrNotRunning.
func (f Folder) Env() (Env, error) {
	text, err := files.Read(f.EnvFile(), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Env{}, fmt.Errorf("%w in %s", ErrNotRunning, f)
	}
	if err != nil {
		return Env{}, fmt.Errorf("read the settings of gateway dev: %w", err)
	}
	var e Env
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if len(value) > 1 && value[0] == '\'' {
			value = strings.ReplaceAll(value[1:len(value)-1], `'\''`, "'") // as safetext.Shell quotes it
		}
		switch name {
		case "DATABASE_URL":
			e.DatabaseURL = value
		case "GATEWAY_SECRETS_KEY":
			e.SecretsKey = value
		case "GATEWAY_STATE_DIR":
			e.StateDir = value
		case "GATEWAY_LISTEN":
			e.Listen = value
		case "GATEWAY_ADMIN_LISTEN":
			e.AdminListen = value
		}
	}
	return e, nil
}

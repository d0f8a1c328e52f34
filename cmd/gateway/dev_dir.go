package main

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
	"webhook-gateway/jobs"
)

// devDir is where gateway dev keeps what it has between runs:
//
//	secrets-key   the key that seals the vendors' secrets in its database
//	env           the settings of the gateway that runs there, for a shell and for gateway send
//	postgres/     the private PostgreSQL, unless the user it runs as cannot enter here
//	state/        what is GATEWAY_STATE_DIR elsewhere
type devDir string

// maxDevFile bounds a file that is read back.
const maxDevFile = 64 << 10

func (d devDir) envFile() string  { return filepath.Join(string(d), "env") }
func (d devDir) keyFile() string  { return filepath.Join(string(d), "secrets-key") }
func (d devDir) postgres() string { return filepath.Join(string(d), "postgres") }
func (d devDir) state() string    { return filepath.Join(string(d), "state") }

// makeDevDir makes the directory, out of git's sight wherever it lies. Others may pass through it, because
// the user that PostgreSQL runs as must; its files are ours alone.
func makeDevDir(path string) (devDir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find --dir %s: %w", path, err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return "", fmt.Errorf("make --dir: %w", err)
	}
	d := devDir(abs)
	if err := d.write(filepath.Join(abs, ".gitignore"), "*\n"); err != nil {
		return "", err
	}
	return d, nil
}

// write replaces a file whole, so that a killed run leaves none half-written.
func (d devDir) write(path, text string) error {
	tmp, err := os.CreateTemp(string(d), ".new-*") // 0600
	if err != nil {
		return fmt.Errorf("write %s (did another user's run make the directory? give --dir): %w", path, err)
	}
	_, err = tmp.WriteString(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error is the one to tell
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// key returns the directory's own key, made the first time.
func (d devDir) key() (string, error) {
	text, err := files.Read(d.keyFile(), maxDevFile)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // it never returns an error: it ends the process instead
		made := base64.StdEncoding.EncodeToString(key)
		return made, d.write(d.keyFile(), made+"\n")
	}
	if err != nil {
		return "", fmt.Errorf("read the directory's key: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if _, err := jobs.NewKeys(key); err != nil {
		return "", fmt.Errorf("%s does not hold a key; remove it, and a new one is made: %w", d.keyFile(), err)
	}
	return key, nil
}

// devEnv is what gateway dev tells the other commands.
type devEnv struct {
	databaseURL, secretsKey, stateDir, listen, adminListen string
	adminOpen                                              bool
}

func (e devEnv) vars() []string {
	vars := []string{
		"DATABASE_URL=" + e.databaseURL,
		"GATEWAY_SECRETS_KEY=" + e.secretsKey,
		"GATEWAY_STATE_DIR=" + e.stateDir,
		"GATEWAY_LISTEN=" + e.listen,
		"GATEWAY_ADMIN_LISTEN=" + e.adminListen,
	}
	if e.adminOpen {
		vars = append(vars, "GATEWAY_ADMIN_OPEN=true")
	}
	return vars
}

func (d devDir) writeEnv(e devEnv) error {
	var text strings.Builder
	text.WriteString("# Written by gateway dev at its start. For a shell: set -a; . THIS_FILE; set +a\n")
	for _, v := range e.vars() {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&text, "%s=%s\n", name, quote(value))
	}
	return d.write(d.envFile(), text.String())
}

// readEnv returns what the gateway that runs in the directory has told. The error says how to start one.
func (d devDir) readEnv() (devEnv, error) {
	text, err := files.Read(d.envFile(), maxDevFile)
	if errors.Is(err, fs.ErrNotExist) {
		return devEnv{}, fmt.Errorf("no gateway dev runs in %s: start it (%s), or name its directory with --dir, or use DATABASE_URL and GATEWAY_SECRETS_KEY with --source or --job",
			d, invocation()+" dev")
	}
	if err != nil {
		return devEnv{}, fmt.Errorf("read what gateway dev has written: %w", err)
	}
	var e devEnv
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = unquote(value)
		switch name {
		case "DATABASE_URL":
			e.databaseURL = value
		case "GATEWAY_SECRETS_KEY":
			e.secretsKey = value
		case "GATEWAY_STATE_DIR":
			e.stateDir = value
		case "GATEWAY_LISTEN":
			e.listen = value
		case "GATEWAY_ADMIN_LISTEN":
			e.adminListen = value
		}
	}
	return e, nil
}

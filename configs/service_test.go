package configs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSystemdUnit(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("gateway.service")
	if err != nil {
		t.Fatal(err)
	}
	const command = "/usr/local/bin/gateway"
	// The command has to be there for systemd to find nothing wrong.
	file := filepath.Join(t.TempDir(), "gateway.service")
	unit := strings.Replace(string(content), "ExecStart="+command, "ExecStart=/bin/true", 1)
	if err := os.WriteFile(file, []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("systemd-analyze", "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify (scripts/need systemd installs it): %v\n%s", err, out)
	}

	values := make(map[string]string)
	for line := range strings.Lines(string(content)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			values[name] = value
		}
	}
	if got := values["ExecStart"]; got != command+" serve" {
		t.Errorf("it runs %q", got)
	}
	c, err := Load("", []string{"HOME=/"}) // as DynamicUser has it
	if err != nil {
		t.Fatal(err)
	}
	if want := "/var/lib/" + values["StateDirectory"]; c.StateDir != want {
		t.Errorf("the state is kept in %s, and it may write to %s", c.StateDir, want)
	}
	if stop, err := time.ParseDuration(values["TimeoutStopSec"]); err != nil || stop <= c.ShutdownDelay+c.ShutdownTimeout {
		t.Errorf("it is killed after %s, while it takes %s: %v", stop, c.ShutdownDelay+c.ShutdownTimeout, err)
	}
	// A wrong flag or setting is not tried again; PostgreSQL is.
	if got := strings.Fields(values["RestartPreventExitStatus"]); !slices.Equal(got, []string{"2", "3"}) || values["Restart"] != "on-failure" {
		t.Errorf("it is not restarted after %q", got)
	}
}

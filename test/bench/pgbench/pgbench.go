// Package pgbench runs PostgreSQL's own load program.
package pgbench

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Run configures one run.
type Run struct {
	Bin       string // the folder of PostgreSQL's programs
	Dir       string // for the script while it runs
	URL       string // of the database
	Script    string
	Variables map[string]string // of the script
	Clients   int
	During    time.Duration
}

var tpsLine = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// Rate returns how often a second the script ran, with each client starting again at once. It is 0 when no client
// finished in time, as in a short run on a busy machine.
func (r Run) Rate(ctx context.Context) (float64, error) {
	script := filepath.Join(r.Dir, "pgbench.sql")
	if err := os.WriteFile(script, []byte(r.Script), 0o600); err != nil {
		return 0, fmt.Errorf("write pgbench's script: %w", err)
	}
	defer os.Remove(script)
	at, err := url.Parse(r.URL)
	if err != nil {
		return 0, err
	}
	args := []string{
		"--no-vacuum", "--protocol=prepared", "--file=" + script,
		"--client=" + strconv.Itoa(r.Clients), "--jobs=" + strconv.Itoa(min(r.Clients, 2)),
		"--time=" + strconv.Itoa(max(int(r.During.Seconds()), 1)),
	}
	for _, name := range slices.Sorted(maps.Keys(r.Variables)) {
		args = append(args, "-D", name+"="+r.Variables[name])
	}
	args = append(args, "--host="+at.Hostname(), "--port="+at.Port(), "--username="+at.User.Username(), at.Path[1:])
	cmd := exec.CommandContext(ctx, filepath.Join(r.Bin, "pgbench"), args...)
	password, _ := at.User.Password()
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password, "PGSSLMODE=disable")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run pgbench: %w\n%s", err, out)
	}
	found := tpsLine.FindSubmatch(out)
	if found == nil {
		if strings.Contains(string(out), "processed: 0") {
			return 0, nil
		}
		return 0, fmt.Errorf("pgbench printed no rate:\n%s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

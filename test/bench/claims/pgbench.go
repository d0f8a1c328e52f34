package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// The row that Claim inserts, and nothing else: keys that are spread, ids that grow, a commit of its own.
const insertScript = `\set n :n + 1
INSERT INTO agent.idempotency_keys
       (id, organization_id, scope, key, request_hash, lease_token, claimed_at, lease_expires_at, retain_until)
VALUES (('00000000-0000-7000-8001-' || lpad(to_hex(:n::bigint * 256 + :client_id), 12, '0'))::uuid,
        :organization::uuid, 'webhook.nylas', :job::text || '/' || gen_random_uuid()::text, :hash, gen_random_uuid(),
        now(), now() + interval '30 seconds', now() + interval '1 day');
`

var tpsLine = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// pgbench has PostgreSQL's own load program insert the row, each client again as soon as it has committed.
func (b *bench) pgbench(ctx context.Context, clients int) (float64, error) {
	script := filepath.Join(b.dir, "insert.sql")
	if err := os.WriteFile(script, []byte(insertScript), 0o600); err != nil {
		return 0, fmt.Errorf("write pgbench's script: %w", err)
	}
	defer os.Remove(script)
	at, err := url.Parse(b.db.URL)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin.Dir, "pgbench"), "--no-vacuum", "--protocol=prepared",
		"--client="+strconv.Itoa(clients), "--jobs="+strconv.Itoa(min(clients, 2)),
		"--time="+strconv.Itoa(max(int(b.each.Seconds()), 1)), "--file="+script,
		"-D", "n=0", "-D", "hash="+hashText, "-D", "organization="+b.org.String(), "-D", "job="+b.job.String(),
		"--host="+at.Hostname(), "--port="+at.Port(), "--username="+at.User.Username(), at.Path[1:])
	password, _ := at.User.Password()
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password, "PGSSLMODE=disable")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("run pgbench: %w\n%s", err, out)
	}
	found := tpsLine.FindSubmatch(out)
	if found == nil {
		if strings.Contains(string(out), "processed: 0") { // on a busy machine all of a short run went by
			return 0, nil
		}
		return 0, fmt.Errorf("pgbench told no rate:\n%s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

package main

import (
	"strings"
	"testing"
)

func TestReseal(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	for _, name := range []string{"one", "two"} {
		if r := c.with("secret of "+name, "sources", "add", "--provider", "slack", "--name", name, "--secret-stdin"); r.status != exitOK {
			t.Fatal(r.err)
		}
	}
	if r := c.run("secrets", "reseal"); r.status != exitOK || !strings.Contains(r.stdout, ": 0 rows; already sealed with it: 2 rows\n") {
		t.Errorf("status %d, %s%s", r.status, r.stdout, r.err)
	}
	both := cliFor(t, c.url, otherKey+","+testKey)
	dry := both.json("secrets", "reseal", "--dry-run")
	if dry["dry_run"] != true || dry["resealed"] != 2.0 || dry["current"] != 0.0 || len(dry["unopened"].([]any)) != 0 || len(dry["key_id"].(string)) != 8 {
		t.Errorf("dry run: %v", dry)
	}
	if r := both.run("secrets", "reseal", "--dry-run"); r.status != exitOK || !strings.HasPrefix(r.stdout, "to be sealed again with the key "+dry["key_id"].(string)+": 2 rows;") {
		t.Errorf("status %d, %s%s", r.status, r.stdout, r.err)
	}
	if r := both.run("secrets", "reseal"); r.status != exitOK || !strings.HasPrefix(r.stdout, "sealed again with the key "+dry["key_id"].(string)+": 2 rows;") {
		t.Errorf("status %d, %s%s", r.status, r.stdout, r.err)
	}
	if got := cliFor(t, c.url, otherKey).json("secrets", "reseal"); got["current"] != 2.0 {
		t.Errorf("with the new key alone: %v", got)
	}
	// The old key alone opens nothing any more, and nothing is changed.
	r := c.run("secrets", "reseal", "--json")
	if got := r.object(t); r.status != exitConfig || len(got["unopened"].([]any)) != 2 || !strings.Contains(r.err, "GATEWAY_SECRETS_KEY does not open the secrets of source ") || !strings.Contains(r.err, " and 1 row more") {
		t.Errorf("status %d, %v, %s", r.status, got, r.err)
	}
	cliFor(t, c.url, "").run("secrets", "reseal").wants(t, exitConfig, "GATEWAY_SECRETS_KEY: is not set")
}

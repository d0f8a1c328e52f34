package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

// toolKeys is a command line on a database with two keys of a tool: a completed one, and a claim whose
// worker is gone.
func toolKeys(t *testing.T) (*cli, uuid.UUID) {
	t.Helper()
	c, org := newCLI(t), uuid.New()
	pool, err := pgxpool.New(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	plane := idempotency.MustService(pool, idempotency.Options{})
	scope, err := idempotency.NewScope("tool.email.send")
	if err != nil {
		t.Fatal(err)
	}
	claim := func(step int64) *idempotency.Claim {
		key, err := idempotency.ToolKey("job_17", step, "send")
		if err != nil {
			t.Fatal(err)
		}
		o, err := plane.Claim(t.Context(), idempotency.Ref{Organization: org, Scope: scope, Key: key}, idempotency.Content([]byte(`{}`)), time.Minute)
		if err != nil || o.Kind != idempotency.Claimed {
			t.Fatal(o.Kind, err)
		}
		return o.Claim
	}
	if _, err := plane.Complete(t.Context(), claim(3), idempotency.Answer{Resource: idempotency.ResourceRef{Type: "message", ID: "m-1"}}); err != nil {
		t.Fatal(err)
	}
	claim(4)
	if _, err := pool.Exec(t.Context(), `UPDATE agent.idempotency_keys SET lease_expires_at = now() - interval '1 hour' WHERE key = 'job_17:4:send'`); err != nil {
		t.Fatal(err)
	}
	return c, org
}

type shownKey struct {
	Key      string
	Status   string
	Resource struct{ Type, ID string }
	Safe     bool   `json:"redrive_safe"`
	Why      string `json:"redrive_why"`
}

func TestKeysShow(t *testing.T) {
	t.Parallel()
	c, org := toolKeys(t)
	show := func(name string) (k shownKey) {
		t.Helper()
		got := c.run("keys", "show", "--organization", org.String(), "--scope", "tool.email.send", name, "--json")
		if err := json.Unmarshal([]byte(got.stdout), &k); err != nil || got.status != 0 {
			t.Fatalf("%d %s %s %v", got.status, got.stdout, got.err, err)
		}
		return k
	}
	if k := show("job_17:3:send"); k.Status != "completed" || k.Resource.ID != "m-1" || !k.Safe || !strings.Contains(k.Why, "new step id") {
		t.Errorf("a completed key: %+v", k)
	}
	if k := show("job_17:4:send"); k.Status != "processing" || k.Safe {
		t.Errorf("a claim whose worker is gone: %+v", k)
	}
	if got := c.run("keys", "show", "--organization", org.String(), "--scope", "tool.email.send", "job_17:3:send"); !strings.Contains(got.stdout, "re-drive safe") {
		t.Errorf("for people: %s", got.stdout)
	}
	if got := c.run("keys", "show", "--organization", uuid.NewString(), "--scope", "tool.email.send", "job_17:3:send"); got.status != exitFailed || got.stdout != "" {
		t.Errorf("another organization: %d %s", got.status, got.stdout)
	}
}

func TestKeysListAndStuck(t *testing.T) {
	t.Parallel()
	c, org := toolKeys(t)
	var list struct{ Keys []shownKey }
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"keys", "list", "--organization", org.String(), "--json"}, "job_17:3:send job_17:4:send"},
		{[]string{"keys", "list", "--organization", org.String(), "--prefix", "job_17:4", "--json"}, "job_17:4:send"},
		{[]string{"keys", "list", "--organization", org.String(), "--scope", "tool.other", "--json"}, ""},
		{[]string{"keys", "stuck", "--json"}, "job_17:4:send"},
		{[]string{"keys", "stuck", "--since", "2h", "--json"}, ""},
	} {
		got := c.run(tt.args...)
		list.Keys = nil
		if err := json.Unmarshal([]byte(got.stdout), &list); err != nil || got.status != 0 {
			t.Fatalf("%v: %d %s %s", tt.args, got.status, got.stdout, got.err)
		}
		var names []string
		for _, k := range list.Keys {
			names = append(names, k.Key)
		}
		if strings.Join(names, " ") != tt.want {
			t.Errorf("%v: %v, want %s", tt.args, names, tt.want)
		}
	}
	for _, args := range [][]string{
		{"keys"}, {"keys", "show", "k"}, {"keys", "show", "--organization", org.String(), "k"}, {"keys", "list"},
		{"keys", "list", "--organization", org.String(), "--limit", "0"}, {"keys", "stuck", "--since", "-1s"},
	} {
		if got := c.run(args...); got.status != exitUsage {
			t.Errorf("%v: status %d, want %d", args, got.status, exitUsage)
		}
	}
}

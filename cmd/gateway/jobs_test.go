package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/jobs"
)

// snapshot reads what a gateway with this key would know.
func snapshot(t *testing.T, c *cli, key string) *jobs.Snapshot {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	keys, err := jobs.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := jobs.Read(t.Context(), pool, keys)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func texts(ring jobs.Keyring) []string {
	var list []string
	for _, s := range ring.Secrets {
		list = append(list, s.Reveal())
	}
	return list
}

// secretsOfSource opens the live secrets of a Slack source with whichever of the tests' keys fits.
func secretsOfSource(t *testing.T, c *cli, name string) []string {
	t.Helper()
	s, ok := snapshot(t, c, testKey+","+otherKey).Source("slack", name)
	if !ok {
		t.Fatalf("no source %s", name)
	}
	return texts(s.Keyring)
}

func TestJobsAddUnderASource(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.json("sources", "add", "--provider", "slack", "--name", "main")
	got := c.json("jobs", "add", "--provider", "slack", "--organization", testOrg, "--source", "main", "--ref", "team_id=T1", "--fallback")
	id := got["id"].(string)
	if _, err := uuid.Parse(id); err != nil {
		t.Errorf("id %q is not a UUID", id)
	}
	want := map[string]any{
		"id": id, "organization_id": testOrg, "provider": "slack", "path": "/webhooks/slack/" + id,
		"source": "main", "source_path": "/webhooks/slack/sources/main", "refs": map[string]any{"team_id": "T1"},
		"fallback": true, "has_secret": false, "secrets": 0.0, "rotating_until": nil, "closed_at": nil, "created_at": got["created_at"],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r := c.run("jobs", "show", id); !strings.Contains(r.stdout, "/webhooks/slack/sources/main") || r.err != "" {
		t.Errorf("show prints %q, stderr %q", r.stdout, r.err)
	}
}

func TestJobsAddWithSecretsOfItsOwn(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	got := c.with("mine\n", "jobs", "add", "--provider", "slack", "--organization", testOrg, "--secret-stdin",
		"--ref", "api_app_id=A1", "--ref", "team_id=T1", "--json").json(t)
	if got["source"] != nil || got["has_secret"] != true || !cmp.Equal(got["refs"], map[string]any{"api_app_id": "A1", "team_id": "T1"}) {
		t.Errorf("got %v", got)
	}
	j, _ := snapshot(t, c, testKey).Job("slack", uuid.MustParse(got["id"].(string)))
	if j == nil || !cmp.Equal(texts(j.Keyring), []string{"mine"}) {
		t.Errorf("the job's secrets are not what was given")
	}

	later := c.json("jobs", "add", "--provider", "nylas", "--organization", testOrg, "--own-secret")
	if later["has_secret"] != false {
		t.Errorf("got %v", later)
	}
	got = c.with("minted", "jobs", "set-secret", later["id"].(string), "--json").json(t)
	if got["secrets"] != 1.0 || got["id"] != later["id"] {
		t.Errorf("after set-secret: %v", got)
	}
	if got := c.json("jobs", "set-secret", "--id", later["id"].(string), "--rotating", "1h"); got["rotating_until"] == nil {
		t.Errorf("after --rotating: %v", got)
	}
}

func TestJobsErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.json("sources", "add", "--provider", "slack", "--name", "main")
	job := c.json("jobs", "add", "--provider", "slack", "--organization", testOrg, "--source", "main", "--ref", "team_id=T1", "--fallback")["id"].(string)
	add := "add --provider slack --organization " + testOrg
	tests := []struct {
		name   string
		args   string
		status int
		says   []string
	}{
		{"no provider", "add --organization " + testOrg, exitUsage, []string{"--provider is missing"}},
		{"no organization", "add --provider slack --source main --ref team_id=T2", exitUsage, []string{"--organization is missing"}},
		{"organization no UUID", "add --provider slack --source main --ref team_id=T2 --organization acme", exitUsage, []string{"--organization", "not a UUID"}},
		{"nil organization", "add --provider slack --source main --ref team_id=T2 --organization " + uuid.Nil.String(), exitUsage, []string{"--organization"}},
		{"whose secret", add + " --ref team_id=T2", exitUsage, []string{"--source", "--secret-stdin", "--own-secret"}},
		{"both secrets", add + " --source main --ref team_id=T2 --own-secret", exitUsage, []string{"a job of a source has no secret"}},
		{"no tenant", add + " --source main", exitUsage, []string{"exactly one identity", "not 0 times"}},
		{"two tenants", add + " --source main --ref team_id=T2 --ref enterprise_id=E2", exitUsage, []string{"exactly one identity"}},
		{"an enterprise as a team", add + " --source main --ref team_id=E2", exitUsage, []string{"pin enterprise_id=E2"}},
		{"an enterprise as a team of its app", add + " --own-secret --ref api_app_id=A1 --ref team_id=E2", exitUsage, []string{"pin enterprise_id=E2"}},
		{"fallback of nothing", add + " --own-secret --fallback", exitUsage, []string{"--fallback needs --source"}},
		{"unknown source", add + " --source nope --ref team_id=T2", exitFailed, []string{"no source named", "sources list"}},
		{"another provider's source", "add --provider nylas --organization " + testOrg + " --source main --ref grant_id=g", exitFailed, []string{"no source named"}},
		{"tenant taken", add + " --source main --ref team_id=T1", exitFailed, []string{"exists already", job, "jobs close"}},
		{"second fallback", add + " --source main --ref team_id=T2 --fallback", exitFailed, []string{"fallback", job}},
		{"show nothing", "show", exitUsage, []string{"which job?", "jobs list"}},
		{"show no UUID", "show 12", exitUsage, []string{"not a UUID"}},
		{"unknown job", "show " + testOrg, exitFailed, []string{"there is no job " + testOrg}},
		{"close an unknown job", "close " + testOrg, exitFailed, []string{"there is no job"}},
		{"secret of a source's job", "set-secret --drop-previous " + job, exitUsage, []string{"no own secrets", `source "main"`}},
		{"two filters", "list --ref a=1 --ref b=2", exitUsage, []string{"--ref filters by one identity"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"jobs"}, strings.Fields(tt.args)...), "--config", c.file)
			call(t, untouched{t}, args...).wants(t, tt.status, tt.says...)
		})
	}
}

func TestJobsListAndClose(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.json("sources", "add", "--provider", "slack", "--name", "main")
	other := uuid.NewString()
	a := c.json("jobs", "add", "--provider", "slack", "--organization", testOrg, "--source", "main", "--ref", "team_id=T1")["id"]
	b := c.json("jobs", "add", "--provider", "slack", "--organization", other, "--own-secret")["id"]
	d := c.json("jobs", "add", "--provider", "nylas", "--organization", other, "--own-secret", "--ref", "grant_id=g1")["id"]
	check := func(args string, want ...any) {
		t.Helper()
		var got []any
		for _, j := range c.json(append([]string{"jobs", "list"}, strings.Fields(args)...)...)["jobs"].([]any) {
			got = append(got, j.(map[string]any)["id"])
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("list %s: %s", args, diff)
		}
	}
	check("", d, b, a)
	check("--provider slack", b, a)
	check("--organization "+other, d, b)
	check("--source main", a)
	check("--ref grant_id=g1", d)
	check("--provider nylas --organization " + testOrg)

	closed := c.json("jobs", "close", a.(string))
	if closed["id"] != a || closed["closed_at"] == nil {
		t.Errorf("close prints %v", closed)
	}
	if again := c.json("jobs", "close", a.(string)); again["closed_at"] != closed["closed_at"] {
		t.Errorf("closing twice moves the time: %v", again)
	}
	check("", d, b)
	check("--closed --source main", a)
	if r := c.run("jobs", "list", "--closed"); !strings.Contains(r.stdout, "closed") || !strings.Contains(r.stdout, "(own secrets: 0)") {
		t.Errorf("list prints %q", r.stdout)
	}
}

func TestSecretReadCancelled(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	c.json("sources", "add", "--provider", "slack", "--name", "main")
	in, out := io.Pipe()                                                // without input
	defer time.AfterFunc(10*time.Second, func() { out.Close() }).Stop() // so that a failure does not hang
	ctx, cancel := context.WithCancel(t.Context())
	reading := readFunc(func(p []byte) (int, error) {
		cancel() // Ctrl-C while it waits
		return in.Read(p)
	})
	callContext(ctx, reading, "sources", "set-secret", "main", "--provider", "slack", "--config", c.file).
		wants(t, exitFailed, "read the secret from stdin: context canceled")
}

type readFunc func([]byte) (int, error)

func (r readFunc) Read(p []byte) (int, error) { return r(p) }

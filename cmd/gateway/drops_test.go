package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/drops"
)

// dropsCLI returns commands on a database, and the database.
func dropsCLI(t *testing.T) (*cli, *pgxpool.Pool) {
	t.Helper()
	c := newCLI(t)
	pool, err := pgxpool.New(t.Context(), c.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return c, pool
}

func keepDrops(t *testing.T, pool *pgxpool.Pool, rows ...drops.Kept) {
	t.Helper()
	batch := &pgx.Batch{}
	drops.Queue(batch, rows)
	if err := pool.SendBatch(t.Context(), batch).Close(); err != nil {
		t.Fatal(err)
	}
}

// drops runs gateway drops with the arguments.
func (c *cli) drops(args ...string) (status int, stdout, stderr string) {
	c.t.Helper()
	r := c.run(append([]string{"drops"}, args...)...)
	return r.status, r.stdout, r.err
}

const dropID = "019c3f2b-8c1e-7d0a-8c57-9a550c6f3a1d"

func sampleDrop() drops.Kept {
	return drops.Kept{
		ID: uuid.MustParse(dropID), Reason: drops.UnknownJob, Detail: "no job of the source pins the team_id that the body names",
		Provider: "slack", VerifiedBy: "source", VerifierID: uuid.MustParse("019c3f2b-0000-7000-8000-000000000001"),
		PathSource: "main", RequestID: uuid.MustParse("019c3f2b-0000-7000-8000-000000000002"), RequestSeed: []byte("seed"),
		Position: 0, EventType: "message", RequestHash: "c1:00", Count: 3,
		Headers: `[["user-agent","Slackbot"]]`, ContentType: "application/json", Body: []byte(`{"a":"<é>"}`),
		ReceivedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestDropsListJSON(t *testing.T) {
	t.Parallel()
	c, pool := dropsCLI(t)
	other := sampleDrop()
	other.ID, other.Provider, other.PathJob, other.PathSource = uuid.Must(uuid.NewV7()), "nylas", uuid.New(), ""
	keepDrops(t, pool, sampleDrop())
	keepDrops(t, pool, other)

	status, stdout, stderr := c.drops("list", "--provider", "slack", "--since", "1h", "--json")
	if status != exitOK || stderr != "" {
		t.Fatal(status, stderr)
	}
	var got struct {
		Drops []map[string]any `json:"drops"`
		More  *bool            `json:"more"`
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	if err := decoder.Decode(&got); err != nil || decoder.More() || got.More == nil || *got.More {
		t.Fatalf("not exactly one object with all drops (%v): %s", err, stdout)
	}
	if len(got.Drops) != 1 {
		t.Fatalf("%d drops, want slack's: %s", len(got.Drops), stdout)
	}
	delete(got.Drops[0], "stored_at")
	want := map[string]any{
		"id": dropID, "reason": "unknown_job", "detail": "no job of the source pins the team_id that the body names",
		"provider": "slack", "organization_id": nil, "job_id": nil, "verified_by": "source",
		"verifier_id": "019c3f2b-0000-7000-8000-000000000001", "path": "/webhooks/slack/sources/main",
		"request_id": "019c3f2b-0000-7000-8000-000000000002", "position": 0.0, "delivery_key": "", "event_type": "message",
		"request_hash": "c1:00", "count": 3.0, "received_at": "2026-03-01T12:00:00Z",
		"redrives": []any{},
	}
	if diff := cmp.Diff(want, got.Drops[0]); diff != "" {
		t.Errorf("drop (-want +got):\n%s", diff)
	}
}

func TestDropsListLimit(t *testing.T) {
	t.Parallel()
	c, pool := dropsCLI(t)
	rows := make([]drops.Kept, 5)
	for i := range rows {
		rows[i] = sampleDrop()
		rows[i].ID = uuid.Must(uuid.NewV7())
	}
	keepDrops(t, pool, rows...)
	for limit, want := range map[string]int{"3": 3, "4": 4, "5": 5, "100000": 5} {
		status, stdout, stderr := c.drops("list", "--limit", limit)
		lines := strings.Count(stdout, "\n") - 1 // the heading
		if status != exitOK || lines != want || strings.Contains(stderr, "more than") != (want < 5) {
			t.Errorf("--limit %s: status %d, %d drops, stderr %q; want %d drops", limit, status, lines, stderr, want)
		}
	}
}

func TestDropsListEmpty(t *testing.T) {
	t.Parallel()
	c, _ := dropsCLI(t)
	if status, stdout, _ := c.drops("list"); status != exitOK || stdout != "" {
		t.Errorf("status %d, stdout %q; want 0 and nothing", status, stdout)
	}
	if status, stdout, _ := c.drops("list", "--json"); status != exitOK || stdout != `{"drops":[],"more":false}`+"\n" {
		t.Errorf("--json: status %d, stdout %q", status, stdout)
	}
}

func TestDropsShow(t *testing.T) {
	t.Parallel()
	c, pool := dropsCLI(t)
	keepDrops(t, pool, sampleDrop())
	status, stdout, stderr := c.drops("show", dropID)
	if status != exitOK || stderr != "" {
		t.Fatal(status, stderr)
	}
	for _, want := range []string{
		"reason        unknown_job\n", "path          /webhooks/slack/sources/main\n", "organization  -\n",
		"stands for    3 drops\n", "\ncontent-type: application/json\n", "\nuser-agent: Slackbot\n",
		"\nbody, 12 bytes as received:\n\n{\"a\":\"<é>\"}\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in:\n%s", want, stdout)
		}
	}
}

func TestDropsShowJSON(t *testing.T) {
	t.Parallel()
	c, pool := dropsCLI(t)
	bare := sampleDrop()
	bare.ID, bare.RequestID, bare.Headers, bare.Body = uuid.Must(uuid.NewV7()), uuid.New(), "", nil
	keepDrops(t, pool, sampleDrop(), bare)
	for id, want := range map[string]map[string]any{
		dropID: {
			"headers": []any{[]any{"user-agent", "Slackbot"}}, "content_type": "application/json", "content_encoding": "",
			"body": "eyJhIjoiPMOpPiJ9", "body_text": `{"a":"<é>"}`,
		},
		bare.ID.String(): {"headers": nil, "content_type": nil, "content_encoding": nil, "body": nil, "body_text": nil},
	} {
		status, stdout, stderr := c.drops("show", id, "--json")
		var got map[string]any
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != exitOK || stderr != "" {
			t.Fatal(status, stderr, err)
		}
		request := make(map[string]any)
		for name := range want {
			value, ok := got[name]
			if !ok {
				t.Errorf("%s is missing", name)
			}
			request[name] = value
		}
		if diff := cmp.Diff(want, request); diff != "" || got["id"] != id {
			t.Errorf("request of %v (-want +got):\n%s", got["id"], diff)
		}
	}
}

func TestDropsShowBody(t *testing.T) {
	t.Parallel()
	c, pool := dropsCLI(t)
	row := sampleDrop()
	row.Body, row.ContentEncoding = zipped(t, "{}"), "gzip"
	bare := sampleDrop()
	bare.ID, bare.RequestID, bare.Headers, bare.Body = uuid.Must(uuid.NewV7()), uuid.New(), "", nil
	keepDrops(t, pool, row, bare)

	status, stdout, _ := c.drops("show", dropID, "--body")
	if status != exitOK || stdout != string(row.Body) {
		t.Errorf("status %d, %d bytes; want the %d of the wire", status, len(stdout), len(row.Body))
	}
	status, stdout, stderr := c.drops("show", bare.ID.String(), "--body")
	if status != exitFailed || stdout != "" || !strings.Contains(stderr, "was not kept") {
		t.Errorf("without a request: status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}

func TestDropsExitStatuses(t *testing.T) {
	t.Parallel()
	c, _ := dropsCLI(t)
	for args, want := range map[string]int{
		"list --reason duplicate":           exitUsage,
		"list --reason late":                exitUsage,
		"list --provider stripe":            exitUsage,
		"list --organization acme":          exitUsage,
		"list --job 1":                      exitUsage,
		"list --since yesterday":            exitUsage,
		"list --since -1h":                  exitUsage,
		"list --since -2d":                  exitUsage,
		"list --limit 0":                    exitUsage,
		"list --limit 100001":               exitUsage,
		"list extra":                        exitUsage,
		"show":                              exitUsage,
		"show main":                         exitUsage,
		"show --json --body " + dropID:      exitUsage,
		"show " + dropID:                    exitFailed, // no such drop
		"list --since 2026-03-01T12:00:00Z": exitOK,
		"list --since 999999d":              exitOK,
		"list --reason malformed --provider nylas --organization " + dropID + " --job " + dropID: exitOK,
	} {
		status, stdout, stderr := c.drops(strings.Fields(args)...)
		if status != want || stdout != "" || want != exitOK && stderr == "" {
			t.Errorf("drops %s: status %d, want %d; stdout %q, stderr %q", args, status, want, stdout, stderr)
		}
	}
}

func TestParseSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m":                  now.Add(-90 * time.Minute),
		"7d":                   now.Add(-7 * 24 * time.Hour),
		"2026-03-01T12:00:00Z": time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	} {
		if got, err := parseSince(text, now); err != nil || !got.Equal(want) {
			t.Errorf("--since %s is %v, %v; want %v", text, got, err, want)
		}
	}
}

// What a vendor sends must not write on an operator's terminal.
func TestPrintBody(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body     []byte
		encoding string
		want     string
	}{
		"JSON":                   {[]byte(`{"a":1}`), "", "{\"a\":1}\n"},
		"lines and tabs":         {[]byte("a\r\n\tb"), "", "a\n\tb\n"},
		"joined emoji, no-break": {[]byte("👩\u200d💻\u00a0!"), "", "👩\u200d💻\u00a0!\n"},
		"gzip":                   {zipped(t, "plain"), "GZIP", "plain\n"},
		"gzip of a control":      {zipped(t, "\x1b[2J"), "gzip", "00000000  1f 8b"},
		"said to be gzip":        {[]byte("plain"), "gzip", "plain\n"},
		"an escape sequence":     {[]byte("\x1b]0;x\a"), "", "00000000  1b 5d"},
		"a bare carriage return": {[]byte("ab\rcd"), "", "00000000  61 62 0d"},
		"a control of C1":        {[]byte("\u009b2J"), "", "00000000  c2 9b"},
		"text that turns around": {[]byte("a\u202eb"), "", "00000000  61 e2 80 ae"},
		"no UTF-8":               {[]byte{'a', 0xff}, "", "00000000  61 ff"},
		"NUL":                    {[]byte{'a', 0}, "", "00000000  61 00"},
		"nothing":                {[]byte{}, "", "\n"},
	} {
		k := sampleDrop()
		k.Body, k.ContentEncoding = tc.body, tc.encoding
		var out bytes.Buffer
		if err := printBody(&out, k); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(out.String(), tc.want) {
			t.Errorf("%s: shown as %q, want %q", name, out.String(), tc.want)
		}
	}
}

func TestPrintBodyIsBounded(t *testing.T) {
	// Not parallel: the memory is the process's.
	for name, tc := range map[string]struct {
		body     []byte
		encoding string
	}{
		"text":      {[]byte(strings.Repeat("é", 2<<20)), ""},
		"gzip bomb": {zipped(t, "x"+strings.Repeat("é", 20<<20)), "gzip"},
		"binary":    {bytes.Repeat([]byte{0xff}, 2<<20), ""},
	} {
		k := sampleDrop()
		k.Body, k.ContentEncoding = tc.body, tc.encoding
		var out bytes.Buffer
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := printBody(&out, k); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 24<<20 {
			t.Errorf("%s: showing it took %d bytes of memory", name, took)
		}
		if out.Len() > maxShownText+100 || !strings.Contains(out.String(), "(cut after") {
			t.Errorf("%s: %d bytes are shown, ending in %q", name, out.Len(), out.Bytes()[out.Len()-40:])
		}
		if (name == "binary") != strings.HasPrefix(out.String(), "00000000") {
			t.Errorf("%s is shown as %.30q", name, out.String())
		}
	}
}

func TestDropsEscapeVendorText(t *testing.T) {
	t.Parallel()
	c, pool := dropsCLI(t)
	row := sampleDrop()
	const evil = "x\x1b[2J\n\u202e"
	row.EventType, row.DeliveryKey, row.Detail, row.ContentType, row.ContentEncoding = evil, evil, evil, evil, evil
	row.Headers = `[["user-agent","x\u001b[2J\n\u202e"]]`
	keepDrops(t, pool, row)
	for _, args := range [][]string{{"list"}, {"show", dropID}} {
		_, stdout, _ := c.drops(args...)
		if strings.ContainsAny(stdout, "\x1b\u202e") || !strings.Contains(stdout, `x\u001b[2J\u000a\u202e`) {
			t.Errorf("drops %s: %q", args[0], stdout)
		}
	}
}

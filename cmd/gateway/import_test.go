package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"webhook-gateway/internal/capture"
	"webhook-gateway/providers/nylas"
)

func TestImportCompressed(t *testing.T) {
	t.Parallel()
	r, c := sender(t)
	nylasTown(r)
	gz := zipped(t, nylasMessage("G1", "n1", 1))
	signature := nylas.New().Sign(nylasSecret, gz, now()).Get("X-Nylas-Signature")
	raw := fmt.Sprintf("POST /webhooks/nylas/sources/main/ HTTP/1.1\r\nHost: x\r\nx-nylas-signature: %s\r\ncontent-encoding: gzip\r\nAuthorization: b\r\nContent-Length: %d\r\n\r\n%s", signature, len(gz), gz)
	file := filepath.Join(t.TempDir(), "request.http")
	if err := os.WriteFile(file, []byte(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	made := c.json("import", file, "--provider", "nylas", "--out", out)["captures"].([]any)[0].(map[string]any)
	list, err := capture.LoadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	if made["sha256"] != list[0].Body.SHA256 || !bytes.Equal(list[0].Content, gz) || list[0].Body.File != "body.gz" || list[0].Target != "/webhooks/nylas/sources/"+capture.SourceMark || !list[0].HeadersExact ||
		!cmp.Equal(list[0].Headers, []capture.Header{{"content-encoding", "gzip"}}) {
		t.Errorf("%v %+v", made, list[0])
	}
	if got := c.run("replay", out, "--target", r.url); got.status != exitOK {
		t.Errorf("%s%s", got.stdout, got.err)
	}
	r.wantCount(1, `SELECT count(*) FROM agent.webhook_deliveries WHERE body = $1 AND content_encoding = 'gzip'`, gz)

	private := filepath.Join(t.TempDir(), "private")
	if got := c.run("import", file, "--provider", "nylas", "--out", private, "--keep-signature"); got.status != exitOK {
		t.Fatal(got.err)
	}
	c.run("replay", private, "--target", r.url).wants(t, exitUsage, "for gateway doctor")
	if kept, err := capture.LoadAll(private); err != nil || kept[0].Value("X-Nylas-Signature") != signature || kept[0].Value("Authorization") != "" {
		t.Errorf("%+v %v", kept, err)
	}
}

func TestImportHAR(t *testing.T) {
	t.Parallel()
	r, c := sender(t)
	slackTown(r)
	var entries []string
	for n := range 3 {
		entries = append(entries, fmt.Sprintf(`{"startedDateTime":"2026-03-01T12:00:0%d.000Z","request":{"method":"POST","url":"https://h.example.com/slack/hook","headers":[{"name":"Content-Type","value":"application/json"}],"postData":{"text":%q}}}`,
			n, slackEvent("T1", fmt.Sprint("EvHAR", n), "hi")))
	}
	out := filepath.Join(t.TempDir(), "out")
	got := c.with(`{"log":{"entries":[`+strings.Join(entries, ",")+`]}}`, "import", "-", "--provider", "slack", "--source", "main", "--out", out)
	if got.status != exitOK || strings.Count(got.stdout, "slack-message-00") != 3 {
		t.Fatalf("%s%s", got.stdout, got.err)
	}
	if got := c.run("replay", out, "--target", r.url); got.status != exitOK {
		t.Errorf("%s%s", got.stdout, got.err)
	}
	r.wantCount(3, `SELECT count(*) FROM agent.webhook_deliveries WHERE delivery_key LIKE '%/EvHAR_'`)
}

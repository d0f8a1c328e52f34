package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"webhook-gateway/internal/capture"
)

// pipe makes a FIFO that nothing is ever written to.
func pipe(t *testing.T, path string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// ends runs a command that must come to an end by itself.
func ends(t *testing.T, args ...string) result {
	t.Helper()
	ended := make(chan result, 1)
	go func() { ended <- callContext(t.Context(), strings.NewReader("abc"), args...) }()
	select {
	case r := <-ended:
		return r
	case <-time.After(time.Minute):
		t.Fatalf("%q hangs", args)
		return result{}
	}
}

func TestPipeRefused(t *testing.T) {
	t.Parallel()
	described := pipe(t, filepath.Join(t.TempDir(), "c", capture.File))
	body := copied(t, testdata+"/slack/message-im", func(text string) string { return text })
	if err := os.Remove(filepath.Join(body, "body.json")); err != nil {
		t.Fatal(err)
	}
	pipe(t, filepath.Join(body, "body.json"))
	file := pipe(t, filepath.Join(t.TempDir(), "pipe.yaml"))
	env, key := pipe(t, filepath.Join(t.TempDir(), "env")), pipe(t, filepath.Join(t.TempDir(), "secrets-key"))
	good, vector, target := testdata+"/slack/message-im", testdata+"/vectors/slack/slack-go", "--target=http://127.0.0.1:1"
	for _, tt := range []struct {
		args []string
		at   string
	}{
		{[]string{"config", "check", "--config", file}, file},
		{[]string{"replay", filepath.Dir(described), target}, described},
		{[]string{"replay", filepath.Dir(filepath.Dir(described)), target}, described},
		{[]string{"replay", body, target}, body + "/body.json"},
		{[]string{"replay", file, target}, file},
		{[]string{"replay", good, target, "--secrets", file}, file},
		{[]string{"export", filepath.Dir(described), "--curl"}, described},
		{[]string{"import", file, "--provider", "slack", "--out", t.TempDir()}, file},
		{[]string{"doctor", file, "--provider", "slack", "--secret-stdin"}, file},
		{[]string{"doctor", filepath.Dir(described), "--provider", "slack", "--secret-stdin"}, described},
		{[]string{"doctor", vector, "--provider", "slack", "--secret-stdin", "--near", filepath.Dir(described)}, described},
		{[]string{"doctor", vector, "--provider", "slack", "--secrets", file}, file},
		{[]string{"sign", "--provider", "slack", "--source", "main", "--secrets", file}, file},
		{[]string{"send", "slack", "--dir", filepath.Dir(env)}, env},
		{[]string{"dev", "--json", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0", "--dir", filepath.Dir(key)}, key},
	} {
		r := ends(t, tt.args...)
		if r.status == exitOK || !strings.Contains(r.err, tt.at+" is not a regular file") {
			t.Errorf("%q: status %d, %s", tt.args, r.status, r.err)
		}
	}
}

func TestAStdinThatNeverEndsIsLeft(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"import", "-", "--provider", "slack", "--out", t.TempDir()},
		{"import", "-", "--provider", "slack", "--format", "har", "--out", t.TempDir()},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		stdin, held := io.Pipe()
		ended := make(chan result, 1)
		go func() { ended <- callContext(ctx, stdin, args...) }()
		if _, err := held.Write([]byte("{")); err != nil {
			t.Fatal(err)
		}
		cancel()
		if r := <-ended; r.status != exitFailed || !strings.Contains(r.err, context.Canceled.Error()) {
			t.Errorf("%q: status %d, %s", args, r.status, r.err)
		}
		_ = held.Close()
	}
}

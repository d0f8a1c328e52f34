package dev

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFolder(t *testing.T) {
	t.Parallel()
	d, err := MakeFolder(filepath.Join(t.TempDir(), "it's here"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := d.key()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := d.key(); err != nil || again != key {
		t.Errorf("the second read gives another key, %v", err)
	}
	if other, err := MakeFolder(t.TempDir()); err != nil {
		t.Error(err)
	} else if otherKey, err := other.key(); err != nil || otherKey == key {
		t.Errorf("two directories have one key, %v", err)
	}
	env := Env{DatabaseURL: "postgres://u:p@h/d?sslmode=disable", SecretsKey: key, StateDir: "/state", Listen: "[::]:8080", AdminListen: "127.0.0.1:8081"}
	if err := d.WriteEnv(env); err != nil {
		t.Fatal(err)
	}
	if got, err := d.Env(); err != nil || got != env {
		t.Errorf("got %+v, want %+v, %v", got, env, err)
	}
	for _, file := range []string{d.keyFile(), d.EnvFile()} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v", file, info.Mode(), err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(string(d), ".gitignore")); err != nil || string(got) != "*\n" {
		t.Errorf(".gitignore %q, %v", got, err)
	}
	if err := os.WriteFile(d.keyFile(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.key(); err == nil || !strings.Contains(err.Error(), d.keyFile()) {
		t.Errorf("an empty key file: %v", err)
	}
}

package capture

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProblemsAreToldUpToABound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := "format: " + Format + "\nprovider: slack\nmethod: POST\nexpect: {once: {status: 200}, stored: [" + strings.Repeat("{},", 1000) + "{}]}\n"
	if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("stranger", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := LoadAll(dir)
	if err == nil || strings.Count(err.Error(), "\n") > 60 || !strings.Contains(err.Error(), "and 80 more") || !strings.Contains(err.Error(), "more") {
		t.Errorf("%v", err)
	}
}

func TestLoadLimit(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*loader{"count": {captures: maxCaptures}, "bytes": {bytes: maxCaptureBytes}} {
		dir := written(t, sample())
		if _, err := l.load(dir); !errors.Is(err, errTooMany) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Load(dir); err != nil {
			t.Errorf("%s: alone: %v", name, err)
		}
	}
}

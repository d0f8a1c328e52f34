package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"

	"webhook-gateway/internal/safetext"
)

// goRun matches the folders where go run puts its builds: a temporary folder, or Go's build cache.
var goRun = regexp.MustCompile(`/go-build[0-9]*/|/[0-9a-f]{64}-d/[^/]+$`)

// invocation returns the command with which a person at this shell starts this program again.
func invocation() string {
	self, err := os.Executable()
	if err != nil {
		return "gateway"
	}
	return invocationOf(self, os.Args[0])
}

func invocationOf(executable, typed string) string {
	if goRun.MatchString(executable) {
		if info, err := os.Stat(filepath.Join("cmd", "gateway", "main.go")); err == nil && info.Mode().IsRegular() {
			return "go run ./cmd/gateway"
		}
		if b, ok := debug.ReadBuildInfo(); ok {
			return "go run " + b.Path
		}
	}
	if strings.ContainsRune(typed, filepath.Separator) {
		return safetext.Shell(typed)
	}
	if found, err := exec.LookPath(typed); err == nil && found != "" {
		return safetext.Shell(typed)
	}
	return safetext.Shell(executable)
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// goRun matches where go run leaves what it builds: a temporary folder, or Go's build cache.
var goRun = regexp.MustCompile(`/go-build[0-9]*/|/[0-9a-f]{64}-d/[^/]+$`)

// plainWord matches what a shell takes as it is.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+,=-]+$`)

// invocation is how a person at this shell starts this program again.
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
		return quote(typed)
	}
	if found, err := exec.LookPath(typed); err == nil && found != "" {
		return quote(typed)
	}
	return quote(executable)
}

// quote writes a word so that a shell reads it as one.
func quote(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// unquote reads what quote has written.
func unquote(word string) string {
	if len(word) < 2 || word[0] != '\'' {
		return word
	}
	return strings.ReplaceAll(word[1:len(word)-1], `'\''`, "'")
}

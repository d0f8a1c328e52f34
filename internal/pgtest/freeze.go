package pgtest

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Freeze stops every process of the running server, like a machine that swaps or whose disk hangs: connections stay
// open, the kernel accepts new ones, and no query is answered. thaw lets the server go on.
func (s *Server) Freeze() (thaw func()) {
	server := Postmaster(s.t, s.DataDir())
	all := []int{server}
	_ = syscall.Kill(server, syscall.SIGSTOP) // first, so that it stops forking
	for !stopped(server) {
	}
	// The kernel may leave out a process while another one ends: repeat until there is no new one.
	for news := true; news; {
		news = false
		for _, pid := range children(server) {
			if !slices.Contains(all, pid) {
				_ = syscall.Kill(pid, syscall.SIGSTOP) // one that has ended needs no stopping
				all, news = append(all, pid), true
			}
		}
	}
	return func() {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// Postmaster returns the process id of the server on a data folder.
func Postmaster(t T, dataDir string) int {
	t.Helper()
	text, _ := os.ReadFile(filepath.Join(dataDir, "postmaster.pid")) // its first line is the process
	pids := numbers(string(text))
	if len(pids) == 0 {
		t.Fatalf("find the server of %s: it does not run", dataDir)
	}
	return pids[0]
}

// numbers reads the numbers in a text.
func numbers(text string) []int {
	var list []int
	for _, field := range strings.Fields(text) {
		if n, err := strconv.Atoi(field); err == nil {
			list = append(list, n)
		}
	}
	return list
}

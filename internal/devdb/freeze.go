package devdb

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Freeze makes the running server stand still, as a machine does that swaps or whose disk hangs: connections are
// open, new ones are taken by the kernel, and none is answered. Thaw lets it go on.
func (s *Server) Freeze() (thaw func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.proc.cmd.Process.Pid
	all := []int{server}
	_ = syscall.Kill(server, syscall.SIGSTOP) // first, so that it forks no more
	for !standsStill(server) {
	}
	// The kernel may leave out a process while another one ends: look until there is none that is new.
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

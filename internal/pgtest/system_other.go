//go:build unix && !linux

package pgtest

import (
	"os/exec"
	"strconv"
	"strings"
)

// roomInMemory is only implemented for Linux.
func roomInMemory() bool { return false }

// children lists the processes that a process has started.
func children(pid int) []int {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output() // it fails when there are none
	return numbers(string(out))
}

// stopped reports whether a process is stopped or has ended.
func stopped(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(string(out), "T")
}

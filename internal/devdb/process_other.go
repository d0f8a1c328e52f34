//go:build unix && !linux

package devdb

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing where the kernel has no such signal: there the next start on the same
// directory stops the server that a killed run has left.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// serves reports whether the process is a PostgreSQL server of this data directory: it was started with it.
func serves(pid int, data string) bool {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "-D "+data)
}

// roomInMemory is only known of Linux.
func roomInMemory() bool { return false }

// children lists the processes that a process has started.
func children(pid int) []int {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output() // it fails when there are none
	return numbers(string(out))
}

// standsStill reports whether a process was stopped, or has ended.
func standsStill(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err != nil || strings.HasPrefix(string(out), "T")
}

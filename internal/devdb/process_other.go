//go:build unix && !linux

package devdb

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: the kernel has no such signal. The next start on the same folder stops a server that a
// killed run has left.
func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// serves reports whether the process is a PostgreSQL server on this data folder, by its arguments.
func serves(pid int, data string) bool {
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "-D "+data)
}

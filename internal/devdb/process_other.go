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

package devdb

import (
	"os"
	"strconv"
	"syscall"
)

func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// serves reports whether the process is a PostgreSQL server on this data folder: a server works in its data folder.
func serves(pid int, data string) bool {
	cwd, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return false
	}
	dir, err := os.Stat(data)
	return err == nil && os.SameFile(cwd, dir)
}

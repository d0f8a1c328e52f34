package devdb

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// serves reports whether the process is a PostgreSQL server of this data directory: it works in it.
func serves(pid int, data string) bool {
	cwd, err := os.Stat("/proc/" + strconv.Itoa(pid) + "/cwd")
	if err != nil {
		return false
	}
	dir, err := os.Stat(data)
	return err == nil && os.SameFile(cwd, dir)
}

// roomInMemory reports whether test servers can lie in memory: some dozen databases of 8 MB each.
// Containers often have 64 MB there.
func roomInMemory() bool {
	const enough = 2 << 30
	var st syscall.Statfs_t
	const tmpfs = 0x01021994
	return syscall.Statfs(memory, &st) == nil && int64(st.Type) == tmpfs && st.Bavail*uint64(st.Bsize) >= enough
}

// children lists the processes that a process has started.
func children(pid int) []int {
	id := strconv.Itoa(pid)
	text, _ := os.ReadFile("/proc/" + id + "/task/" + id + "/children") // a process that is gone has none
	return numbers(string(text))
}

// standsStill reports whether a process was stopped, or has ended.
func standsStill(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(text), ") ") // behind the program's name
	return err != nil || strings.HasPrefix(state, "T")
}

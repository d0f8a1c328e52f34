package pgtest

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// roomInMemory reports whether test servers fit into memory: some dozen databases of 8 MB each. Containers often have
// only 64 MB.
func roomInMemory() bool {
	const enough = 2 << 30
	var st syscall.Statfs_t
	const tmpfs = 0x01021994
	return syscall.Statfs(memory, &st) == nil && int64(st.Type) == tmpfs && st.Bavail*uint64(st.Bsize) >= enough
}

// children lists the processes that a process has started.
func children(pid int) []int {
	id := strconv.Itoa(pid)
	text, _ := os.ReadFile("/proc/" + id + "/task/" + id + "/children") // a process that has ended has none
	return numbers(string(text))
}

// stopped reports whether a process is stopped or has ended.
func stopped(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(text), ") ") // after the program's name
	return err != nil || strings.HasPrefix(state, "T")
}

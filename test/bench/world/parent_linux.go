package world

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel kill the process when we end without having stopped it, and keeps Ctrl-C in a
// terminal from reaching it before us.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

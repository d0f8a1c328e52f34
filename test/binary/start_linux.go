package binary

import (
	"os/exec"
	"runtime"
	"syscall"
)

// Start starts a child that the kernel kills when this process ends, for whatever reason. A Ctrl-C in a terminal
// reaches only this process.
func Start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	go func() {
		// To the kernel the parent is the thread that forked: it must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil { // wait for its end, but let the caller reap it
			const byPID, exited, noReap = 1, 4, 0x1000000
			_, _, _ = syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(cmd.Process.Pid), 0, exited|noReap, 0, 0)
		}
	}()
	return <-started
}

package watch

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts a child that the kernel kills when we end, however that is.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// The kernel takes the thread that forked for the parent, so it must live as long as we do: locked
		// to a goroutine that never ends.
		runtime.LockOSThread()
		started <- cmd.Start()
		select {}
	}()
	return <-started
}

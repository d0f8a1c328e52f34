package devdb

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is a running program that does not outlive us.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended and was waited for
	err  error         // how it ended; read it after done
}

// spawn starts the command in its own process group: Ctrl-C in a terminal then reaches only us, and we decide the
// order in which processes end. If we die first, the kernel sends it the signal orphaned (Linux only).
func spawn(cmd *exec.Cmd, orphaned syscall.Signal) (*process, error) {
	cmd.SysProcAttr.Setpgid = true
	dieWithParent(cmd.SysProcAttr, orphaned)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// To the kernel the parent is the thread that forked: it must live as long as the child.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.done
		return nil, err
	}
	return p, nil
}

func (p *process) signal(sig os.Signal) {
	_ = p.cmd.Process.Signal(sig) // the only error is that it has ended, and then done says so
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait reports whether the process has ended in time.
func (p *process) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

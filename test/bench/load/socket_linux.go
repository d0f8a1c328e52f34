package load

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"
)

func (s *sender) write(c *conn) {
	for len(c.out) > 0 {
		n, errno := rawWrite(c.fd, c.out)
		switch {
		case errno == syscall.EAGAIN:
			s.watch(c, syscall.EPOLLIN|syscall.EPOLLOUT)
			return
		case errno != 0:
			s.broken(c)
			return
		}
		c.out = c.out[n:]
	}
	if c.polling {
		s.watch(c, syscall.EPOLLIN)
	}
}

func (s *sender) watch(c *conn, events uint32) {
	c.polling = events&syscall.EPOLLOUT != 0
	_ = syscall.EpollCtl(s.epoll, syscall.EPOLL_CTL_MOD, c.fd, &syscall.EpollEvent{Events: events, Fd: int32(c.fd)})
}

// poll serves what is ready, and waits for it that long at most.
func (s *sender) poll(wait time.Duration) error {
	n, errno := epollWait(s.epoll, s.events, wait)
	if errno != 0 && errno != syscall.EINTR {
		return fmt.Errorf("wait for answers: %w", errno)
	}
	for _, e := range s.events[:n] {
		c := s.conns[e.Fd]
		if c == nil {
			continue
		}
		if e.Events&syscall.EPOLLOUT != 0 {
			s.write(c)
		}
		if e.Events&(syscall.EPOLLIN|syscall.EPOLLHUP|syscall.EPOLLERR) != 0 {
			s.read(c)
		}
	}
	return nil
}

func (s *sender) read(c *conn) {
	n, errno := rawRead(c.fd, s.in)
	switch {
	case errno == syscall.EAGAIN:
		return
	case errno != 0 || n == 0:
		s.broken(c)
		return
	}
	answer := s.in[:n]
	if len(c.answer) > 0 {
		c.answer = append(c.answer, answer...)
		answer = c.answer
	}
	status, whole := readAnswer(answer)
	if !whole {
		if len(c.answer) == 0 {
			c.answer = append(c.answer, answer...)
		}
		return
	}
	c.answer = c.answer[:0]
	s.answered(c, status)
}

// broken connects anew. What was under way has no answer.
func (s *sender) broken(c *conn) {
	if c.busy {
		s.result.Broken++
		s.flying--
		c.busy = false
	}
	_ = syscall.Close(c.fd)
	s.conns[c.fd] = nil
	c.out, c.answer = nil, c.answer[:0]
	if s.connect(c) == nil {
		s.free = append(s.free, c)
	}
}

func (s *sender) connect(c *conn) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.Connect(fd, &c.to)
	}
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err == nil {
		err = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	}
	if err == nil {
		err = syscall.EpollCtl(s.epoll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)})
	}
	if err != nil {
		return fmt.Errorf("connect to the gateway: %w", err)
	}
	for len(s.conns) <= fd {
		s.conns = append(s.conns, nil)
	}
	c.fd, c.polling = fd, false
	s.conns[fd] = c
	return nil
}

func sockaddr(address string) (syscall.SockaddrInet4, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Is4() || !at.Addr().IsLoopback() {
		return syscall.SockaddrInet4{}, fmt.Errorf("send to %q: only an IPv4 address of this machine's loopback will do", address)
	}
	return syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}, nil
}

func rawWrite(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}

func rawRead(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), errno
}

// epollPwait2 waits as epoll_pwait does, to the nanosecond instead of the millisecond (Linux 5.11).
const epollPwait2 = 441

func epollWait(epoll int, events []syscall.EpollEvent, wait time.Duration) (int, syscall.Errno) {
	limit := syscall.NsecToTimespec(int64(wait))
	n, _, errno := syscall.Syscall6(epollPwait2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(&limit)), 0, 0)
	if errno != 0 {
		n = 0
	}
	return int(n), errno
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

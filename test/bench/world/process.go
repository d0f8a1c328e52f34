package world

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"webhook-gateway/test/bench/ceiling"
	"webhook-gateway/test/bench/load"
	"webhook-gateway/test/bench/straightforward"
	"webhook-gateway/test/binary"
)

// Process is a program that runs beside this one.
type Process struct {
	Address string // where it receives
	Admin   string // a gateway's admin listener
	cmd     *exec.Cmd
	out     io.Reader
	done    chan struct{} // closed when it has ended and was waited for
}

// start runs a program that is killed when we end. Its standard error goes to a file.
func (w *World) start(ctx context.Context, name string, cmd *exec.Cmd) (*Process, error) {
	log, err := os.Create(filepath.Join(w.Dir, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("make the log of %s: %w", name, err)
	}
	defer log.Close()
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, out: out, done: make(chan struct{})}
	if err := binary.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		_, _ = cmd.Process.Wait() // not cmd.Wait: the pipe is still read
	}()
	w.procs = append(w.procs, p)
	context.AfterFunc(ctx, p.Stop)
	return p, nil
}

// Stop ends the process if it runs, and waits for it.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(os.Interrupt) // the only error is that it has ended
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Gateway starts the built gateway with its defaults on a database.
func (w *World) Gateway(ctx context.Context, name string, d *Database) (*Process, error) {
	return w.gateway(ctx, exec.Command(w.Options.Gateway, "serve"), name, d)
}

// Beside starts another gateway's binary with other settings.
func (w *World) Beside(ctx context.Context, path string, env []string, d *Database) (*Process, error) {
	cmd := exec.Command(path, "serve")
	cmd.Env = env
	return w.gateway(ctx, cmd, "gateway-beside", d)
}

func (w *World) gateway(ctx context.Context, cmd *exec.Cmd, name string, d *Database) (*Process, error) {
	address, err := binary.FreeAddress()
	if err != nil {
		return nil, err
	}
	admin, err := binary.FreeAddress()
	if err != nil {
		return nil, err
	}
	if cmd.Env == nil {
		cmd.Env = w.Env
	}
	cmd.Env = append([]string{
		"DATABASE_URL=" + d.URL, "GATEWAY_SECRETS_KEY=" + w.SecretsKey,
		"GATEWAY_STATE_DIR=" + filepath.Join(w.Dir, name+"-state"),
		"GATEWAY_LISTEN=" + address, "GATEWAY_ADMIN_LISTEN=" + admin, "GATEWAY_PPROF=true",
	}, cmd.Env...)
	return w.serve(ctx, name, cmd, address, admin)
}

// Straightforward starts the server that the gateway is compared with.
func (w *World) Straightforward(ctx context.Context, d *Database, connections int) (*Process, error) {
	address, err := binary.FreeAddress()
	if err != nil {
		return nil, err
	}
	cmd, err := role("straightforward", straightforward.Spec{
		DatabaseURL: d.URL, Listen: address, Connections: int32(connections), Secret: w.Secret, Tenants: d.Tenants,
	})
	if err != nil {
		return nil, err
	}
	return w.serve(ctx, "straightforward", cmd, address, "")
}

// Immediate starts the gateway's HTTP side alone.
func (w *World) Immediate(ctx context.Context, d *Database) (*Process, error) {
	address, err := binary.FreeAddress()
	if err != nil {
		return nil, err
	}
	cmd, err := role("immediate", ceiling.Spec{DatabaseURL: d.URL, SecretsKey: w.SecretsKey, Listen: address})
	if err != nil {
		return nil, err
	}
	return w.serve(ctx, "immediate", cmd, address, "")
}

// serve starts a program that receives, and waits until it does.
func (w *World) serve(ctx context.Context, name string, cmd *exec.Cmd, address, admin string) (*Process, error) {
	p, err := w.start(ctx, name, cmd)
	if err != nil {
		return nil, err
	}
	p.Address, p.Admin = address, admin
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if conn, err := net.Dial("tcp", p.Address); err == nil {
			return p, conn.Close()
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("%s has ended: %s", name, w.lastLine(name))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func (w *World) lastLine(name string) string {
	text, err := os.ReadFile(filepath.Join(w.Dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// role returns a command that runs another part of this program, with spec on its standard input.
func role(name string, spec any) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, name)
	cmd.Stdin = bytes.NewReader(text)
	return cmd, nil
}

// Run runs a measuring part of this program, load or settle. It calls begun when the part has prepared and begins.
func (w *World) Run(ctx context.Context, part string, spec any, begun func()) (*load.Result, error) {
	cmd, err := role(part, spec)
	if err != nil {
		return nil, err
	}
	p, err := w.start(ctx, part, cmd)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReader(p.out)
	if _, err := lines.ReadString('\n'); err != nil {
		<-p.done
		return nil, fmt.Errorf("%s has ended: %s", part, w.lastLine(part))
	}
	begun()
	var result load.Result
	err = json.NewDecoder(lines).Decode(&result)
	<-p.done
	w.forget(p)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s has ended: %s", part, w.lastLine(part)), context.Cause(ctx))
	}
	return &result, nil
}

func (w *World) forget(p *Process) {
	for i := range w.procs {
		if w.procs[i] == p {
			w.procs = append(w.procs[:i], w.procs[i+1:]...)
			return
		}
	}
}

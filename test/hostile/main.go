// Command hostile runs one attack after the other on a gateway, together with honest calls, and prints how the honest
// calls were answered and how much memory the gateway needed. It attacks only a gateway that it starts on 127.0.0.1,
// for a limited time. make hostile starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/migrations"
	"webhook-gateway/test/binary"
	"webhook-gateway/test/watch"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// options are the settings of a run.
type options struct {
	dir, gateway string
	only         string
	each         time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	f := flag.NewFlagSet("hostile", flag.ContinueOnError)
	f.StringVar(&o.gateway, "gateway", "bin/gateway", "the gateway's binary")
	f.StringVar(&o.dir, "dir", ".bench/hostile", "folder for PostgreSQL's data, which are removed at the end")
	f.StringVar(&o.only, "only", "", "run only the attacks whose name contains this; empty: all")
	f.DurationVar(&o.each, "each", 10*time.Second, "how long each attack lasts, a minute at most")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || o.each <= 0 || o.each > time.Minute {
		return errors.New("unknown arguments; see -help")
	}
	binary.ForgetSettings()
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return err
	}
	if o.gateway, err = filepath.Abs(o.gateway); err != nil {
		return err
	}
	server, err := devdb.Start(ctx, devdb.Options{Dir: filepath.Join(dir, "postgres"), Fsync: true, Settings: map[string]string{"max_wal_size": "4GB"}})
	if err != nil {
		return err
	}
	err = o.attackAll(ctx, server, dir, out)
	return errors.Join(err, server.Close(), os.RemoveAll(server.Dir()), os.RemoveAll(dir))
}

// attackAll starts a gateway for each attack, so that each shows its own memory.
func (o options) attackAll(ctx context.Context, server *devdb.Server, dir string, out io.Writer) error {
	fmt.Fprintln(out, header)
	chosen := slices.DeleteFunc(attacks(full), func(a attack) bool { return !strings.Contains(a.name, o.only) })
	for i, a := range chosen {
		url, err := server.Create(ctx, fmt.Sprintf("hostile_%d_%d", os.Getpid(), i))
		if err != nil {
			return err
		}
		if _, err := migrations.Up(ctx, url); err != nil {
			return err
		}
		g, err := watch.StartGateway(ctx, o.gateway, url, dir)
		if err != nil {
			return err
		}
		to, err := register(ctx, g)
		if err == nil {
			var r result
			r, err = a.beside(ctx, to, o.each)
			fmt.Fprintln(out, r)
		}
		if err := errors.Join(err, g.Stop(), ctx.Err()); err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// beside attacks while it sends honest calls: the attack begins first and ends last.
func (a attack) beside(ctx context.Context, to target, d time.Duration) (result, error) {
	send := a.send
	if a.tenant != nil {
		body, more := a.tenant()
		send = func(ctx context.Context, to target, seen *calls) { signed(ctx, to, seen, body, more) }
	}
	attacking, end := context.WithTimeout(ctx, 2*d+time.Minute)
	defer end()
	r := result{attack: a.name, honest: newHonest(to), hostile: &calls{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		send(attacking, to, r.hostile)
	}()
	wait(ctx, a.lead)
	honest, stop := context.WithTimeout(ctx, d)
	defer stop()
	r.honest.run(honest)
	end()
	<-done
	r.resident = to.resident()
	return r, ctx.Err()
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Command refunds makes one tool call, which survives kill -9. "refunds bank" runs a pretend bank to call.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"webhook-gateway/idempotency"
)

func main() {
	run := call
	if len(os.Args) > 1 && os.Args[1] == "bank" {
		run = runBank
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "refunds:", err)
		os.Exit(1)
	}
}

// call runs step 3 of job_17, as an orchestrator would.
func call(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	keys, err := idempotency.NewService(pool, idempotency.Options{})
	if err != nil {
		return err
	}
	t := tool{keys: keys, bank: bank{os.Getenv("BANK_URL")}, organization: uuid.MustParse("0192c1f0-0000-7000-8000-00000000000a")}
	result, err := t.refund(ctx, "job_17", 3, order{Payment: "pay_1", Cents: 1999})
	if after, ok := idempotency.Retryable(err); ok {
		return fmt.Errorf("retry in %s: %w", after.Round(time.Second), err)
	}
	if err != nil {
		return err
	}
	if result.Unrecorded != nil {
		return fmt.Errorf("%s is done, but not recorded: %w", result.Value.Refund, result.Unrecorded)
	}
	fmt.Printf("%s, replayed: %t\n", result.Value.Refund, result.Replayed)
	return nil
}

// runBank serves the pretend bank.
func runBank(context.Context) error {
	f := flag.NewFlagSet("bank", flag.ExitOnError)
	listen := f.String("listen", "127.0.0.1:8090", "host and port; port 0 takes a free one")
	slow := f.Duration("slow", 10*time.Second, "how long an answer takes once the refund is paid")
	_ = f.Parse(os.Args[2:]) // it exits
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Printf("the bank is at http://%s\n", l.Addr())
	b := &pretendBank{slow: *slow, log: os.Stdout, by: map[string]receipt{}}
	return http.Serve(l, b.handler())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
)

// replayFlags are those of gateway replay.
type replayFlags struct {
	target, secrets, dir string
	times, concurrency   int
	rate                 float64
	shuffle, yes, hurry  bool
	seed                 uint64
	timeout              time.Duration
	asJSON               bool
}

// What one replay may send. It repeats deliveries, and is no load generator.
const (
	maxReplayTimes       = 10_000
	maxReplayConcurrency = 256
)

func replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay PATH… --target URL",
		Short: "Send captured deliveries, signed anew, and check what comes of them",
		Long: `Sends every capture in and below the paths to a gateway, signed as the vendor would now, and checks what its
delivery.yaml expects: the answer, and what became of it where the database can be asked. A path may also be a
scenario (a YAML file), whose steps are sent at their offsets.

Captures name the source and the job that they need. Their paths and secrets come from the database that
DATABASE_URL and GATEWAY_SECRETS_KEY name, else from gateway dev in --dir; or from --secrets FILE, a YAML file
of mode 0600: a name, and its path and secret. A missing one is told before anything is sent.

The exit status is 0 when everything came as expected, 5 when something did not, 4 when the target did not answer.`,
		Example: `  gateway replay test/replay/testdata/slack --target http://127.0.0.1:8080
  gateway replay ./captures --target http://127.0.0.1:8080 --times 20 --concurrency 20 --json
  gateway replay test/replay/testdata/scenarios/slack-retries.yaml --target http://127.0.0.1:8080 --hurry`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("which captures? give their folder: gateway replay ./captures --target http://127.0.0.1:8080")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	cmd.Flags().StringVar(&f.target, "target", "", "where the gateway is, like http://127.0.0.1:8080")
	cmd.Flags().IntVar(&f.times, "times", 1, "send each capture this often")
	cmd.Flags().IntVar(&f.concurrency, "concurrency", 1, "send from this many senders at once")
	cmd.Flags().Float64Var(&f.rate, "rate", 0, "begin at most this many sendings a second (0: as fast as answers come)")
	cmd.Flags().BoolVar(&f.shuffle, "shuffle", false, "send in a random order")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "the order of --shuffle: the same number, the same order (0: another each time)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 15*time.Second, "how long to wait for an answer")
	cmd.Flags().StringVar(&f.secrets, "secrets", "", "take paths and secrets from this YAML file (mode 0600), and not from the database")
	cmd.Flags().StringVar(&f.dir, "dir", devDirDefault, "the directory of the gateway dev to ask for ids and secrets, where DATABASE_URL is not set")
	cmd.Flags().BoolVar(&f.hurry, "hurry", false, "send the steps of a scenario in their order, without waiting for their offsets")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "send to a --target that is not this machine too: it stores rows there")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	base, err := f.validate(args)
	if err != nil {
		return err
	}
	acts, err := f.load(args)
	if err != nil {
		return usagef("%w", err)
	}
	from, err := f.ledger(cmd, acts)
	if err != nil {
		return err
	}
	defer from.close()
	r := newReplay(base, f, acts, from)
	if err := r.look(cmd.Context()); err != nil {
		return err
	}
	stop := r.progress(cmd.ErrOrStderr())
	r.send(cmd.Context())
	stop()
	if err := r.judge(context.WithoutCancel(cmd.Context())); err != nil {
		return err
	}
	if err := r.print(cmd, f.asJSON); err != nil {
		return err
	}
	if cmd.Context().Err() != nil {
		return context.Cause(cmd.Context())
	}
	return r.verdict()
}

// validate checks the flags, and returns the target's address without a path.
func (f *replayFlags) validate(args []string) (string, error) {
	switch {
	case f.times < 1 || f.times > maxReplayTimes:
		return "", usagef("--times %d: give 1 to %d", f.times, maxReplayTimes)
	case f.concurrency < 1 || f.concurrency > maxReplayConcurrency:
		return "", usagef("--concurrency %d: give 1 to %d", f.concurrency, maxReplayConcurrency)
	case f.rate < 0:
		return "", usagef("--rate %g: give more than 0, or leave it out", f.rate)
	case f.timeout <= 0:
		return "", usagef("--timeout %s: give a duration like 15s", f.timeout)
	case f.target == "":
		return "", usagef("--target is missing: the gateway's address, like http://127.0.0.1:8080")
	}
	for _, path := range args {
		if isScenario(path) && (f.times > 1 || f.concurrency > 1 || f.shuffle || f.rate > 0) {
			return "", usagef("%s is a scenario, which says itself what is sent when: leave out --times, --concurrency, --rate and --shuffle", path)
		}
	}
	return targetBase(f.target, f.yes)
}

// targetBase checks an address to send captures to.
func targetBase(target string, yes bool) (string, error) {
	u, err := url.Parse(target)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", usagef("--target %q: write the gateway's address without a path, like http://127.0.0.1:8080", target)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) && !yes {
		return "", usagef("--target %s is not this machine, and deliveries would be stored there; add --yes if that is meant", u.Host)
	}
	return u.Scheme + "://" + u.Host, nil
}

func isScenario(path string) bool {
	return strings.HasSuffix(path, ".yaml") && !strings.HasSuffix(path, capture.File)
}

// load reads what the paths name.
func (f *replayFlags) load(paths []string) ([]*act, error) {
	var acts []*act
	var folders []string
	var errs []error
	for _, path := range paths {
		if !isScenario(path) {
			folders = append(folders, strings.TrimSuffix(path, "/"+capture.File))
			continue
		}
		s, err := capture.LoadScenario(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for i := range s.Steps {
			step := &s.Steps[i]
			acts = append(acts, &act{
				name: fmt.Sprintf("%s, step %d", s.Name, i+1), capture: step.Capture, alter: step.Alter,
				want: step.Expect, times: step.Times, step: step,
			})
		}
	}
	if len(folders) > 0 {
		list, err := capture.LoadAll(folders...)
		if err != nil {
			errs = append(errs, err)
		}
		for _, c := range list {
			acts = append(acts, &act{name: c.Name, capture: c, want: c.Expect.After(f.times), times: f.times})
		}
	}
	for _, a := range acts {
		switch a.capture.Sign.Mode {
		case capture.Kept:
			errs = append(errs, fmt.Errorf("%s: %w", a.name, capture.ErrNotReplayed))
		case capture.Recorded:
			errs = append(errs, fmt.Errorf("%s: its signature is a recorded one, which is good at the time it was made alone; go test replays it in process", a.name))
		}
	}
	return acts, errors.Join(errs...)
}

// sender returns a client that calls as a vendor does: no proxy, no redirect followed.
func (f *replayFlags) sender() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: maxReplayConcurrency, DisableCompression: true},
		Timeout:       f.timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

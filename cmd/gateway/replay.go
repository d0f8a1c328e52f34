package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/replay"
	"webhook-gateway/internal/send"
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

// The limits of one replay. It repeats deliveries; it is not a load generator.
const (
	maxReplayTimes       = 10_000
	maxReplayConcurrency = 256
)

func replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay PATH… --target URL",
		Short: "Send captured deliveries, freshly signed, and check their outcomes",
		Long: `Sends every capture in and below the paths to a gateway, signed as the vendor would now, and checks what its
delivery.yaml expects: the answer, and, with a database, the outcome. A path may also be a scenario (a YAML file),
whose steps are sent at their offsets.

Captures name the source and the job that they need. Their paths and secrets come from the database that
DATABASE_URL and GATEWAY_SECRETS_KEY name, else from gateway dev in --dir; or from --secrets FILE, a YAML file
of mode 0600 with a path and a secret for each name. A missing one is reported before anything is sent.

The exit status is 0 if every outcome was as expected, 5 if one was not, 4 if the target did not answer.`,
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
	cmd.Flags().IntVar(&f.times, "times", 1, "number of times to send each capture")
	cmd.Flags().IntVar(&f.concurrency, "concurrency", 1, "number of concurrent senders")
	cmd.Flags().Float64Var(&f.rate, "rate", 0, "maximum number of requests started per second (0: as fast as answers come)")
	cmd.Flags().BoolVar(&f.shuffle, "shuffle", false, "send in a random order")
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "seed of --shuffle: the same number gives the same order (0: another each time)")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 15*time.Second, "how long to wait for an answer")
	cmd.Flags().StringVar(&f.secrets, "secrets", "", "take paths and secrets from this YAML file (mode 0600) instead of the database")
	cmd.Flags().StringVar(&f.dir, "dir", devDirDefault, "the directory of the gateway dev to read ids and secrets from, if DATABASE_URL is not set")
	cmd.Flags().BoolVar(&f.hurry, "hurry", false, "send the steps of a scenario in order, without waiting for their offsets")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "allow a --target on another machine: it stores rows there")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	base, err := f.validate(args)
	if err != nil {
		return err
	}
	cases, err := replay.Load(args, f.times)
	if err != nil {
		return usagef("%w", err)
	}
	if f.shuffle && f.seed == 0 {
		f.seed = rand.Uint64N(1_000_000) + 1
	}
	o := replay.Options{
		Base: base, Vendors: vendorsByName(), Hurry: f.hurry, Timeout: f.timeout,
		Plan: capture.Plan{Times: f.times, Concurrency: f.concurrency, Rate: f.rate, Shuffle: f.shuffle, Seed: f.seed},
	}
	for _, c := range cases {
		if o.Vendors[c.Capture.Provider] == nil {
			return usagef("capture %s is of %q, which this build does not have", c.Name, c.Capture.Provider)
		}
	}
	closePool, err := f.find(cmd, cases, &o)
	if err != nil {
		return err
	}
	defer closePool()
	r := replay.New(o, cases)
	stop := showProgress(cmd.ErrOrStderr(), r)
	err = r.Run(cmd.Context())
	stop()
	if err != nil {
		return err
	}
	if err := f.print(cmd, base, cases, o.Database != nil); err != nil {
		return err
	}
	if cmd.Context().Err() != nil {
		return context.Cause(cmd.Context())
	}
	return replayVerdict(base, cases)
}

// find finds the sources and jobs that the cases name: in a file of secrets, or in a database, which then also tells the
// outcomes. Nothing is sent when one of them is missing.
func (f *replayFlags) find(cmd *cobra.Command, cases []*replay.Case, o *replay.Options) (closePool func(), err error) {
	list := replay.Captures(cases)
	if f.secrets != "" {
		o.Places, err = findInFile(f.secrets, list)
		return func() {}, err
	}
	pool, reg, err := openRegistry(cmd, f.dir)
	if err != nil {
		return nil, err
	}
	places, found, err := reg.Find(list)
	if err != nil {
		pg.Close(pool)
		return nil, gateway.SettingError{Err: err}
	}
	o.Places = places
	if o.Database, err = replay.NewDatabase(pool, reg, found, o.Vendors); err != nil {
		pg.Close(pool)
		return nil, err
	}
	return func() { pg.Close(pool) }, nil
}

// replayVerdict is an error unless everything came as expected.
func replayVerdict(base string, cases []*replay.Case) error {
	failed, unanswered, sent := 0, 0, 0
	for _, c := range cases {
		if len(c.Problems) > 0 {
			failed++
		}
		unanswered += c.Failed
		sent += c.Sent()
	}
	switch {
	case failed == 0:
		return nil
	case unanswered > 0 && unanswered == sent:
		return fmt.Errorf("%w at %s", send.ErrNoAnswer, base)
	default:
		return mismatchError{fmt.Errorf("%d of %d outcomes were not as expected", failed, len(cases))}
	}
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
		if replay.IsScenario(path) && (f.times > 1 || f.concurrency > 1 || f.shuffle || f.rate > 0) {
			return "", usagef("%s is a scenario, which has its own schedule: leave out --times, --concurrency, --rate and --shuffle", path)
		}
	}
	return targetBase(f.target, f.yes)
}

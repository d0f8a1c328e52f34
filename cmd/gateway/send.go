package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/internal/dev"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/registry"
	"webhook-gateway/internal/samples"
	"webhook-gateway/internal/send"
	"webhook-gateway/providers"
)

// sendFlags are those of gateway send.
type sendFlags struct {
	dir, target, source, job string
	times                    int
	yes, asJSON              bool
}

// maxTimes bounds --times: it shows what a duplicate is; it is not a load generator.
const maxTimes = 1000

func sendCommand() *cobra.Command {
	var f sendFlags
	cmd := &cobra.Command{
		Use:   "send VENDOR [TYPE]",
		Short: "Send a signed sample as a vendor would, and show the answer and what was stored",
		Long:  sendLong(),
		Example: `  gateway send slack
  gateway send slack slash_command
  gateway send nylas message.updated --times 3
  gateway send nylas booking.created            # names no tenant: see what a drop looks like
  gateway send slack --source main --target http://127.0.0.1:9080`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usagef("give the vendor and optionally the type: gateway send slack, gateway send nylas grant.expired")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			vendor := vendorsByName()[args[0]]
			sampler, ok := vendor.(providers.Sampler)
			if !ok {
				return usagef("unknown provider %q (known: %s)", args[0], strings.Join(wiredNames(), " and "))
			}
			kind, err := sampler.Samples().Find(strings.Join(args[1:], ""))
			if err != nil {
				return usagef("unknown %s %w", vendor.Name(), err)
			}
			return f.run(cmd, vendor, kind)
		},
	}
	cmd.Flags().StringVar(&f.dir, "dir", devDirDefault, "the directory of the gateway dev to send to; read unless --source or --job come with DATABASE_URL")
	cmd.Flags().StringVar(&f.source, "source", "", "send to this source's URL, signed with its secret (default: the sample source of gateway dev)")
	cmd.Flags().StringVar(&f.job, "job", "", "send to the URL of the job of this id, signed with its secret or its source's")
	cmd.Flags().StringVar(&f.target, "target", "", "where the gateway is, like http://127.0.0.1:8080 (default: the one of gateway dev, else GATEWAY_LISTEN on this machine)")
	cmd.Flags().IntVar(&f.times, "times", 1, "number of times to send the same delivery, as a vendor repeats it: one row, the others are duplicates")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "allow a --target on another machine: it stores sample rows there")
	addJSONFlag(cmd, &f.asJSON)
	return cmd
}

func sendLong() string {
	var b strings.Builder
	b.WriteString("Signs a sample with the secret in the database, sends it, and reads the outcome from the database.\n" +
		"The exit status is 0 if every answer was 200 and every delivery that should be stored is stored.\n")
	for _, v := range vendors() {
		if sampler, ok := v.(providers.Sampler); ok {
			fmt.Fprintf(&b, "\n%s:\n", v.Name())
			for _, k := range sampler.Samples().Kinds {
				fmt.Fprintf(&b, "  %-26s %s\n", k.Name, k.About)
			}
		}
	}
	return b.String()
}

func (f *sendFlags) run(cmd *cobra.Command, vendor providers.Provider, kind samples.Kind) error {
	if f.times < 1 || f.times > maxTimes {
		return usagef("--times %d: give 1 to %d", f.times, maxTimes)
	}
	if f.source != "" && f.job != "" {
		return usagef("--source and --job name two different URLs; give one of them")
	}
	ctx := cmd.Context()
	at, err := f.locate(cmd)
	if err != nil {
		return err
	}
	if f.target == "" {
		f.target = "http://" + configs.Dialable(at.Listen)
	}
	base, err := targetBase(f.target, f.yes)
	if err != nil {
		return err
	}
	pool, reg, err := at.open(ctx)
	if err != nil {
		return err
	}
	defer pg.Close(pool)
	holder, err := f.holder(reg, vendor.Name())
	if err != nil {
		return err
	}
	r := send.Request{Sample: kind.Make(holder.Identities), Vendor: vendor, URL: base + holder.Path, Secret: holder.Secret}
	if r.Query != nil {
		r.URL += "?" + r.Query.Encode()
	}
	result, err := send.Send(ctx, r, f.times)
	if err != nil {
		return err
	}
	if err := result.Look(ctx, pool, r); err != nil {
		return err
	}
	if err := printSent(cmd, r, kind.Name, result, f.asJSON); err != nil {
		return err
	}
	return result.Check(r)
}

// locate finds the gateway to send to. The settings name it only together with a source or a job: the sample source is
// one of gateway dev.
func (f *sendFlags) locate(cmd *cobra.Command) (located, error) {
	if f.source != "" || f.job != "" {
		return locate(cmd, f.dir)
	}
	return locateDev(f.dir, " with --source or --job")
}

// holder finds the source or job that is named, or the sample source.
func (f *sendFlags) holder(reg *registry.Registry, provider string) (registry.Target, error) {
	if f.job == "" {
		return reg.SourceTarget(provider, cmp.Or(f.source, dev.Source))
	}
	id, err := parseID("--job", f.job)
	if err != nil {
		return registry.Target{}, err
	}
	return reg.JobTarget(provider, id)
}

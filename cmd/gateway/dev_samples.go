package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/internal/devdb"
	"webhook-gateway/internal/pg"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// sampleSource is the name of each vendor's sample source.
const sampleSource = "dev"

// registration is what gateway dev has registered for one vendor.
type registration struct {
	Provider     string    `json:"provider"`
	Organization uuid.UUID `json:"organization_id"`
	SourcePath   string    `json:"source_path"`
	JobPaths     []string  `json:"job_paths"`
	Send         string    `json:"send"` // a command for a shell
}

// registerSamples makes sure that there is a sample organization with a source and its jobs per vendor.
// What an earlier run has made is used again; its secrets are random, and replaced if they do not open.
func registerSamples(ctx context.Context, url, key string) ([]registration, error) {
	keys, err := jobs.NewKeys(key)
	if err != nil {
		return nil, err
	}
	pool, err := connect(ctx, url, 1)
	if err != nil {
		return nil, fmt.Errorf("connect to the private PostgreSQL: %w", err)
	}
	defer pg.Close(pool)
	store := jobs.NewStore(pool, keys)
	lostKey := jobs.CheckKeys(ctx, pool, keys)
	if lostKey != nil && !errors.Is(lostKey, jobs.ErrKeys) {
		return nil, lostKey
	}
	organization, err := sampleOrganization(ctx, store)
	if err != nil {
		return nil, err
	}
	var made []registration
	for _, v := range samples() {
		r, err := registerVendor(ctx, store, v, organization, lostKey != nil)
		if err != nil {
			return nil, fmt.Errorf("register the %s samples: %w", v.provider, err)
		}
		made = append(made, r)
	}
	return made, nil
}

// sampleOrganization is the one of an earlier run, or a new one.
func sampleOrganization(ctx context.Context, store *jobs.Store) (uuid.UUID, error) {
	list, err := store.ListJobs(ctx, jobs.JobFilter{Source: sampleSource, Closed: true})
	if err != nil {
		return uuid.Nil, err
	}
	if len(list) > 0 {
		return list[len(list)-1].Organization, nil
	}
	return uuid.New(), nil
}

func registerVendor(ctx context.Context, store *jobs.Store, v vendorSamples, organization uuid.UUID, newSecret bool) (registration, error) {
	r := registration{Provider: v.provider, Organization: organization, SourcePath: providers.SourcePath(v.provider, sampleSource)}
	secret, err := jobs.NewSecret(randomText(32))
	if err != nil {
		return r, err
	}
	source, err := store.Source(ctx, v.provider, sampleSource)
	switch {
	case errors.Is(err, jobs.ErrNotFound):
		_, err = store.AddSource(ctx, jobs.NewSource{
			Provider: v.provider, Name: sampleSource, Pins: []jobs.Identity{v.application}, Secret: secret,
		})
	case err == nil && (newSecret || source.Secrets == 0):
		err = store.SetSecret(ctx, jobs.Verifier{Kind: jobs.BySource, ID: source.ID}, secret, true)
	}
	if err != nil {
		return r, err
	}
	for _, tenant := range v.tenants {
		j, err := sampleJob(ctx, store, v.provider, organization, tenant)
		if err != nil {
			return r, err
		}
		r.JobPaths = append(r.JobPaths, providers.JobPath(v.provider, j.ID))
	}
	return r, nil
}

func sampleJob(ctx context.Context, store *jobs.Store, provider string, organization uuid.UUID, tenant jobs.Identity) (jobs.StoredJob, error) {
	list, err := store.ListJobs(ctx, jobs.JobFilter{Provider: provider, Source: sampleSource, Pin: tenant})
	if err != nil {
		return jobs.StoredJob{}, err
	}
	if len(list) > 0 {
		return list[0], nil
	}
	return store.AddJob(ctx, jobs.NewJob{
		Provider: provider, Organization: organization, Source: sampleSource, Pins: []jobs.Identity{tenant},
	})
}

// tell prints where everything is and what to try next.
func (f *devFlags) tell(cmd *cobra.Command, dir devDir, env devEnv, server *devdb.Server, made []registration) error {
	again := invocation()
	inDir := ""
	if f.dir != devDirDefault {
		inDir = " --dir " + quote(string(dir))
	}
	public, admin := "http://"+dialable(env.listen), "http://"+dialable(env.adminListen)
	for i := range made {
		made[i].Send = again + " send " + made[i].Provider + inDir
	}
	if f.asJSON {
		return printJSON(cmd, map[string]any{
			"url": public, "admin_url": admin, "dir": string(dir), "postgres_dir": server.Dir(), "env_file": dir.envFile(), "vendors": made,
		})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nReceiving. Ctrl-C stops it, PostgreSQL too.\n\n")
	fmt.Fprintf(&b, "  public    %s   /webhooks/*, /healthz\n  admin     %s   /metrics, /livez, /readyz\n", public, admin)
	fmt.Fprintf(&b, "  data      %s, kept between runs\n", server.Dir())
	if server.Dir() != dir.postgres() {
		fmt.Fprintf(&b, "            (not in %s: PostgreSQL runs as the user %s, who cannot enter it)\n", dir, server.User())
	} else if server.User() != "" {
		fmt.Fprintf(&b, "            (PostgreSQL runs as the user %s)\n", server.User())
	}
	for _, r := range made {
		fmt.Fprintf(&b, "\n  %-8s  %s%s\n", r.Provider, public, r.SourcePath)
		for _, path := range r.JobPaths {
			fmt.Fprintf(&b, "            %s%s\n", public, path)
		}
	}
	fmt.Fprintf(&b, "\nSend a signed sample and see what is stored, in another terminal and this directory:\n\n")
	for _, r := range made {
		fmt.Fprintf(&b, "  %s\n", r.Send)
	}
	fmt.Fprintf(&b, "\nOther kinds, and the same delivery twice: %s send --help\n", again)
	fmt.Fprintf(&b, "The other commands on this database:\n\n  set -a; . %s; set +a; %s sources list\n\n", quote(f.shown(dir)), again)
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}

// shown is the path of the settings for a shell: short where that works.
func (f *devFlags) shown(dir devDir) string {
	if f.dir == devDirDefault {
		return "./" + devDirDefault + "/env"
	}
	return dir.envFile()
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/doctor"
	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/registry"
	"webhook-gateway/internal/safetext"
	"webhook-gateway/jobs"
)

// chest is where a diagnosis has its secrets from.
type chest struct {
	flags   *doctorFlags
	stdin   []doctor.Secret
	entries registry.File
	pool    *pgxpool.Pool
	db      *registry.Registry
}

func (f *doctorFlags) open(cmd *cobra.Command) (*chest, error) {
	c := &chest{flags: f}
	var err error
	switch {
	case f.secretStdin:
		c.stdin, err = readSecretLines(cmd)
	case f.secrets != "":
		c.entries, err = registry.ReadFile(f.secrets)
		err = asSetting(err)
	default:
		c.pool, c.db, err = openRegistry(cmd, f.dir)
	}
	return c, err
}

func (c *chest) close() {
	if c.pool != nil {
		pg.Close(c.pool)
	}
}

// secretsOf are the secrets that should fit a request, and those of others.
func (c *chest) secretsOf(cmd *cobra.Command, p *capture.Capture) (secrets, others []doctor.Secret, err error) {
	source, job := c.called(p)
	switch {
	case c.stdin != nil:
		return c.stdin, nil, nil
	case c.entries != nil:
		for name, e := range c.entries {
			s := doctor.Secret{Name: "current", Text: e.Secret}
			if name == source || name == job {
				secrets = append(secrets, s)
			} else if strings.HasPrefix(e.Path, "/webhooks/"+p.Provider+"/") {
				s.Name = name
				others = append(others, s)
			}
		}
		if len(secrets) == 0 {
			return nil, nil, settingError{fmt.Errorf("%q is not in the secrets file: name the source or job with --source or --job", source+job)}
		}
		return secrets, others, nil
	case source == "" && job == "":
		return nil, nil, usagef("the request does not name its source or job: use --source or --job")
	}
	ring, err := keyringOf(c.db, p.Provider, source, job)
	if err != nil {
		return nil, nil, err
	}
	return live(ring), c.others(p.Provider, ring), nil
}

// called is the source or the job whose secrets should fit: the one of the flags, or else of the request.
func (c *chest) called(p *capture.Capture) (source, job string) {
	if c.flags.source != "" || c.flags.job != "" {
		return c.flags.source, c.flags.job
	}
	path, _, _ := strings.Cut(p.Target, "?")
	rest, ours := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/webhooks/"+p.Provider+"/")
	if name, isSource := strings.CutPrefix(rest, "sources/"); ours && isSource && name != capture.SourceMark {
		return name, ""
	}
	if _, err := uuid.Parse(rest); ours && err == nil {
		return "", rest
	}
	if kind, party := p.Party(); party != nil && kind == "source" {
		return party.Name, ""
	} else if party != nil {
		return "", party.Name
	}
	return "", ""
}

// live are the secrets of a keyring, by what they are called.
func live(ring jobs.Keyring) []doctor.Secret {
	list := make([]doctor.Secret, len(ring.Secrets))
	for i, s := range ring.Secrets {
		n := i
		if ring.CurrentSealed {
			n++
		}
		list[i] = doctor.Secret{Name: secretName(n), Text: s.Reveal()}
	}
	return list
}

// others are the secrets of the vendor's other sources, and of jobs that have their own.
func (c *chest) others(provider string, mine jobs.Keyring) []doctor.Secret {
	own := make(map[string]bool)
	for _, s := range mine.Secrets {
		own[s.Reveal()] = true
	}
	var list []doctor.Secret
	rings := c.db.Keyrings(provider)
	for _, name := range slices.Sorted(maps.Keys(rings)) {
		for _, s := range rings[name].Secrets {
			if !own[s.Reveal()] {
				list = append(list, doctor.Secret{Name: name, Text: s.Reveal()})
			}
		}
	}
	return list
}

// printDiagnosis shows a diagnosis to people. What came off the wire must not reach a terminal as it is.
func printDiagnosis(out io.Writer, d diagnosisJSON) error {
	fmt.Fprintln(out, safetext.Line(d.Name))
	w := newTable(out)
	for _, s := range d.Steps {
		mark := "ok"
		if !s.OK {
			mark = "NO"
		}
		w.row("  "+mark, s.Name, s.Says)
	}
	if err := w.flush(); err != nil {
		return err
	}
	if d.Accepted {
		_, err := fmt.Fprintf(out, "it would be accepted: %d\n", d.Status)
		return err
	}
	fmt.Fprintf(out, "it would be refused: %d\n", d.Status)
	for _, c := range d.Causes {
		how := "confirmed by undoing it"
		if !c.Proved {
			how = "likely, not confirmed"
		}
		fmt.Fprintf(out, "  %s (%s): %s\n", c.Code, how, safetext.Line(c.Says))
	}
	return nil
}

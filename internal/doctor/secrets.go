package doctor

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/registry"
	"webhook-gateway/jobs"
)

var (
	// ErrUnnamed says that the request does not show whose secret signs it.
	ErrUnnamed = errors.New("the request does not name its source or job")
	// ErrNotInFile says that a file of secrets lacks the source or job of a request.
	ErrNotInFile = errors.New("not in the secrets file")
)

// Secrets is the source of the secrets: the first field that is set.
type Secrets struct {
	Given    []Secret // for every request, the current one first
	File     registry.File
	Registry *registry.Registry
	// Source or Job names the holder of the secrets that should fit. Without either, it is the source or job that a
	// request called.
	Source, Job string
}

// Lines returns the secrets in a text, one a line, with the blanks that are part of them.
func Lines(text []byte) []Secret {
	var list []Secret
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(bytes.TrimSpace(line)) > 0 {
			list = append(list, Secret{Name: secretName(len(list)), Text: string(line)})
		}
	}
	return list
}

// Of returns the secrets that should fit a request, and those of the vendor's other sources and jobs.
func (s Secrets) Of(c *capture.Capture) (fit, others []Secret, err error) {
	source, job := s.Source, s.Job
	if source == "" && job == "" {
		source, job = called(c)
	}
	switch {
	case s.Given != nil:
		return s.Given, nil, nil
	case s.File != nil:
		return fromFile(s.File, c.Provider, source, job)
	case source == "" && job == "":
		return nil, nil, ErrUnnamed
	}
	ring, err := s.Registry.Keyring(c.Provider, source, job)
	if err != nil {
		return nil, nil, err
	}
	return live(ring), otherSecrets(s.Registry.Keyrings(c.Provider), ring), nil
}

func fromFile(file registry.File, provider, source, job string) (fit, others []Secret, err error) {
	for name, e := range file {
		s := Secret{Name: "current", Text: e.Secret}
		if name == source || name == job {
			fit = append(fit, s)
		} else if strings.HasPrefix(e.Path, "/webhooks/"+provider+"/") {
			s.Name = name
			others = append(others, s)
		}
	}
	if len(fit) == 0 {
		return nil, nil, fmt.Errorf("%q is %w", source+job, ErrNotInFile)
	}
	return fit, others, nil
}

// called returns the source or the job that a request called.
func called(c *capture.Capture) (source, job string) {
	path, _, _ := strings.Cut(c.Target, "?")
	rest, ours := strings.CutPrefix(strings.TrimSuffix(path, "/"), "/webhooks/"+c.Provider+"/")
	if name, isSource := strings.CutPrefix(rest, "sources/"); ours && isSource && name != capture.SourceMark {
		return name, ""
	}
	if _, err := uuid.Parse(rest); ours && err == nil {
		return "", rest
	}
	if kind, party := c.Party(); party != nil && kind == "source" {
		return party.Name, ""
	} else if party != nil {
		return "", party.Name
	}
	return "", ""
}

// live returns the secrets of a keyring that could be opened.
func live(ring jobs.Keyring) []Secret {
	list := make([]Secret, len(ring.Secrets))
	for i, s := range ring.Secrets {
		n := i
		if ring.CurrentSealed {
			n++
		}
		list[i] = Secret{Name: secretName(n), Text: s.Reveal()}
	}
	return list
}

// otherSecrets returns the secrets of keyrings, without those that are in mine too.
func otherSecrets(rings map[string]jobs.Keyring, mine jobs.Keyring) []Secret {
	own := make(map[string]bool)
	for _, s := range mine.Secrets {
		own[s.Reveal()] = true
	}
	var list []Secret
	for _, name := range slices.Sorted(maps.Keys(rings)) {
		for _, s := range rings[name].Secrets {
			if !own[s.Reveal()] {
				list = append(list, Secret{Name: name, Text: s.Reveal()})
			}
		}
	}
	return list
}

// secretName returns the name of the n-th live secret.
func secretName(n int) string {
	switch n {
	case 0:
		return "current"
	case 1:
		return "previous"
	default:
		return fmt.Sprintf("previous (%d)", n)
	}
}

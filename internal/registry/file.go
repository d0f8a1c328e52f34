package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"webhook-gateway/internal/capture"
	"webhook-gateway/internal/files"
	"webhook-gateway/internal/safetext"
)

// maxSecretsFile bounds a file of secrets.
const maxSecretsFile = 1 << 20

// File is a file of secrets: the path and the secret of each source or job, by the name that captures use.
type File map[string]Entry

// Entry is a source or a job in a file of secrets.
type Entry struct {
	Path   string `yaml:"path"` // like /webhooks/VENDOR/sources/main
	Secret string `yaml:"secret"`
}

// ReadFile reads a file of secrets: a YAML mapping of names to paths and secrets. It refuses a file that others than
// its owner can read. An error quotes only names from the file.
func ReadFile(file string) (File, error) {
	f, err := files.Open(file)
	if errors.Is(err, files.ErrNotRegular) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read the file of secrets: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the file of secrets: %w", err)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %#o, so others can read its secrets; run: chmod 600 %s", file, info.Mode().Perm(), safetext.Shell(file))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecretsFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the file of secrets: %w", err)
	case len(text) > maxSecretsFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", file, maxSecretsFile)
	}
	entries := make(File)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s does not map names to a path and a secret each, like\n  slack-app: {path: /webhooks/slack/sources/main, secret: …}", file)
	}
	var errs []error
	for name, e := range entries {
		if !strings.HasPrefix(e.Path, "/webhooks/") {
			errs = append(errs, fmt.Errorf("%s: %s has no path like /webhooks/slack/sources/main", file, name))
		}
		if strings.TrimSpace(e.Secret) == "" {
			errs = append(errs, fmt.Errorf("%s: %s has no secret", file, name))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return entries, errors.Join(errs...)
}

// Find returns the places of the sources and jobs that captures name. The error names everything that is missing.
func (f File) Find(list []*capture.Capture) (capture.Places, error) {
	places := make(capture.Places)
	var missing []error
	for _, c := range list {
		kind, party := c.Party()
		if party == nil {
			continue
		}
		key := capture.PlaceKey(c.Provider, kind, party.Name)
		if _, done := places[key]; done {
			continue
		}
		e, ok := f[party.Name]
		if !ok {
			missing = append(missing, fmt.Errorf("%s %s %q is not in the secrets file; capture %s needs it", c.Provider, kind, party.Name, c.Name))
		} else if !strings.HasPrefix(e.Path, "/webhooks/"+c.Provider+"/") {
			missing = append(missing, fmt.Errorf("the path of %q is not one of %s's; capture %s needs the %s there", party.Name, c.Provider, c.Name, kind))
		}
		places[key] = capture.Place{Path: e.Path, Secret: e.Secret}
	}
	return places, errors.Join(missing...)
}

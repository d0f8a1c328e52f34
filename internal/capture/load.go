package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"webhook-gateway/internal/files"
)

// The most that is read. A gateway accepts no larger body.
const (
	maxDescription = 1 << 20
	maxBody        = 64 << 20
	maxProblems    = 20 // reported by one call

	maxCaptures     = 20_000    // in memory at once
	maxCaptureBytes = 256 << 20 // of their files
)

// ErrNone says that a folder contains no capture.
var ErrNone = errors.New("no captures")

// Load reads the capture in a folder. The error joins everything that is wrong with it: a description that does not
// match the format, a body that does not match the description, an unknown file.
func Load(dir string) (*Capture, error) { return new(loader).load(dir) }

// loader loads captures and bounds their total size.
type loader struct {
	captures int
	bytes    int64
}

// errTooMany ends a loader.
var errTooMany = fmt.Errorf("more than %d captures, or %d MiB of them, at once; name fewer", maxCaptures, maxCaptureBytes>>20)

func (l *loader) load(dir string) (*Capture, error) {
	c, err := l.read(dir)
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", dir, err)
	}
	return c, nil
}

func (l *loader) read(dir string) (*Capture, error) {
	text, err := files.Read(filepath.Join(dir, File), maxDescription)
	if err != nil {
		return nil, err
	}
	c, err := described(dir, text)
	if err != nil {
		return nil, err
	}
	err = joinFew([]error{c.readBody(dir), c.strangers(dir), c.Check()})
	l.captures++
	l.bytes += int64(len(text) + len(c.Content))
	if l.captures > maxCaptures || l.bytes > maxCaptureBytes {
		return nil, errTooMany
	}
	return c, err
}

// described reads a description.
func described(dir string, text []byte) (*Capture, error) {
	c := &Capture{Name: filepath.Base(dir), Dir: dir}
	if err := decode(text, c); err != nil {
		return nil, fmt.Errorf("%s: %w", File, err)
	}
	if c.Format != Format {
		return nil, fmt.Errorf("%s: the format is %.40q, and %s is what is read here", File, c.Format, Format)
	}
	if c.Sign.Mode == "" {
		c.Sign.Mode = Resign
	}
	return c, nil
}

// joinFew joins the first errors: a hostile file may have any number.
func joinFew(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if more := len(errs) - maxProblems; more > 0 {
		errs = append(errs[:maxProblems:maxProblems], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// decode reads exactly one YAML document, and refuses unknown keys.
func decode(text []byte, into any) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return err
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("it holds more than one document")
	}
	return nil
}

// readBody reads the file that the description names. Only fixed names are allowed, so none leads out of the folder.
func (c *Capture) readBody(dir string) error {
	if c.Body == nil {
		return nil
	}
	if !isBodyFile(c.Body.File) {
		return fmt.Errorf("body: the file is %.60q; it is one of %s", c.Body.File, strings.Join(bodyFiles(), ", "))
	}
	content, err := files.Read(filepath.Join(dir, c.Body.File), maxBody)
	if err != nil {
		return err
	}
	c.Content = content
	if c.Body.SHA256 != digest(content) || c.Body.Bytes != len(content) {
		return fmt.Errorf("body: %s has %d bytes with the SHA-256 %s, the description says %d bytes and %.64s: was it edited, or did git change its line ends?",
			c.Body.File, len(content), digest(content), c.Body.Bytes, c.Body.SHA256)
	}
	return nil
}

// strangers returns errors for files that the description does not mention.
func (c *Capture) strangers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the folder: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != File && (c.Body == nil || e.Name() != c.Body.File) {
			errs = append(errs, fmt.Errorf("%.100q does not belong here", e.Name()))
		}
	}
	return joinFew(errs)
}

// LoadAll reads every capture in and below the paths, in the order of their names. A capture's Name is its folder's
// path below the given one; if the given path is a capture's folder, its last element. The error joins everything
// that is wrong; it is ErrNone if there are no captures.
func LoadAll(paths ...string) ([]*Capture, error) {
	var list []*Capture
	var errs []error
	var l loader
	for _, root := range paths {
		dirs, err := folders(root)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if len(dirs) == 0 {
			errs = append(errs, fmt.Errorf("%w in %s: a capture is a folder with a %s", ErrNone, root, File))
		}
		for _, dir := range dirs {
			c, err := l.load(dir)
			if errors.Is(err, errTooMany) {
				return nil, err
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if below, err := filepath.Rel(root, dir); err == nil && below != "." {
				c.Name = filepath.ToSlash(below)
			}
			list = append(list, c)
		}
	}
	if _, err := Parties(list); err != nil {
		errs = append(errs, err)
	}
	return list, joinFew(errs)
}

// folders lists the folders in and below root that hold a description.
func folders(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir // a capture that is being written
		case !d.IsDir() && d.Name() == File:
			dirs = append(dirs, filepath.Dir(path))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for captures: %w", err)
	}
	return dirs, nil
}

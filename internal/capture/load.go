package capture

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// What is read at most. A gateway takes no larger body.
const (
	maxDescription = 1 << 20
	maxBody        = 64 << 20
)

// ErrNone says that a folder holds no capture.
var ErrNone = errors.New("no captures")

// Load reads the capture in a folder. The error joins everything that is wrong with it: a description that
// says more or less than the format, a body that is not the one described, a file that does not belong.
func Load(dir string) (*Capture, error) {
	c, err := load(dir)
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", dir, err)
	}
	return c, nil
}

func load(dir string) (*Capture, error) {
	text, err := readBounded(filepath.Join(dir, File), maxDescription)
	if err != nil {
		return nil, err
	}
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
	return c, errors.Join(c.readBody(dir), c.strangers(dir), c.Check())
}

// decode reads exactly one YAML document, whose every key must be known.
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

// readBody reads the file that the description names. Names are closed, so none leads out of the folder.
func (c *Capture) readBody(dir string) error {
	if c.Body == nil {
		return nil
	}
	if !isBodyFile(c.Body.File) {
		return fmt.Errorf("body: the file is %.60q; it is one of %s", c.Body.File, strings.Join(bodyFiles(), ", "))
	}
	content, err := readBounded(filepath.Join(dir, c.Body.File), maxBody)
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

// strangers are files that the description does not tell of.
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
	return errors.Join(errs...)
}

func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return text, nil
}

// LoadAll reads every capture in and below the paths, in the order of their names. A capture's Name is its
// folder's path below the one given; of a path that is a capture's folder itself, its last part. The error
// joins what is wrong with any of them; it is ErrNone when there are none.
func LoadAll(paths ...string) ([]*Capture, error) {
	var list []*Capture
	var errs []error
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
			c, err := Load(dir)
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
	return list, errors.Join(errs...)
}

// folders lists the folders in and below root that hold a description.
func folders(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir // one that is being written
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

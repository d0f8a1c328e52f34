package capture

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"webhook-gateway/internal/files"
)

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func bodyFiles() []string { return []string{"body.json", "body.form", "body.gz", "body.bin"} }

func isBodyFile(name string) bool {
	for _, f := range bodyFiles() {
		if f == name {
			return true
		}
	}
	return false
}

// SetContent sets the body and its description. Without bytes there is no body.
func (c *Capture) SetContent(content []byte) {
	c.Content, c.Body = content, nil
	if len(content) > 0 || c.Method != "GET" {
		c.Body = &Body{File: fileOf(c.Value("Content-Type"), content), SHA256: digest(content), Bytes: len(content)}
	}
}

func fileOf(contentType string, content []byte) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	trimmed := bytes.TrimLeft(content, " \t\r\n")
	switch {
	case bytes.HasPrefix(content, []byte{0x1f, 0x8b}):
		return "body.gz"
	case len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '['):
		return "body.json"
	case kind == "application/x-www-form-urlencoded" && len(content) > 0:
		return "body.form"
	default:
		return "body.bin"
	}
}

// Privacy says who may read the written files.
type Privacy bool

// The privacies.
const (
	Private Privacy = true  // only the owner: folders 0700, files 0600
	Shared  Privacy = false // like other files of a checkout
)

func (p Privacy) modes() (folder, file os.FileMode) {
	if p == Private {
		return 0o700, 0o600
	}
	return 0o755, 0o644
}

// Write makes the capture's folder dir, completely or not at all. The folder above it must exist, dir must not. It
// refuses a capture that Check refuses, and one with a signature unless privacy is Private.
func (c *Capture) Write(dir string, privacy Privacy) error {
	err := c.Check()
	if err == nil && c.Sign.Mode == Kept && privacy != Private {
		err = errors.New("it carries the signature that came")
	}
	if err == nil {
		err = c.write(dir, privacy)
	}
	if err != nil {
		return fmt.Errorf("write capture %s: %w", dir, err)
	}
	return nil
}

func (c *Capture) write(dir string, privacy Privacy) error {
	text, err := Encode(c)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(dir); err == nil {
		return os.ErrExist
	}
	folder, file := privacy.modes()
	making := filepath.Join(filepath.Dir(dir), ".new-"+rand.Text())
	if err := os.Mkdir(making, folder); err != nil {
		return err
	}
	defer os.RemoveAll(making) // renamed already if all went well
	if err := os.WriteFile(filepath.Join(making, File), text, file); err != nil {
		return err
	}
	if c.Body != nil {
		if err := os.WriteFile(filepath.Join(making, c.Body.File), c.Content, file); err != nil {
			return err
		}
	}
	return os.Rename(making, dir)
}

// Encode returns the description of a capture as Write writes it.
func Encode(c *Capture) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(c), enc.Close()); err != nil {
		return nil, fmt.Errorf("encode the description: %w", err)
	}
	return out.Bytes(), nil
}

// Rewrite replaces the expectations in the description of a capture in Dir. The rest of the file stays, including
// comments.
func (c *Capture) Rewrite(expect Expect) error {
	path := filepath.Join(c.Dir, File)
	text, err := files.Read(path, maxDescription)
	if err != nil {
		return fmt.Errorf("rewrite expectations: %w", err)
	}
	var doc, value yaml.Node
	if err := errors.Join(yaml.Unmarshal(text, &doc), value.Encode(expect)); err != nil {
		return fmt.Errorf("rewrite expectations of %s: %w", path, err)
	}
	root := doc.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "expect" {
			root.Content[i+1] = &value
		}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return fmt.Errorf("rewrite expectations of %s: %w", path, err)
	}
	c.Expect = expect
	if bytes.Equal(out.Bytes(), text) {
		return nil
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

// Slug turns any text into a folder's name.
func Slug(text string) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return '-'
		}
	}, text)
	slug = strings.Trim(slug, "-._")
	if len(slug) > 60 {
		slug = slug[:60]
	}
	if slug == "" {
		return "capture"
	}
	return slug
}

package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"webhook-gateway/internal/files"
)

// maxFile is the maximum size of the settings file.
const maxFile = 256 << 10

// prefix is the prefix of our environment variables. An unknown name with it is an error.
const prefix = "GATEWAY_"

// elsewhere matches variables with our prefix that are not settings of a gateway.
var elsewhere = regexp.MustCompile(`^GATEWAY_(PG_BIN` + // where development and tests find PostgreSQL
	// Kubernetes adds these to every container if a Service's name begins with "gateway".
	`|([A-Z0-9_]+_)?SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)|([A-Z0-9_]+_)?PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// fromEnvironment returns the settings in the environment. One with an empty value is not set.
func fromEnvironment(environ []string, p *problems) map[string]string {
	known := make(map[string]bool)
	for _, s := range table() {
		known[s.Name] = true
	}
	given := make(map[string]string)
	for _, line := range environ {
		name, text, _ := strings.Cut(line, "=")
		switch {
		case known[name] && text != "":
			given[name] = text
		case !known[name] && strings.HasPrefix(name, prefix) && !elsewhere.MatchString(name):
			p.add(name, errors.New("unknown setting; check the spelling, or unset it"))
		}
	}
	return given
}

// fromFile reads a YAML file: one flat mapping of setting keys to single values.
func fromFile(file string, p *problems) map[string]string {
	given := make(map[string]string)
	add := func(line int, format string, args ...any) {
		p.list = append(p.list, fmt.Errorf("%s line %d: %w", file, line, fmt.Errorf(format, args...)))
	}
	content, err := files.Read(file, maxFile)
	if err != nil {
		p.add(fileSetting, fmt.Errorf("read the settings' file: %w", err))
		return given
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF): // empty, or only comments
		return given
	case err != nil:
		p.list = append(p.list, fmt.Errorf("read %s: %w", file, err))
		return given
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return given
	}
	if root.Kind != yaml.MappingNode {
		add(root.Line, "write settings as key: value, one per line")
		return given
	}
	names := make(map[string]string)
	for _, s := range table() {
		if s.YAML != "" {
			names[s.YAML] = s.Name
		}
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		name, known := names[key.Value]
		_, twice := given[name]
		switch {
		case !known:
			add(key.Line, "unknown key %.100q", key.Value)
		case twice:
			add(key.Line, "duplicate key %q", key.Value)
		case value.Kind != yaml.ScalarNode:
			add(value.Line, "%s takes one value", key.Value)
		case value.Tag == "!!null":
			add(value.Line, "%s has no value; set one, or remove the line", key.Value)
		default:
			given[name] = value.Value
		}
	}
	if err := decoder.Decode(&doc); !errors.Is(err, io.EOF) {
		p.list = append(p.list, fmt.Errorf("read %s: it holds more than one document", file))
	}
	return given
}

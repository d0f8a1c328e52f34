package clash

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"webhook-gateway/internal/form"
)

// Difference is a place at which two bodies differ. A side is JSON, or the text of a form's field, cut after 300
// characters; nil when that side has no such value.
type Difference struct {
	Path    string  `json:"path"` // like data.object.from[0].email
	Inbox   *string `json:"inbox"`
	Dropped *string `json:"dropped"`
}

const maxValueShown = 300 // characters

// differences compares two bodies, JSON or forms, value by value. It returns the first atMost differences in the
// order of their paths, and the number of all.
func differences(inbox, dropped []byte, atMost int) (list []Difference, all int) {
	a, b := leavesOf(inbox), leavesOf(dropped)
	paths := make(map[string]bool, len(a)+len(b))
	for _, side := range []map[string]string{a, b} {
		for path := range side {
			paths[path] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		was, inA := a[path]
		is, inB := b[path]
		if inA == inB && was == is {
			continue
		}
		if all++; all > atMost {
			continue
		}
		d := Difference{Path: path}
		if inA {
			d.Inbox = shortened(was)
		}
		if inB {
			d.Dropped = shortened(is)
		}
		list = append(list, d)
	}
	return list, all
}

func shortened(text string) *string {
	if runes := []rune(text); len(runes) > maxValueShown {
		text = string(runes[:maxValueShown]) + "…"
	}
	return &text
}

// valuesIn returns an upper limit on the number of values in a body (JSON, or a form with JSON in its fields) without
// parsing it.
func valuesIn(body []byte) int {
	n := 1
	for _, before := range []string{",", "[", "{", "&", "%2C", "%2c", "%5B", "%5b", "%7B", "%7b"} {
		n += bytes.Count(body, []byte(before))
	}
	return n
}

// leavesOf returns the values of a body that contain no other values, by path.
func leavesOf(body []byte) map[string]string {
	leaves := make(map[string]string)
	if value, err := decode(body); err == nil {
		walk(leaves, "", value)
		return leaves
	}
	if bytes.ContainsAny(body, "\x00\n") {
		leaves["(the whole body)"] = string(body)
		return leaves
	}
	fields := make(map[string][]string)
	for name, value := range form.Fields(body) {
		fields[form.Unescape(name)] = append(fields[form.Unescape(name)], form.Unescape(value))
	}
	for name, values := range fields {
		for i, text := range values {
			path := member("", name)
			if len(values) > 1 {
				path += "[" + strconv.Itoa(i) + "]"
			}
			// A JSON document may be in a field of a form.
			if value, err := decode([]byte(text)); err == nil && text != "" && (text[0] == '{' || text[0] == '[') {
				walk(leaves, path, value)
			} else {
				leaves[path] = text
			}
		}
	}
	return leaves
}

// decode reads one JSON value. Numbers keep their spelling.
func decode(body []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return value, nil
}

func walk(leaves map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		if len(v) == 0 {
			leaves[path] = "{}"
		}
		for name, inner := range v {
			walk(leaves, member(path, name), inner)
		}
	case []any:
		if len(v) == 0 {
			leaves[path] = "[]"
		}
		for i, inner := range v {
			walk(leaves, fmt.Sprintf("%s[%d]", path, i), inner)
		}
	case json.Number:
		leaves[path] = v.String()
	default:
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(v) // a string, true, false or null: it cannot fail
		leaves[path] = string(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
	}
}

// plainName matches a member's name that needs no quotes.
var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func member(path, name string) string {
	if !plainName.MatchString(name) {
		name = "[" + strconv.Quote(name) + "]"
	} else if path != "" {
		name = "." + name
	}
	return path + name
}

package migrations

import (
	"testing"
	"testing/fstest"
)

func TestHash(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	schemas := map[string]fstest.MapFS{
		"one file":          {"sql/1.sql": file("ab")},
		"other text":        {"sql/1.sql": file("ac")},
		"other name":        {"sql/2.sql": file("ab")},
		"two files":         {"sql/1.sql": file("a"), "sql/2.sql": file("b")},
		"one file like two": {"sql/1.sql": file("asql/2.sql \nb")},
	}
	seen := map[string]string{hash(files): "this build"}
	for name, fsys := range schemas {
		h := hash(fsys)
		if other, ok := seen[h]; ok {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[h] = name
		if again := hash(fsys); again != h {
			t.Errorf("%s: got %s, then %s", name, h, again)
		}
	}
}

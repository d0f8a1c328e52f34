package jobs

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestValidNames(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z`) // the table's CHECK
	for _, name := range []string{
		"", "a", "Z", "0", ".", "-", "_", "a.", "a-b_c.d", "-a", "a b", "a\n", "é", "a/b", "@", "[", "`", "{", "/", ":",
		strings.Repeat("a", 100), strings.Repeat("a", 101),
	} {
		if got, want := ValidName(name), form.MatchString(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,102}.?`)).Draw(t, "name")
		if got, want := ValidName(name), form.MatchString(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	})
}

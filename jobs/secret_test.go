package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const plain = "hush-hush" // what must never be seen

func mustSecret(t testing.TB, text string) Secret {
	t.Helper()
	s, err := NewSecret(text)
	if err != nil {
		t.Fatalf("NewSecret: %v", err)
	}
	return s
}

func TestSecretText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, given, want string
		refused           bool
	}{
		{name: "as it is", given: "abc", want: "abc"},
		{name: "one newline is dropped", given: "abc\n", want: "abc"},
		{name: "a newline of Windows too", given: "abc\r\n", want: "abc"},
		{name: "only one", given: "abc\n\n", want: "abc\n"},
		{name: "other space is kept", given: " a bc ", want: " a bc "},
		{name: "no format is asked for", given: "ключ-\x01-鍵", want: "ключ-\x01-鍵"},
		{name: "200 bytes", given: strings.Repeat("a", 200), want: strings.Repeat("a", 200)},
		{name: "200 bytes and a newline", given: strings.Repeat("a", 200) + "\n", want: strings.Repeat("a", 200)},
		{name: "201 bytes", given: strings.Repeat("a", 201), refused: true},
		{name: "empty", given: "", refused: true},
		{name: "a newline alone", given: "\n", refused: true},
		{name: "spaces alone", given: " \t \n", refused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := NewSecret(c.given)
			if c.refused {
				if !errors.Is(err, ErrInvalid) || !s.IsZero() {
					t.Fatalf("got %v and secret %q, want ErrInvalid and none", err, s.Reveal())
				}
				return
			}
			if err != nil || s.Reveal() != c.want {
				t.Fatalf("got %q and %v, want %q", s.Reveal(), err, c.want)
			}
		})
	}
}

func TestRefusedSecretHidden(t *testing.T) {
	t.Parallel()
	_, err := NewSecret(strings.Repeat(plain, 30))
	if err == nil || strings.Contains(err.Error(), plain) {
		t.Fatalf("got %v, want an error without the text", err)
	}
}

func TestSecretsHidden(t *testing.T) {
	t.Parallel()
	s := mustSecret(t, plain)
	keys := mustKeys(t, 1)
	type hidden struct{ inner Secret }
	for name, value := range map[string]any{
		"secret":             s,
		"pointer":            &s,
		"slice":              []Secret{s},
		"unexported field":   hidden{s},
		"keyring":            Keyring{Secrets: []Secret{s}},
		"job":                &Job{Keyring: Keyring{Secrets: []Secret{s}}},
		"source":             Source{Keyring: Keyring{Secrets: []Secret{s}}},
		"new source":         NewSource{Secret: s},
		"new job":            &NewJob{Secret: s},
		"map":                map[string]Secret{"a": s},
		"error":              fmt.Errorf("with %v %+v %s %q %x", s, s, s, s, s),
		"keys":               keys,
		"keys by value":      *keys,
		"keys in a struct":   struct{ K *Keys }{keys},
		"keys hidden in one": struct{ k *Keys }{keys},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%10.3v", "%T"} {
				fmt.Fprintf(&out, verb+"\n", value)
			}
			_ = json.NewEncoder(&out).Encode(value)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "value", value)
			slog.New(slog.NewTextHandler(&out, nil)).Info("m", "value", value)
			for _, leak := range []string{plain, plain[:4], fmt.Sprintf("%x", plain), fmt.Sprintf("%X", plain)} {
				if bytes.Contains(out.Bytes(), []byte(leak)) {
					t.Fatalf("%q is shown:\n%s", leak, out.String())
				}
			}
		})
	}
}

func TestASecretPrintsAsRedacted(t *testing.T) {
	t.Parallel()
	s := mustSecret(t, plain)
	j, err := json.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{s.String(), s.GoString(), s.LogValue().String(), fmt.Sprintf("%+v", s), string(j)}
	want := []string{"[redacted]", "[redacted]", "[redacted]", "[redacted]", `{"s":"[redacted]"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestKeyringMismatch(t *testing.T) {
	t.Parallel()
	var ring []Secret
	for _, text := range []string{"newest", "older", "oldest"} {
		ring = append(ring, mustSecret(t, text))
	}
	later, before := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	for _, c := range []struct {
		name   string
		ring   Keyring
		signed string
		want   Result
	}{
		{"the current one", Keyring{Secrets: ring}, "newest", Result{Matched: true}},
		{"a previous one", Keyring{Secrets: ring}, "older", Result{Matched: true, Previous: true}},
		{"the oldest one", Keyring{Secrets: ring}, "oldest", Result{Matched: true, Previous: true}},
		{"none of them", Keyring{Secrets: ring}, "other", Result{}},
		{"none is set", Keyring{}, "newest", Result{Doubt: NoSecret}},
		{"none is set and a rotation is open", Keyring{RotatingUntil: later}, "newest", Result{Doubt: NoSecret}},
		{"all are sealed", Keyring{Unopened: 1, CurrentSealed: true}, "newest", Result{Doubt: Sealed}},
		{"one is sealed", Keyring{Secrets: ring, Unopened: 1}, "other", Result{Doubt: Sealed}},
		{"a previous one is sealed, the current one right", Keyring{Secrets: ring, Unopened: 1}, "newest", Result{Matched: true}},
		{"the current one is sealed, a previous one right", Keyring{Secrets: ring, Unopened: 1, CurrentSealed: true}, "newest",
			Result{Matched: true, Previous: true}},
		{"a rotation is open", Keyring{Secrets: ring, RotatingUntil: later}, "other", Result{Doubt: Rotating}},
		{"a rotation is open and one is right", Keyring{Secrets: ring, RotatingUntil: later}, "older", Result{Matched: true, Previous: true}},
		{"a rotation has ended", Keyring{Secrets: ring, RotatingUntil: before}, "other", Result{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := c.ring.Verify(func(secret string) bool { return secret == c.signed })
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestKeyringNewestFirst(t *testing.T) {
	t.Parallel()
	ring := Keyring{Secrets: []Secret{mustSecret(t, "a"), mustSecret(t, "b"), mustSecret(t, "c")}}
	var tried []string
	ring.Verify(func(secret string) bool {
		tried = append(tried, secret)
		return secret == "b"
	})
	if diff := cmp.Diff([]string{"a", "b"}, tried); diff != "" {
		t.Fatal(diff)
	}
}

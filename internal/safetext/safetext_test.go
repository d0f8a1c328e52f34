package safetext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// unsafe lists a character of each kind, and its escape.
var unsafe = map[string]string{
	"\x00": `\u0000`, "\x07": `\u0007`, "\x08": `\u0008`, "\r": `\u000d`, "\x1b": `\u001b`, "\x7f": `\u007f`,
	"\u0080": `\u0080`, "\u0085": `\u0085`, "\u009b": `\u009b`, "\u009f": `\u009f`, "\u00ad": `\u00ad`,
	"\u061c": `\u061c`, "\u200b": `\u200b`, "\u200e": `\u200e`, "\u200f": `\u200f`, "\u2028": `\u2028`, "\u2029": `\u2029`,
	"\u202a": `\u202a`, "\u202e": `\u202e`, "\u2066": `\u2066`, "\u2069": `\u2069`, "\u206a": `\u206a`, "\ufeff": `\ufeff`,
	"\ufff9": `\ufff9`, "\ue000": `\ue000`, "\U000e0001": `\udb40\udc01`, "\U0010ffff": `\udbff\udfff`,
}

// drawn are texts that people write.
var drawn = []string{"", "plain ~", "Zürich", "日本", "👩\u200d👩\u200d👧", "می\u200cخواهم", "e\u0301", "שלום", "\ufffd"}

func TestLine(t *testing.T) {
	t.Parallel()
	for text, want := range unsafe {
		if got := Line("a" + text + "b"); got != "a"+want+"b" {
			t.Errorf("%+q: %q, want %q", text, got, "a"+want+"b")
		}
	}
	for text, want := range map[string]string{"a\nb": `a\u000ab`, "a\tb": `a\u0009b`, "a\x9bb\xffc": "a\ufffdb\ufffdc"} {
		if got := Line(text); got != want {
			t.Errorf("%+q: %q, want %q", text, got, want)
		}
	}
	for _, text := range drawn {
		if got := Line(text); got != text {
			t.Errorf("%q: %q, want it unchanged", text, got)
		}
	}
}

// written is what the underlying writer gets if a text comes in pieces of n bytes.
func written(t *testing.T, text string, n int) string {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	for p := []byte(text); len(p) > 0; {
		piece := p[:min(n, len(p))]
		if wrote, err := w.Write(piece); err != nil || wrote != len(piece) {
			t.Fatalf("wrote %d of %d bytes: %v", wrote, len(piece), err)
		}
		p = p[len(piece):]
	}
	return out.String()
}

func TestWriterSplitInput(t *testing.T) {
	t.Parallel()
	for n := 1; n < 6; n++ {
		for text, want := range unsafe {
			if got := written(t, "a\n"+text+"\té", n); got != "a\n"+want+"\té" {
				t.Errorf("%+q in pieces of %d: %q", text, n, got)
			}
		}
		for _, text := range drawn {
			if got := written(t, text+"\n", n); got != text+"\n" {
				t.Errorf("%q in pieces of %d: %q, want it unchanged", text, n, got)
			}
		}
		if got := written(t, "a\x9b\xc2b\xffc\n", n); got != "a\ufffd\ufffdb\ufffdc\n" {
			t.Errorf("bytes that are not UTF-8, in pieces of %d: %q", n, got)
		}
	}
}

func TestWriterKeepsJSON(t *testing.T) {
	t.Parallel()
	text := strings.Join(drawn, "") + "\n\t\"\\"
	for c := range unsafe {
		text += c
	}
	encoded, err := json.Marshal(map[string]string{text: text})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(written(t, string(encoded), 7)), &got); err != nil || got[text] != text {
		t.Errorf("read back %+q, %v; want %+q", got, err, text)
	}
}

func BenchmarkLogLine(b *testing.B) {
	line := []byte(strings.Repeat(`{"time":"2026-01-01T00:00:00Z","level":"INFO","msg":"webhook"}`, 5))
	w := NewWriter(discard{})
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_, _ = w.Write(line)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func TestPlainChecksEveryByte(t *testing.T) {
	t.Parallel()
	for at := range 24 {
		for b := range 256 {
			p := bytes.Repeat([]byte{'~'}, 24)
			p[at] = byte(b)
			want := b >= ' ' && b <= '~' || b == '\n' || b == '\t'
			if got := plain(p); got != want {
				t.Errorf("byte %#x at %d: %v, want %v", b, at, got, want)
			}
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, text := range append(drawn, "a\r\n\tb\n") {
		if !Text([]byte(text)) {
			t.Errorf("%q is called unsafe", text)
		}
	}
	for text := range unsafe {
		if Text([]byte("a" + text + "b")) {
			t.Errorf("%+q is called safe", text)
		}
	}
	for _, text := range []string{"\r", "a\r\r\n", "a\xff", "\xc3"} {
		if Text([]byte(text)) {
			t.Errorf("%+q is called safe", text)
		}
	}
}

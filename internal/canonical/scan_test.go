package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// documents are bodies on both sides of the grammar's lines; they seed the fuzz targets too.
var documents = []string{
	`{}`, `[]`, `""`, `0`, `-0`, `true`, `false`, `null`, ` {"a" : [1 , 2] } `, "\t\r\n1\n",
	`{"a":{"b":[{"c":null}]},"a2":[[],{}]}`, `[1,-1,0.5,1e3,1E+3,1e-3,12345678901234567]`,
	`"\"\\\/\b\f\n\r\tA\u00e9\uD83D\uDE00"`, `"\ud800"`, `"\ud800A"`, `"\udc00\ud800"`, `"\ud83d\ud83d\ude00"`,
	"\"\xff\"", "\"\xed\xa0\x80\"", "{\"\xff\":1}", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"":{"":0}}`,
	"\"\x7f\u2028\u00e9\"", `"12345678"`, `"1234567\"`, `"1234567\u12"`, `"0123456789abcdef`, "\"0123456\x1f\"", "\"01234567\n\"",
	``, ` `, `{`, `}`, `[`, `]`, `{]`, `[}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1 "b":2}`,
	`{1:2}`, `{a:1}`, `{"a",1}`, `{"a":1:2}`, `[:]`, `1,2`, `,`, `1 2`, `{}{}`, `{} x`, `[]]`, `"a"b`, `]1`, `{"a":1]`, `[1}`,
	`01`, `-`, `+1`, `1.`, `.5`, `1e`, `1e+`, `--1`, `0x1`, `1_000`, `NaN`, `Infinity`, `1a`, `-01`, `00`,
	`tru`, `truex`, `True`, `nul`, `nulll`, `fals`, `t`, `"\x"`, `"\u123"`, `"\u123g"`, `"\`, `"`, `'a'`, "\"\x00\"",
	"\ufeff{}", "{}\x00", "\x00", "\x0b1", "[1,\x0c2]", `{"a":[}`, `/**/1`, "\u00a01",
}

func TestValueLimit(t *testing.T) {
	t.Parallel()
	list := func(values int) []byte { return []byte("[" + strings.Repeat("1,", values-2) + "1]") }
	object := func(members int) []byte { return []byte("{" + strings.Repeat(`"":1,`, members-1) + `"":1}`) }
	var d Doc
	for _, body := range [][]byte{list(MaxNodes), object((MaxNodes - 1) / 2)} {
		if err := d.Parse(body); err != nil {
			t.Errorf("%.10s: %v for as many as may be", body, err)
		}
	}
	for _, body := range [][]byte{list(MaxNodes + 1), list(8 * MaxNodes), object(MaxNodes/2 + 1)} {
		d = Doc{}
		if err := d.Parse(body); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.10s: %v for one more, want ErrTooLarge", body, err)
		}
	}
}

func TestAcceptsLikeEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, text := range documents {
		checkAgainstOthers(t, []byte(text))
	}
}

// checkAgainstOthers compares the verdict with encoding/json's and with jsontext's, told to allow what we
// allow.
func checkAgainstOthers(t *testing.T, body []byte) (accepted bool) {
	t.Helper()
	var d Doc
	err := d.Parse(body)
	if got, want := err == nil, json.Valid(body); got != want {
		t.Errorf("%q: accepted %v (%v), encoding/json %v", body, got, err, want)
	}
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	if got, want := err == nil, jsontext.Value(body).IsValid(lenient...); got != want {
		t.Errorf("%q: accepted %v (%v), jsontext %v", body, got, err, want)
	}
	if err != nil && !errors.Is(err, ErrSyntax) && !errors.Is(err, ErrTooDeep) {
		t.Errorf("%q: error of no kind: %v", body, err)
	}
	if err != nil && d.Root().Kind() != Absent {
		t.Errorf("%q: a refused body has a root", body)
	}
	return err == nil
}

func TestDepthIsBounded(t *testing.T) {
	t.Parallel()
	for _, around := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		opening, closing := around[0], around[1]
		deepest := strings.Repeat(opening, MaxDepth-1) + "[]" + strings.Repeat(closing, MaxDepth-1)
		if !checkAgainstOthers(t, []byte(deepest)) {
			t.Errorf("%d levels of %s are refused", MaxDepth, opening)
		}
		if got := Hash([]byte(deepest)); !strings.HasPrefix(got, canonicalPrefix) {
			t.Errorf("%d levels of %s have the fingerprint %s", MaxDepth, opening, got)
		}
		var d Doc
		deeper := []byte(opening + deepest + closing)
		if err := d.Parse(deeper); !errors.Is(err, ErrTooDeep) {
			t.Errorf("%d levels of %s: %v, want ErrTooDeep", MaxDepth+1, opening, err)
		}
		if json.Valid(deeper) {
			t.Errorf("encoding/json accepts %d levels: is its bound another now?", MaxDepth+1)
		}
	}
	beside := "[" + strings.Repeat("[],", 2*MaxDepth) + "{}]"
	if !checkAgainstOthers(t, []byte(beside)) {
		t.Error("containers beside each other count as depth")
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	huge, err := syscall.Mmap(-1, 0, maxBytes+1, syscall.PROT_NONE,
		syscall.MAP_ANON|syscall.MAP_PRIVATE|syscall.MAP_NORESERVE) // a look at it would end the process
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Munmap(huge) }()
	var d Doc
	if err := d.Parse(huge); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestIndexMemory(t *testing.T) {
	for _, unit := range []string{"0,", "[],", "{},", `"",`, `{"":0},`, `",,,,,,,,,,",`, `"[[[[{{{{::::",`, `"a text of words",`} {
		body := []byte("[" + strings.Repeat(unit, 10_000) + "0]")
		var d Doc
		if err := d.Parse(body); err != nil {
			t.Fatal(err)
		}
		if got := uintptr(cap(d.nodes)) * unsafe.Sizeof(node{}); got > 6*uintptr(len(body))+64 {
			t.Errorf("%d bytes of %q: an index of %d bytes", len(body), unit, got)
		}
		allocs := testing.AllocsPerRun(3, func() {
			var d Doc
			_ = d.Parse(body)
		})
		if allocs > 2 {
			t.Errorf("%d bytes of %q: the index was made in %v steps", len(body), unit, allocs)
		}
	}
}

func TestErrorsHideContent(t *testing.T) {
	t.Parallel()
	var d Doc
	for _, text := range []string{`{"token":"sesame"`, `{"sesame"`, `{"a":sesame}`, `{"a":1}sesame`, `["sesame\x"]`} {
		if err := d.Parse([]byte(text)); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range documents {
		f.Add([]byte(text))
	}
	f.Add([]byte(notification))
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		if !checkAgainstOthers(t, body) {
			return
		}
		checkFingerprint(t, body)
		var d Doc
		if err := d.Parse(body); err != nil {
			t.Fatal(err)
		}
		if got := d.Root().Raw(); !bytes.Equal(got, bytes.Trim(body, " \t\r\n")) {
			t.Errorf("%q: the root's bytes are %q", body, got)
		}
		checkTexts(t, &d, jsontext.NewDecoder(bytes.NewReader(body),
			jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)))
		if !bytes.Equal(body, before) {
			t.Error("the body was changed")
		}
	})
}

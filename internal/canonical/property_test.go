package canonical

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

// tree is a JSON value: a lexeme (number or literal), a text, an array or an object of unique names.
type tree struct {
	lexeme  string
	text    string
	items   []tree // of an array or an object
	names   []string
	variety byte // 'l', 's', 'a', 'o'
}

func anyTree(depth int) *rapid.Generator[tree] {
	return rapid.Custom(func(t *rapid.T) tree {
		most := 3
		if depth == 0 {
			most = 1
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0:
			number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?`)
			return tree{variety: 'l', lexeme: rapid.OneOf(rapid.SampledFrom([]string{"true", "false", "null"}), number).Draw(t, "lexeme")}
		case 1:
			return tree{variety: 's', text: anyText().Draw(t, "text")}
		case 2:
			return tree{variety: 'a', items: rapid.SliceOfN(anyTree(depth-1), 0, 4).Draw(t, "items")}
		default:
			names := rapid.SliceOfNDistinct(anyText(), 0, 5, rapid.ID[string]).Draw(t, "names")
			items := rapid.SliceOfN(anyTree(depth-1), len(names), len(names)).Draw(t, "values")
			return tree{variety: 'o', names: names, items: items}
		}
	})
}

func anyText() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]string{"", "a", "aa", "\"", "\\", "/", "\n", "\x00", "\x1f", "é", "€", "\U0001F600", "\\u0061", "\uFFFD"})
	return rapid.OneOf(odd, rapid.String())
}

// spell writes a tree in one of its many spellings.
func (v tree) spell(r *rand.Rand) string {
	blank := func() string { return []string{"", "", "", " ", "\n", "\t\r "}[r.IntN(6)] }
	switch v.variety {
	case 'l':
		return blank() + v.lexeme + blank()
	case 's':
		return blank() + spellText(v.text, r) + blank()
	}
	var parts []string
	for i, item := range v.items {
		part := item.spell(r)
		if v.variety == 'o' {
			part = blank() + spellText(v.names[i], r) + blank() + ":" + part
		}
		parts = append(parts, part)
	}
	if v.variety == 'a' {
		return blank() + "[" + strings.Join(parts, ",") + blank() + "]" + blank()
	}
	r.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return blank() + "{" + strings.Join(parts, ",") + blank() + "}" + blank()
}

func spellText(text string, r *rand.Rand) string {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '/': `\/`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	var out strings.Builder
	out.WriteByte('"')
	for _, c := range text {
		format := []string{`\u%04x`, `\u%04X`}[r.IntN(2)]
		escape, ok := short[c]
		switch n := r.IntN(4); {
		case ok && n < 2:
			out.WriteString(escape)
		case n == 3 && c != '"' && c != '\\' && c >= ' ':
			out.WriteRune(c)
		case c > 0xFFFF:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&out, format+format, high, low)
		default:
			fmt.Fprintf(&out, format, c)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// change returns the tree with one thing changed, somewhere.
func (v tree) change(r *rand.Rand) tree {
	if len(v.items) > 0 && r.IntN(3) > 0 {
		i := r.IntN(len(v.items))
		v.items = slices.Clone(v.items)
		switch choice := r.IntN(4); {
		case choice == 0 && v.variety == 'o':
			v.names = slices.Clone(v.names)
			v.names[i] += "\x01" + strings.Join(v.names, "")
		case choice == 1:
			v.items = slices.Delete(v.items, i, i+1)
			if v.variety == 'o' {
				v.names = slices.Delete(slices.Clone(v.names), i, i+1)
			}
		default:
			v.items[i] = v.items[i].change(r)
		}
		return v
	}
	switch v.variety {
	case 'l':
		if v.lexeme[0] > '9' {
			return tree{variety: 's', text: v.lexeme}
		}
		return tree{variety: 'l', lexeme: strings.TrimPrefix("-"+v.lexeme, "--")}
	case 's':
		return tree{variety: 's', text: v.text + "\x01"}
	case 'a':
		return tree{variety: 'a', items: append(slices.Clone(v.items), tree{variety: 'l', lexeme: "0"})}
	default:
		name := "\x01" + strings.Join(v.names, "")
		return tree{variety: 'o', names: append(slices.Clone(v.names), name), items: append(slices.Clone(v.items), tree{variety: 'a'})}
	}
}

func TestSpellings(t *testing.T) {
	t.Parallel()
	var pool Pool
	rapid.Check(t, func(t *rapid.T) {
		v := anyTree(4).Draw(t, "tree")
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, seed))
		one, other, changed := v.spell(r), v.spell(r), v.change(r).spell(r)

		sum := Hash([]byte(one))
		if !strings.HasPrefix(sum, canonicalPrefix) {
			t.Fatalf("%s: fingerprint %s", one, sum)
		}
		if got := Hash([]byte(other)); got != sum {
			t.Errorf("one content, two fingerprints:\n%s\n%s", one, other)
		}
		if got := Hash([]byte(changed)); got == sum {
			t.Errorf("two contents, one fingerprint:\n%s\n%s", one, changed)
		}
		d, err := pool.Parse([]byte(one))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Root().Fingerprint(); got != sum || d.Root().Fingerprint() != got {
			t.Errorf("a Doc that was used before says %s, a new one %s", got, sum)
		}
		pool.Put(d)
	})
}

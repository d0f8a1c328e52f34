package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"webhook-gateway/internal/capture"
)

// update rewrites the expectations in testdata: go test ./test/replay -update, then read the diff.
var update = flag.Bool("update", false, "rewrite the expectations of captures that do not hold")

const (
	bomb        = "nylas/gzip-bomb"
	nylasData   = "testdata/nylas"
	slackData   = "testdata/slack"
	vectorsData = "testdata/vectors"
)

// all returns every capture of testdata, read once. Callers must not change them.
var all = sync.OnceValues(func() ([]*Capture, error) { return capture.LoadAll("testdata") })

// everything holds all captures; committed holds those that are signed anew.
func everything(t testing.TB) []*Capture {
	t.Helper()
	list, err := all()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Clone(list)
}

func committed(t testing.TB) []*Capture {
	t.Helper()
	return slices.DeleteFunc(everything(t), func(c *Capture) bool { return strings.HasPrefix(c.Name, "vectors/") })
}

func TestCaptureShapes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		folder string
		least  int
	}{{nylasData, 30}, {slackData, 40}, {vectorsData, 10}} {
		list := slices.DeleteFunc(everything(t), func(c *Capture) bool { return !strings.HasPrefix("testdata/"+c.Name, tt.folder+"/") })
		if len(list) < tt.least {
			t.Errorf("%s holds %d captures, want %d", tt.folder, len(list), tt.least)
		}
		bodies := make(map[string]string)
		for _, c := range list {
			if other := bodies[string(c.Content)]; other != "" && len(c.Content) > 0 && tt.folder != vectorsData {
				t.Errorf("%s and %s have the same body", c.Name, other)
			}
			bodies[string(c.Content)] = c.Name
		}
	}
}

func TestBodiesMatchDigests(t *testing.T) {
	t.Parallel()
	n := 0
	for _, c := range everything(t) {
		if c.Body == nil {
			continue
		}
		content, err := os.ReadFile(filepath.Join(c.Dir, c.Body.File))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if hex.EncodeToString(sum[:]) != c.Body.SHA256 || len(content) != c.Body.Bytes {
			t.Errorf("%s: %d bytes with another hash", c.Name, len(content))
		}
		n++
	}
	if n < 70 {
		t.Errorf("only %d bodies", n)
	}
}

func TestCapturesAreCanonical(t *testing.T) {
	t.Parallel()
	for _, c := range everything(t) {
		want, err := capture.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(c.Dir, capture.File)); err != nil || string(got) != string(want) {
			t.Errorf("%s: %v; the file is not\n%s", c.Name, err, want)
		}
	}
}

// live matches texts that must not be committed: the forms of tokens, keys and signatures.
var live = regexp.MustCompile(`xox[abposr]-|xapp-|whsec_|sk_live_|-----BEGIN|hooks\.slack\.com/(services|actions|commands|app)|nyk_v0|eyJhbGciOi`)

func TestNothingLiveIsCommitted(t *testing.T) {
	t.Parallel()
	for _, c := range everything(t) {
		if strings.HasPrefix(c.Name, "vectors/") { // published, with the vendor's own stand-ins
			if c.Sign.Mode != capture.Recorded {
				t.Errorf("%s is signed %s", c.Name, c.Sign.Mode)
			}
			continue
		}
		if c.Name == bomb {
			continue // twenty million blanks
		}
		plain, err := c.Plain()
		if err != nil {
			plain = c.Content
		}
		description, err := os.ReadFile(filepath.Join(c.Dir, capture.File))
		if err != nil {
			t.Fatal(err)
		}
		if found := live.Find(append(plain, description...)); found != nil {
			t.Errorf("%s holds %q", c.Name, found)
		}
		if c.Sign.Mode != capture.Resign && c.Sign.Mode != capture.Unsigned {
			t.Errorf("%s is signed %s", c.Name, c.Sign.Mode)
		}
	}
}

func TestCapturesSayWhatToExpect(t *testing.T) {
	t.Parallel()
	keys := make(map[string]string)
	for _, c := range committed(t) {
		e := c.Expect
		if e.Again == nil || e.Twenty == nil {
			t.Errorf("%s: not said for again, or for twenty at once", c.Name)
			continue
		}
		if want := e.After(20); want.Rows != e.Twenty.Rows || want.Drops != e.Twenty.Drops || want.Outcomes.String() != e.Twenty.Outcomes.String() {
			t.Errorf("%s: twenty at once come to %v, and twenty one after the other to %v", c.Name, *e.Twenty, want)
		}
		if len(e.Stored) != e.Once.Rows {
			t.Errorf("%s: %d rows are described, and %d expected", c.Name, len(e.Stored), e.Once.Rows)
		}
		for _, row := range e.Stored {
			key := c.Provider + " " + c.Job.Name + " " + row.ID
			if other := keys[key]; other != "" && row.ID != "" {
				t.Errorf("%s has the id of %s: each must be new to a gateway that has seen the others", c.Name, other)
			}
			keys[key] = c.Name
		}
	}
}

func TestEveryCaptureInMemory(t *testing.T) {
	t.Parallel()
	list := committed(t)
	target := func() Target {
		g := NewMemory(t, list).Target()
		g.Update = *update
		return g
	}
	t.Run("once and again", func(t *testing.T) { Run(t, list, target()) })
	var some []*Capture // the binary accepts all of these
	for i := 0; i < len(list); i += 4 {
		some = append(some, list[i])
	}
	t.Run("twenty at once", func(t *testing.T) { Twenty(t, some, target()) })
	t.Run("shuffled", func(t *testing.T) { Shuffled(t, list, target(), 3, 1) })
	t.Run("refused", func(t *testing.T) { Negatives(t, list, target()) })
}

func TestPublicVectors(t *testing.T) {
	t.Parallel()
	Recorded(t, Load(t, vectorsData))
}

func TestEveryScenarioInMemory(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/scenarios/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d scenarios, %v", len(files), err)
	}
	for _, s := range LoadScenarios(t, files...) {
		t.Run(s.Name, func(t *testing.T) { Play(t, s, NewMemory(t, s.Captures()).Target()) })
	}
}

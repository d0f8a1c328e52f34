package replay

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"webhook-gateway/internal/capture"
	"webhook-gateway/providers"
)

// Run sends each capture twice, one after the other, each in a subtest of its name, and checks both outcomes. If a
// capture expects nothing of the second time, it expects the same as of the first. The target must not have received
// the captures before.
func Run(t *testing.T, list []*Capture, target Target) {
	first := target.watch(t)
	for _, c := range list {
		t.Run(c.Name, func(t *testing.T) {
			once := target.send(t, c, 1)
			second := target.watch(t)
			again := target.send(t, c, 1)
			third := target.watch(t)
			want, got := copied(c.Expect), copied(c.Expect)
			if want.Again == nil && !target.Update {
				want.Again = new(want.Once)
			}
			if target.Watch != nil {
				first.fill(&once, second)
				second.fill(&again, third)
				compareBodies(t, c, second.since(first))
			}
			got.Once, got.Again, got.Stored = once, &again, rowsOf(second.since(first))
			if want.Stored == nil && !target.Update {
				got.Stored = nil
			}
			target.settle(t, c, want, got)
			first = third
		})
	}
}

// Twenty sends each capture twenty times at once, each in a subtest of its name. If a capture does not say what to
// expect of that, for example an imported one, the result must equal that of twenty times one after the other. The
// target must not have received the captures before.
func Twenty(t *testing.T, list []*Capture, target Target) {
	before := target.watch(t)
	for _, c := range list {
		t.Run(c.Name, func(t *testing.T) {
			twenty := target.send(t, c, 20)
			after := target.watch(t)
			want, got := copied(c.Expect), copied(c.Expect)
			if want.Twenty == nil && !target.Update {
				want.Twenty = new(want.After(20))
			}
			if target.Watch != nil {
				before.fill(&twenty, after)
			}
			got.Twenty = &twenty
			target.settle(t, c, want, got)
			before = after
		})
	}
}

// Shuffled sends every capture the given number of times in a random order from two senders at once. It checks each
// by its rows and all together by their sum. The target must not have received the captures before.
func Shuffled(t *testing.T, list []*Capture, target Target, times int, seed uint64) {
	before := target.watch(t)
	plan := capture.Plan{Times: times, Concurrency: 2, Shuffle: true, Seed: seed}
	var mu sync.Mutex
	answers := make([][]Answer, len(list))
	plan.Run(t.Context(), len(list), func(i int) {
		a, err := target.Send(t.Context(), list[i], nil)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		answers[i] = append(answers[i], a)
	})
	sum := Result{Outcomes: Outcomes{}}
	for i, c := range list {
		want := c.Expect.After(times)
		for _, a := range answers[i] {
			if a.Status != want.Status || a.Body != want.Answer {
				t.Errorf("%s: answered %d %q, want %d %q", c.Name, a.Status, a.Body, want.Status, want.Answer)
			}
		}
		sum.Outcomes = sum.Outcomes.Plus(want.Outcomes, 1)
		sum.Rows += want.Rows
		sum.Drops += want.Drops
	}
	if target.Watch == nil {
		return
	}
	after := target.watch(t)
	var got Result
	before.fill(&got, after)
	if diff := cmp.Diff(sum, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("of all together (-want +got):\n%s", diff)
	}
	stored := make(map[Row]int)
	for _, s := range after.since(before) {
		stored[s.Row]++
	}
	for _, c := range list {
		for _, row := range c.Expect.Stored {
			want := 1
			if row.ID == "" {
				want = times
			}
			if stored[row] != want {
				t.Errorf("%s: its row %+v is there %d times, want %d", c.Name, row, stored[row], want)
			}
		}
	}
}

// Negatives sends each signed capture in ways that must be refused: with a flipped byte in its body, signed with a
// foreign secret, without each of its signature headers, and too late if the vendor signs a time. Each must be
// refused, and nothing of it may be stored.
func Negatives(t *testing.T, list []*Capture, target Target) {
	stale := map[string]string{"slack": "stale"} // Nylas signs no time
	for _, c := range list {
		if c.Sign.Mode != capture.Resign || c.Sign.Alter != nil || isProbe(c) {
			continue
		}
		spoiled := map[string]Alter{"mismatch": {FlipByte: new(int)}, "mismatch, foreign": {Foreign: true}}
		for name := range Signers()[c.Provider]("secret", nil, c.ReceivedAt) {
			spoiled["unsigned, no "+name] = Alter{DropHeader: name}
		}
		if why := stale[c.Provider]; why != "" {
			spoiled[why] = Alter{Age: tooOld}
		}
		t.Run(c.Name, func(t *testing.T) {
			for name, alter := range spoiled {
				if alter.FlipByte != nil && len(c.Content) == 0 {
					continue
				}
				before := target.watch(t)
				a, err := target.Send(t.Context(), c, &alter)
				if err != nil || a.Status != 401 || a.Body != "" {
					t.Errorf("%s: answered %d %q, %v; want 401", name, a.Status, a.Body, err)
				}
				var got Result
				before.fill(&got, target.watch(t))
				reason, _, _ := strings.Cut(name, ",")
				if want := (Outcomes{reason: 1}); target.Watch != nil && (!cmp.Equal(got.Outcomes, want) || got.Rows+got.Drops != 0) {
					t.Errorf("%s: %s with %d rows and %d drops, want %s", name, got.Outcomes, got.Rows, got.Drops, want)
				}
			}
		})
	}
}

// isProbe reports whether a capture needs no signature.
func isProbe(c *Capture) bool {
	p, ok := vendor(c.Provider).(providers.Prober)
	return ok && p.Probe(c.Value("Content-Type"), c.Content)
}

// send sends a capture n times at once. It fails the test unless all have the same status and answer.
func (g Target) send(t *testing.T, c *Capture, n int) Result {
	t.Helper()
	answers := make([]Answer, n)
	errs := make([]error, n)
	var senders sync.WaitGroup
	gun := make(chan struct{})
	for i := range n {
		senders.Go(func() {
			<-gun
			answers[i], errs[i] = g.Send(t.Context(), c, nil)
		})
	}
	close(gun)
	senders.Wait()
	for i, a := range answers {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if a.Status != answers[0].Status || a.Body != answers[0].Body {
			t.Errorf("one of %d at once is answered %d %q, another %d %q", n, a.Status, a.Body, answers[0].Status, answers[0].Body)
		}
	}
	return Result{Status: answers[0].Status, Answer: answers[0].Body}
}

func (g Target) watch(t testing.TB) Seen {
	t.Helper()
	if g.Watch == nil {
		return Seen{}
	}
	return g.Watch.Seen(t)
}

// fill sets the outcomes of what was sent between the two observations.
func (s Seen) fill(r *Result, later Seen) {
	r.Outcomes = later.Outcomes.Plus(s.Outcomes, -1)
	r.Rows = len(later.since(s))
	r.Drops = later.Drops - s.Drops
}

// since returns the rows that were added since an earlier observation.
func (s Seen) since(earlier Seen) []Stored { return s.Stored[len(earlier.Stored):] }

// settle compares the outcome of a capture with the expected one, or with Update makes it the expected one.
func (g Target) settle(t *testing.T, c *Capture, want, got Expect) {
	t.Helper()
	if g.Watch == nil { // without a Watch only answers are known
		for _, e := range []*Expect{&want, &got} {
			e.Stored = nil
			for _, r := range []*Result{&e.Once, e.Again, e.Twenty} {
				if r != nil {
					r.Outcomes, r.Rows, r.Drops = nil, 0, 0
				}
			}
		}
	}
	diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(func(a, b Row) int {
		return slices.Compare([]string{a.Type, a.ID, a.Hash}, []string{b.Type, b.ID, b.Hash})
	}))
	switch {
	case diff == "":
	case g.Update && g.Watch != nil:
		if err := c.Rewrite(got); err != nil {
			t.Error(err)
		}
	default:
		t.Errorf("its expectation does not hold (-want +got):\n%s", diff)
	}
}

// copied returns an Expect whose results can be changed without changing the capture's.
func copied(e Expect) Expect {
	if e.Again != nil {
		e.Again = new(*e.Again)
	}
	if e.Twenty != nil {
		e.Twenty = new(*e.Twenty)
	}
	return e
}

func rowsOf(stored []Stored) []Row {
	var rows []Row
	for _, s := range stored {
		rows = append(rows, s.Row)
	}
	return rows
}

// compareBodies checks that the stored bodies are what was sent: the whole body, or its parts.
func compareBodies(t *testing.T, c *Capture, stored []Stored) {
	t.Helper()
	if len(stored) == 0 {
		return
	}
	want := [][]byte{c.Content}
	if r, ok := vendor(c.Provider).(providers.Redactor); ok {
		want[0] = r.Redact(c.Content)
	}
	if deliveries := c.Deliveries(vendor(c.Provider)); len(deliveries) > 0 && deliveries[0].Body != nil {
		want = nil
		for _, d := range deliveries {
			want = append(want, d.Body)
		}
	}
	for _, s := range stored {
		if !slices.ContainsFunc(want, func(body []byte) bool { return bytes.Equal(body, s.Body) }) {
			t.Errorf("a stored body of %d bytes is not what was sent", len(s.Body))
		}
	}
}

// RowID returns the vendor's id from a row's key, <job>/<id>; empty if the id was minted.
func RowID(deliveryKey, rowID string) string {
	_, id, _ := strings.Cut(deliveryKey, "/")
	if _, err := uuid.Parse(id); err == nil && id == rowID {
		return ""
	}
	return id
}

package replay

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"webhook-gateway/internal/capture"
)

// LoadScenarios reads scenarios. It fails the test if one is not valid.
func LoadScenarios(t testing.TB, files ...string) []*Scenario {
	t.Helper()
	var list []*Scenario
	for _, file := range files {
		s, err := capture.LoadScenario(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// Play plays a scenario beat by beat, as fast as the answers come. It sends the steps of a beat at once, but those of
// one sender one after the other. It checks the answers of each step, and the outcomes of each beat.
func Play(t *testing.T, s *Scenario, target Target) {
	for n, beat := range s.Beats() {
		before := target.watch(t)
		senders := make(map[string][]*capture.Step)
		want := Result{Outcomes: Outcomes{}}
		for _, step := range beat {
			senders[step.Sender] = append(senders[step.Sender], step)
			want.Outcomes = want.Outcomes.Plus(step.Expect.Outcomes, 1)
			want.Rows += step.Expect.Rows
			want.Drops += step.Expect.Drops
		}
		var all sync.WaitGroup
		for _, steps := range senders {
			all.Go(func() {
				for _, step := range steps {
					target.step(t, step)
				}
			})
		}
		all.Wait()
		if target.Watch == nil {
			continue
		}
		var got Result
		before.fill(&got, target.watch(t))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("beat %d at %s (-want +got):\n%s", n+1, beat[0].Offset, diff)
		}
	}
}

// step sends a step as often as it says, at once.
func (g Target) step(t *testing.T, step *capture.Step) {
	var all sync.WaitGroup
	for range step.Times {
		all.Go(func() {
			a, err := g.Send(t.Context(), step.Capture, step.Alter)
			if err != nil {
				t.Error(err)
			} else if a.Status != step.Expect.Status || a.Body != step.Expect.Answer {
				t.Errorf("%s at %s: answered %d %q, want %d %q", step.Delivery, step.Offset, a.Status, a.Body, step.Expect.Status, step.Expect.Answer)
			}
		})
	}
	all.Wait()
}

package replay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"webhook-gateway/internal/capture"
)

// tooOld is older than any vendor that signs a time allows.
const tooOld = 10 * time.Minute

// Recorded sends each capture with a recorded signature to a gateway in memory, at the time when it was received, and
// checks the result. Only a signature that a vendor made or published proves the verifier: one made here could only
// prove that it agrees with itself.
func Recorded(t *testing.T, list []*Capture) {
	for _, c := range list {
		if c.Sign.Mode != capture.Recorded {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(c.ReceivedAt)) // the bubble's clock begins in the year 2000
				m := NewMemory(t, []*Capture{c})
				place, err := m.places.Of(c)
				if err != nil {
					t.Fatal(err)
				}
				req, err := c.RecordedRequest(t.Context(), "http://gateway.test", place.Path)
				if err != nil {
					t.Fatal(err)
				}
				a, err := m.Target().do(req)
				if err != nil {
					t.Fatal(err)
				}
				seen := m.Seen(t)
				got := Result{Status: a.Status, Answer: a.Body, Outcomes: seen.Outcomes, Rows: len(seen.Stored), Drops: seen.Drops}
				if diff := cmp.Diff(c.Expect.Once, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("its expectation does not hold (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(c.Expect.Stored, rowsOf(seen.Stored), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("rows (-want +got):\n%s", diff)
				}
			})
		})
	}
}

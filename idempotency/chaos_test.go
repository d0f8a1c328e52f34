package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"webhook-gateway/idempotency"
)

// slot is a key that workers compete for until it is completed and the next one replaces it.
type slot struct {
	generation atomic.Int64
	completed  sync.Map // generation -> what was recorded
}

func TestChaosCompletesOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	keys := b.patient()
	slots := [3]*slot{{}, {}, {}}
	var completions, reclaims, claims atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	errs := together(16, func(worker int) error {
		random := rand.New(rand.NewPCG(uint64(worker), 1))
		for ctx.Err() == nil {
			n := random.IntN(len(slots))
			s := slots[n]
			g := s.generation.Load()
			o, err := keys.Claim(t.Context(), b.ref("tool.x", fmt.Sprint(n, ":", g)), content("1"), 20*time.Millisecond)
			claims.Add(1)
			switch {
			case errors.Is(err, idempotency.ErrContended):
				continue
			case err != nil:
				return err
			}
			switch o.Kind {
			case idempotency.Completed:
				if was, ok := s.completed.Load(g); ok && was != string(o.Answer.Response) {
					return fmt.Errorf("key %d:%d answers %s, was completed with %s", n, g, o.Answer.Response, was)
				}
				s.generation.CompareAndSwap(g, g+1)
			case idempotency.Claimed:
				if o.Claim.Reclaimed {
					reclaims.Add(1)
				}
				if err := chaoticEnd(t.Context(), keys, o.Claim, random, func(answer string) error {
					if was, twice := s.completed.LoadOrStore(g, answer); twice {
						return fmt.Errorf("key %d:%d was completed with %s and with %s", n, g, was, answer)
					}
					completions.Add(1)
					return nil
				}); err != nil {
					return err
				}
			case idempotency.Processing:
			default:
				return fmt.Errorf("key %d:%d is %q", n, g, o.Kind)
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d claims, %d reclaims, %d completions", claims.Load(), reclaims.Load(), completions.Load())
	if completions.Load() == 0 || reclaims.Load() == 0 {
		t.Errorf("%d completions and %d reclaims: nothing was fought over", completions.Load(), reclaims.Load())
	}
	if n := one[int64](b, `SELECT count(*) FROM agent.idempotency_keys WHERE status = 'completed'`); n != completions.Load() {
		t.Errorf("%d completed rows, want %d", n, completions.Load())
	}
}

// chaoticEnd completes at once or after the lease, releases, or dies.
func chaoticEnd(ctx context.Context, keys *idempotency.Service, c *idempotency.Claim, random *rand.Rand, completed func(string) error) error {
	switch random.IntN(6) {
	case 0: // dies
		return nil
	case 1:
		_, err := keys.Release(ctx, c)
		return err
	case 2, 3: // stalls past its lease
		timer := time.NewTimer(time.Until(c.Deadline) + 5*time.Millisecond)
		<-timer.C
	}
	answer := strconv.Quote(uuid.NewString())
	recorded, err := keys.Complete(ctx, c, response(answer))
	if err != nil || !recorded {
		return err
	}
	return completed(answer)
}

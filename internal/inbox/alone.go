package inbox

import (
	"context"
	"fmt"
	"time"

	"webhook-gateway/idempotency"
)

// How long to wait before the next attempt at a delivery that got no answer.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = 200 * time.Millisecond
)

// settleEachAlone settles rows beside the batches, after an error that blames none of them.
func (b *Inbox) settleEachAlone(rows []*row, err error) {
	b.log.Debug("batch not settled, its deliveries are settled alone", "deliveries", len(rows), "err", err)
	for _, r := range rows {
		r.entry.work.Troubled(err)
	}
	for _, group := range groupForRetry(rows) {
		b.startAlone(group, false)
	}
}

// groupForRetry returns which rows are settled together beside the batches: each claim alone, and the drops of one
// request in one group, because each transaction that keeps some of them stores the request.
func groupForRetry(rows []*row) [][]*row {
	groups := make([][]*row, 0, len(rows))
	ofRequest := make(map[*entry]int)
	for _, r := range rows {
		if r.drop == nil {
			groups = append(groups, []*row{r})
			continue
		}
		i, ok := ofRequest[r.entry]
		if !ok {
			i = len(groups)
			ofRequest[r.entry] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

// straggler is a claim, or the drops of one request, that is settled beside the batches.
type straggler struct {
	rows    []*row
	examine bool // the claim in its way must be examined
}

// startAlone settles a straggler in the background: what it waits for must not hold up others.
func (b *Inbox) startAlone(rows []*row, examine bool) {
	b.straggling.Go(func() { b.settleAlone(&straggler{rows, examine}) })
}

// settleAlone repeats until the rows have their endings or their deadline is over.
func (b *Inbox) settleAlone(s *straggler) {
	work := s.rows[0].entry.work
	ctx, cancel := context.WithDeadline(b.running, work.Deadline)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		select {
		case b.alone <- struct{}{}:
		case <-ctx.Done():
			b.failAll(s.rows)
			return
		}
		err := b.tryAlone(s)
		<-b.alone
		if err == nil {
			return
		}
		work.Troubled(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			b.failAll(s.rows)
			return
		}
	}
}

// tryAlone makes attempts for as long as each changes what the next one does. Nil: the rows have ended, or other
// stragglers have them. An error is one that may pass.
func (b *Inbox) tryAlone(s *straggler) error {
	for {
		again, err := b.attemptAlone(s)
		if !again {
			return err
		}
	}
}

// attemptAlone makes one attempt, and reports whether another one should follow at once.
func (b *Inbox) attemptAlone(s *straggler) (again bool, err error) {
	examine := s.examine && s.rows[0].drop == nil
	verdicts, err := b.attempt(func(ctx context.Context) ([]idempotency.Verdict, error) {
		if examine {
			return b.claimExamined(ctx, s.rows[0])
		}
		return b.transact(ctx, s.rows)
	})
	switch {
	case err == nil:
		mismatched, undecided := b.end(s.rows, verdicts)
		s.examine = len(undecided) > 0
		return len(mismatched)+len(undecided) > 0, nil // only a claim, which stands alone, is either
	case isRefusal(err) && examine:
		// A batch would insert the same data. What only the update refuses is our fault.
		b.metrics.faults.Inc()
		return false, fmt.Errorf("PostgreSQL refuses to take a key over: %w", err)
	case isRefusal(err):
		return false, b.splitRefused(s.rows, err)
	case isMissingDay(err) && b.makeDay():
		return true, nil
	}
	return false, err
}

// splitRefused settles each half of refused rows by itself, and a single one as a malformed drop. An error says that
// the data may not be at fault, and that it may pass.
func (b *Inbox) splitRefused(rows []*row, refusal error) error {
	if err := b.probe(rows); err != nil {
		return err
	}
	if len(rows) > 1 {
		b.startAlone(rows[:len(rows)/2], false)
		b.startAlone(rows[len(rows)/2:], false)
	} else if b.dropRefused(rows[0], refusal) {
		b.startAlone(rows, false)
	}
	return nil
}

// failAll fails rows whose deadline is over.
func (b *Inbox) failAll(rows []*row) {
	for _, r := range rows {
		b.fail(r)
	}
}

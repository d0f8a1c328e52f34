package drops

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// admit asks for n drops of the origin at one instant and sums what is kept of them.
func admit(l *Limiter, origin Origin, now time.Time, n int) (rows, bodies, count int) {
	for range n {
		keep := l.Admit(origin, uuid.New(), now)
		if keep.Row {
			rows++
		}
		if keep.Body {
			bodies++
		}
		count += keep.Count
	}
	return rows, bodies, count
}

func anOrigin() Origin { return Origin{Verifier: uuid.New(), Reason: UnknownJob} }

func TestLimiterBounds(t *testing.T) {
	t.Parallel()
	origin := anOrigin()
	for i, want := range map[int]Keep{
		1:    {Row: true, Body: true, Count: 1},
		100:  {Row: true, Body: true, Count: 1},
		101:  {Row: true, Count: 1},
		1000: {Row: true, Count: 1},
		1001: {},
		5000: {},
	} {
		fresh := NewLimiter()
		admit(fresh, origin, noon(), i-1)
		if diff := cmp.Diff(want, fresh.Admit(origin, uuid.New(), noon().Add(59*time.Second))); diff != "" {
			t.Errorf("drop %d of a minute (-want +got):\n%s", i, diff)
		}
	}
	rows, bodies, count := admit(NewLimiter(), origin, noon(), 5000)
	if rows != 1000 || bodies != 100 || count != 1000 {
		t.Errorf("5,000 drops: %d rows, %d requests, standing for %d; want 1000, 100, 1000", rows, bodies, count)
	}
}

func TestLimiterNextMinute(t *testing.T) {
	t.Parallel()
	l, origin := NewLimiter(), anOrigin()
	admit(l, origin, noon(), 1007)
	got := []Keep{l.Admit(origin, uuid.New(), noon().Add(time.Minute)), l.Admit(origin, uuid.New(), noon().Add(time.Minute))}
	want := []Keep{{Row: true, Body: true, Count: 8}, {Row: true, Body: true, Count: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a minute later (-want +got):\n%s", diff)
	}
}

func TestLimiterPerOrigin(t *testing.T) {
	t.Parallel()
	l, origin := NewLimiter(), anOrigin()
	admit(l, origin, noon(), 2000)
	for name, other := range map[string]Origin{
		"another verifier": {Verifier: uuid.New(), Reason: origin.Reason},
		"another reason":   {Verifier: origin.Verifier, Reason: Malformed},
	} {
		if diff := cmp.Diff(Keep{Row: true, Body: true, Count: 1}, l.Admit(other, uuid.New(), noon())); diff != "" {
			t.Errorf("%s beside a flood (-want +got):\n%s", name, diff)
		}
	}
}

// Requests are settled out of order, and one that was kept on disk is old.
func TestLimiterEarlierInstant(t *testing.T) {
	t.Parallel()
	l, origin := NewLimiter(), anOrigin()
	admit(l, origin, noon(), 500)
	admit(l, origin, noon().Add(-time.Hour), 500)
	if keep := l.Admit(origin, uuid.New(), noon().Add(time.Second)); keep.Row {
		t.Error("an old instant began a new minute")
	}
}

func TestLimiterReturnKeepsCount(t *testing.T) {
	t.Parallel()
	l, origin := NewLimiter(), anOrigin()
	admit(l, origin, noon(), 1005)
	later := noon().Add(time.Minute)
	keep := l.Admit(origin, uuid.New(), later) // itself and 5 others
	l.Return(origin, uuid.New(), keep, later)
	l.Return(origin, uuid.New(), l.Admit(origin, uuid.New(), later), later)
	if got := l.Admit(origin, uuid.New(), later); got.Count != 6 {
		t.Errorf("the next row stands for %d drops, want 6", got.Count)
	}
	if got := l.Admit(origin, uuid.New(), later); got.Count != 1 {
		t.Errorf("and the one after it for %d, want 1", got.Count)
	}
}

func TestLimiterForgetsIdleOrigins(t *testing.T) {
	t.Parallel()
	l, owing := NewLimiter(), anOrigin()
	for range 100 {
		l.Admit(anOrigin(), uuid.New(), noon())
	}
	admit(l, owing, noon(), 1003)
	l.Admit(anOrigin(), uuid.New(), noon().Add(2*time.Minute))
	if got := len(l.minute); got != 2 {
		t.Errorf("%d origins are remembered, want the new one and the one that owes", got)
	}
	if got := l.Admit(owing, uuid.New(), noon().Add(time.Hour)); got.Count != 4 {
		t.Errorf("the next row stands for %d drops, want 4", got.Count)
	}
}

func TestLimiterMemory(t *testing.T) {
	t.Parallel()
	l := NewLimiter()
	for range maxOrigins + 500 {
		if keep := l.Admit(anOrigin(), uuid.New(), noon()); !keep.Row {
			t.Fatal("a new origin's drop has no row")
		}
	}
	if got := len(l.minute); got > maxOrigins {
		t.Errorf("%d origins are remembered, want at most %d", got, maxOrigins)
	}
}

func TestLimiterConcurrently(t *testing.T) {
	t.Parallel()
	l, origin := NewLimiter(), anOrigin()
	var calling sync.WaitGroup
	counts := make([]int, 8)
	for i := range counts {
		calling.Go(func() { _, _, counts[i] = admit(l, origin, noon(), 500) })
	}
	calling.Wait()
	total := l.Admit(origin, uuid.New(), noon().Add(time.Minute)).Count - 1
	for _, n := range counts {
		total += n
	}
	if total != 4000 {
		t.Errorf("the rows stand for %d drops, want 4000", total)
	}
}

func TestLimiterRequestOfMany(t *testing.T) {
	t.Parallel()
	l, origin, request := NewLimiter(), anOrigin(), uuid.New()
	for range 500 {
		if keep := l.Admit(origin, request, noon()); !keep.Body {
			t.Fatal("a request's later drop does not keep it")
		}
	}
	if _, bodies, _ := admit(l, origin, noon(), 200); bodies != 99 {
		t.Errorf("%d other requests are kept, want 99", bodies)
	}
}

func TestLimiterManyOfMany(t *testing.T) {
	t.Parallel()
	l, origin := NewLimiter(), anOrigin()
	requests := make([]uuid.UUID, 101)
	for i := range requests {
		requests[i] = uuid.New()
	}
	kept, rows, count := make(map[uuid.UUID]bool), 0, 0
	for range 1000 { // in turn, as several transactions admit them
		for _, request := range requests {
			keep := l.Admit(origin, request, noon())
			if keep.Body {
				kept[request] = true
			}
			if keep.Row {
				rows++
			}
			count += keep.Count
		}
	}
	if len(kept) != 100 || kept[requests[100]] {
		t.Errorf("%d requests are kept, want the first 100", len(kept))
	}
	if rows > 1100 {
		t.Errorf("%d rows, want at most 1,100", rows)
	}
	if count += l.Admit(origin, uuid.New(), noon().Add(time.Minute)).Count - 1; count != 101_000 {
		t.Errorf("the rows stand for %d drops, want 101,000", count)
	}

	one, two := NewLimiter(), anOrigin()
	for range 1000 {
		one.Admit(two, requests[0], noon())
	}
	if diff := cmp.Diff(Keep{Row: true, Body: true, Count: 1}, one.Admit(two, requests[1], noon())); diff != "" {
		t.Errorf("the second request of a minute (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Keep{}, one.Admit(two, requests[1], noon())); diff != "" {
		t.Errorf("its second drop (-want +got):\n%s", diff)
	}
}

func TestLimiterReturnFreesPlace(t *testing.T) {
	t.Parallel()
	l, origin := NewLimiter(), anOrigin()
	for range 5000 { // PostgreSQL is away
		request := uuid.New()
		keep := l.Admit(origin, request, noon())
		if !keep.Row {
			t.Fatal("a drop has no row although none was written")
		}
		l.Return(origin, request, keep, noon())
	}
	rows, bodies, count := admit(l, origin, noon(), 5000)
	if rows != 1000 || bodies != 100 || count != 1000 {
		t.Errorf("once it is back: %d rows, %d requests, standing for %d; want 1000, 100, 1000", rows, bodies, count)
	}
}

func TestLimiterReturnLate(t *testing.T) {
	t.Parallel()
	l, origin := NewLimiter(), anOrigin()
	request := uuid.New()
	keep := l.Admit(origin, request, noon())
	later := noon().Add(time.Minute)
	admit(l, origin, later, 1000)
	l.Return(origin, request, keep, noon())
	if rows, _, _ := admit(l, origin, later, 10); rows != 0 {
		t.Errorf("%d rows beyond the bound of the next minute", rows)
	}
}

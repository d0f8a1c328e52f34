package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
)

func TestSetSecret(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	source := b.source(t, "slack", "main")
	job := b.job(t, NewJob{Provider: "slack"})
	for _, of := range []Verifier{{BySource, source.ID}, {ByJob, job.ID}} {
		t.Run(string(of.Kind), func(t *testing.T) {
			want := []string{}
			for i := range MaxSecrets {
				text := fmt.Sprint("s", i)
				b.set(t, of, text)
				want = append([]string{text}, want...)
				if diff := cmp.Diff(want, b.opened(t, of)); diff != "" {
					t.Fatal(diff)
				}
			}
			wantRefused(t, b.SetSecret(ctx, of, mustSecret(t, "ninth"), false), ErrInvalid,
				"has 8 live secrets, as many as there may be; drop the previous ones first (set-secret --drop-previous)")
			wantRefused(t, b.SetSecret(ctx, of, Secret{}, false), ErrInvalid, "no secret given")
			if diff := cmp.Diff(want, b.opened(t, of)); diff != "" {
				t.Fatal(diff)
			}
			if err := b.DropPrevious(ctx, of); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"s7"}, b.opened(t, of)); diff != "" {
				t.Fatal(diff)
			}
			if err := b.DropPrevious(ctx, of); err != nil {
				t.Fatal(err)
			}
			b.set(t, of, "next")
			if diff := cmp.Diff([]string{"next", "s7"}, b.opened(t, of)); diff != "" {
				t.Fatal(diff)
			}
			if err := b.SetSecret(ctx, of, mustSecret(t, "alone"), true); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"alone"}, b.opened(t, of)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestNoPreviousSecret(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	of := Verifier{BySource, b.source(t, "slack", "main").ID}
	if err := b.DropPrevious(t.Context(), of); err != nil {
		t.Fatal(err)
	}
	if got := b.opened(t, of); len(got) != 0 {
		t.Fatalf("got %d secrets", len(got))
	}
}

func TestConcurrentSetSecret(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	of := Verifier{BySource, b.source(t, "slack", "main").ID}
	// All wait for one lock, so that all have begun before the first ends.
	tx, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM agent.provider_sources FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var setting sync.WaitGroup
	want := []string{"s0", "s1"}
	for _, text := range want {
		setting.Go(func() {
			if err := b.SetSecret(context.Background(), of, mustSecret(t, text), false); err != nil {
				t.Errorf("set %s: %v", text, err)
			}
		})
	}
	b.blocked(t)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	setting.Wait()
	if diff := cmp.Diff(want, b.opened(t, of), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Fatal(diff)
	}
}

func TestJobOfSourceHasNoSecret(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.source(t, "slack", "main", "s")
	of := Verifier{ByJob, b.job(t, NewJob{Provider: "slack", Source: "main", Pins: team("T1")}).ID}
	const text = `has no own secrets: its calls are verified with those of the slack source "main"; set them there`
	wantRefused(t, b.SetSecret(ctx, of, mustSecret(t, "x"), false), ErrInvalid, text)
	wantRefused(t, b.SetSecret(ctx, of, mustSecret(t, "x"), true), ErrInvalid, text)
	wantRefused(t, b.DropPrevious(ctx, of), ErrInvalid, text)
	_, err := b.OpenRotation(ctx, of, time.Minute)
	wantRefused(t, err, ErrInvalid, text)

	for _, none := range []Verifier{{ByJob, uuid.New()}, {BySource, uuid.New()}, {BySource, of.ID}} {
		wantRefused(t, b.SetSecret(ctx, none, mustSecret(t, "x"), false), ErrNotFound, "there is no")
		wantRefused(t, b.DropPrevious(ctx, none), ErrNotFound, "there is no")
		_, err := b.OpenRotation(ctx, none, time.Minute)
		wantRefused(t, err, ErrNotFound, "there is no")
	}
}

func TestRotationLimit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ctx := t.Context()
	b.source(t, "slack", "main", "s")
	source := func() StoredSource {
		s, err := b.Source(ctx, "slack", "main")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	of := Verifier{BySource, source().ID}
	for _, d := range []time.Duration{0, -time.Second, time.Hour + time.Nanosecond} {
		_, err := b.OpenRotation(ctx, of, d)
		wantRefused(t, err, ErrInvalid, "at most 1h0m0s")
	}
	for _, dropPrevious := range []bool{false, true} {
		until, err := b.OpenRotation(ctx, of, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		var left float64
		if err := b.pool.QueryRow(ctx, `SELECT extract(epoch FROM $1 - clock_timestamp())`, until).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left > 3600 || left < 3600-soon.Seconds() {
			t.Errorf("it is open for %.1f s", left)
		}
		if got := source(); got.RotatingUntil == nil || !got.RotatingUntil.Equal(until) || got.Secrets < 1 {
			t.Errorf("got %+v", got)
		}
		if err := b.SetSecret(ctx, of, mustSecret(t, "new"), dropPrevious); err != nil {
			t.Fatal(err)
		}
		if got := source(); got.RotatingUntil != nil {
			t.Errorf("a new secret leaves it open: %+v", got)
		}
	}
	b.exec(t, `UPDATE agent.provider_sources SET rotating_until = clock_timestamp() - interval '1 second'`)
	if got := source(); got.RotatingUntil != nil {
		t.Errorf("one that has ended is shown: %+v", got)
	}
}

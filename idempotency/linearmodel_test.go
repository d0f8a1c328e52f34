package idempotency_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"webhook-gateway/idempotency"
)

// act is the kind of an operation on a key.
type act string

const (
	claims    act = "claim"
	completes act = "complete"
	releases  act = "release"
	reads     act = "read"
	passes    act = "pass" // the lease of the key passes
)

// asked is an operation's input. Tokens, contents and answers are numbers that a history assigns.
type asked struct {
	key     int
	act     act
	token   int // of claim, complete and release
	content int // of claim and read
	answer  int // of complete: the answer it brings
	// reclaimed is what the claim told the release; gone: the claim's caller has not seen it.
	reclaimed, gone bool
}

// got is an operation's output.
type got struct {
	unknown   bool // the answer was lost: it may have been done
	kind      idempotency.Kind
	reclaimed bool // of a claim
	answer    int  // of a completed key
	done      bool // of complete and release
}

// keyState is one key as the contract describes it. The zero value is an absent key.
type keyState struct {
	status  idempotency.Kind // "", Processing or Completed
	token   int              // of the last claim
	content int
	passed  bool // the lease
	doubt   bool // the claim is a reclaim: an earlier worker may have made the effect
	answer  int
}

// step returns the states after an operation with this output: none if it is not possible.
func (s keyState) step(in asked, out got) []any {
	if out.unknown {
		next, _ := s.effect(in)
		if in.gone {
			in.reclaimed = !in.reclaimed
			other, _ := s.effect(in)
			return []any{s, next, other}
		}
		return []any{s, next}
	}
	next, want := s.effect(in)
	if out != want {
		return nil
	}
	return []any{next}
}

// effect returns the new state of the key, and the operation's output.
func (s keyState) effect(in asked) (keyState, got) {
	holds := s.status != "" && s.token == in.token
	switch in.act {
	case claims:
		return s.claim(in)
	case completes:
		if holds && s.status == idempotency.Processing { // whatever its lease
			s.status, s.answer = idempotency.Completed, in.answer
		}
		return s, got{done: holds}
	case releases:
		if !holds || s.status == idempotency.Completed {
			return s, got{}
		}
		if in.reclaimed {
			s.passed = true
			return s, got{done: true}
		}
		return keyState{}, got{done: true}
	case reads:
		return s, s.stands(in)
	default: // pass
		s.passed = s.passed || s.status == idempotency.Processing
		return s, got{}
	}
}

func (s keyState) claim(in asked) (keyState, got) {
	switch {
	case s.status == idempotency.Processing && s.token == in.token: // recognised
		s.passed = false
		return s, got{kind: idempotency.Claimed, reclaimed: s.doubt}
	case s.stands(in).kind != idempotency.Absent:
		return s, s.stands(in)
	}
	next := keyState{status: idempotency.Processing, token: in.token, content: in.content, doubt: s.status != ""}
	return next, got{kind: idempotency.Claimed, reclaimed: next.doubt}
}

// stands returns the state of the key for another caller.
func (s keyState) stands(in asked) got {
	switch {
	case s.status == "":
		return got{kind: idempotency.Absent}
	case s.content != in.content:
		return got{kind: idempotency.Conflict}
	case s.status == idempotency.Completed:
		return got{kind: idempotency.Completed, answer: s.answer}
	case s.passed:
		return got{kind: idempotency.Absent}
	}
	return got{kind: idempotency.Processing}
}

// oneKey is the sequential model; keys are independent.
func oneKey() porcupine.Model {
	model := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			var parts [][]porcupine.Operation
			for _, op := range history {
				key := op.Input.(asked).key
				for len(parts) <= key {
					parts = append(parts, nil)
				}
				parts[key] = append(parts[key], op)
			}
			return parts
		},
		Init: func() []any { return []any{keyState{}} },
		Step: func(state, in, out any) []any { return state.(keyState).step(in.(asked), out.(got)) },
	}
	return model.ToModel()
}

// spell formats operations for people.
func spell(history []porcupine.Operation) string {
	var text strings.Builder
	for _, op := range history {
		fmt.Fprintf(&text, "%d..%d client %d %+v: %+v\n", op.Call, op.Return, op.ClientId, op.Input, op.Output)
	}
	return text.String()
}

// stuck reports the longest order that the model allows, and the operation that should have followed.
func stuck(part []porcupine.Operation, info porcupine.LinearizationInfo) string {
	var longest []int
	for _, order := range slices.Concat(info.PartialLinearizations()...) {
		if len(order) > len(longest) {
			longest = order
		}
	}
	var before, rest []porcupine.Operation
	for _, id := range longest {
		before = append(before, part[id])
	}
	for id, op := range part {
		if !slices.Contains(longest, id) {
			rest = append(rest, op)
		}
	}
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	return spell(before) + "none of these can follow:\n" + spell(rest[:min(len(rest), 8)])
}

// The checker detects a history that breaks one rule, and accepts the same history without the fault.
func TestCheckerFindsFault(t *testing.T) {
	t.Parallel()
	claim := func(token int, reclaimed bool) [2]any {
		return [2]any{asked{act: claims, token: token}, got{kind: idempotency.Claimed, reclaimed: reclaimed}}
	}
	complete := func(token int, done bool) [2]any {
		return [2]any{asked{act: completes, token: token, answer: token}, got{done: done}}
	}
	read := func(kind idempotency.Kind, answer int) [2]any {
		return [2]any{asked{act: reads}, got{kind: kind, answer: answer}}
	}
	release := func(token int, done bool) [2]any {
		return [2]any{asked{act: releases, token: token, reclaimed: token > 1}, got{done: done}}
	}
	pass := [2]any{asked{act: passes}, got{}}
	for name, tt := range map[string]struct {
		before    [][2]any
		good, bad [2]any
	}{
		"two owners":            {[][2]any{claim(1, false), pass}, claim(2, true), claim(2, false)},
		"a live lease":          {[][2]any{claim(1, false)}, [2]any{asked{act: claims, token: 2}, got{kind: idempotency.Processing}}, claim(2, true)},
		"a late completion":     {[][2]any{claim(1, false), pass, claim(2, true)}, complete(1, false), complete(1, true)},
		"a second answer":       {[][2]any{claim(1, false), complete(1, true)}, read(idempotency.Completed, 1), read(idempotency.Completed, 2)},
		"a forgotten doubt":     {[][2]any{claim(1, false), pass, claim(2, true), release(2, true)}, claim(3, true), claim(3, false)},
		"a release by a gone":   {[][2]any{claim(1, false), pass, claim(2, true)}, release(1, false), release(1, true)},
		"a read of a dead":      {[][2]any{claim(1, false), pass}, read(idempotency.Absent, 0), read(idempotency.Processing, 0)},
		"a completion unmade":   {[][2]any{claim(1, false), complete(1, true), pass}, read(idempotency.Completed, 1), read(idempotency.Absent, 0)},
		"an effect of no claim": {nil, complete(1, false), complete(1, true)},
	} {
		for last, want := range map[[2]any]bool{tt.good: true, tt.bad: false} {
			var history []porcupine.Operation
			for i, op := range append(tt.before[:len(tt.before):len(tt.before)], last) {
				history = append(history, porcupine.Operation{Input: op[0], Output: op[1], Call: int64(2 * i), Return: int64(2*i + 1)})
			}
			if porcupine.CheckOperations(oneKey(), history) != want {
				t.Errorf("%s: linearizable %v, want %v:\n%s", name, !want, want, spell(history))
			}
		}
	}
}

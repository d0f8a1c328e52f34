package idempotency_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"webhook-gateway/idempotency"
)

// model is the expected behavior, as a map with two clocks. Time passes by moving the rows, and the model's with them.
type model struct {
	*rapid.T
	b      *bundle
	rows   map[idempotency.Ref]*modelRow
	claims []*idempotency.Claim // ever held
	batch  []idempotency.Item   // the last one
	tokens map[uuid.UUID]bool
}

type modelRow struct {
	id, token     uuid.UUID
	content       string
	answer        string // empty while processing, onlyResource without a response
	lease, retain time.Duration
}

func (r *modelRow) forgotten() bool { return r == nil || r.retain <= 0 }

// kind returns the state of the row for a content; Absent: it is free to take.
func (r *modelRow) kind(text string) idempotency.Kind {
	switch {
	case r.forgotten():
		return idempotency.Absent
	case r.content != text:
		return idempotency.Conflict
	case r.answer != "":
		return idempotency.Completed
	case r.lease > 0:
		return idempotency.Processing
	default:
		return idempotency.Absent
	}
}

const onlyResource = "-"

const modelRetention = 24 * time.Hour

func TestModel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.journal()
	orgs := []uuid.UUID{uuid.New(), uuid.New()}
	rapid.Check(t, func(rt *rapid.T) {
		b.exec(`DELETE FROM agent.idempotency_keys`)
		b.exec(`DELETE FROM journal`)
		m := &model{T: rt, b: b, rows: map[idempotency.Ref]*modelRow{}, tokens: map[uuid.UUID]bool{}}
		var refs []idempotency.Ref
		for _, org := range orgs {
			for _, key := range []string{"a", "b"} {
				refs = append(refs, idempotency.Ref{Organization: org, Scope: mustScope(b, "webhook.nylas"), Key: mustKey(b, key)})
			}
		}
		ref, text := rapid.SampledFrom(refs), rapid.SampledFrom([]string{"1", "2"})
		rt.Repeat(map[string]func(*rapid.T){
			"read":     func(rt *rapid.T) { m.read(ref.Draw(rt, "key"), text.Draw(rt, "content")) },
			"claim":    func(rt *rapid.T) { m.claim(ref.Draw(rt, "key"), text.Draw(rt, "content")) },
			"complete": func(rt *rapid.T) { m.complete(m.draw(rt), text.Draw(rt, "answer")) },
			"release":  func(rt *rapid.T) { m.release(m.draw(rt)) },
			"pass": func(rt *rapid.T) {
				m.pass(rapid.SampledFrom([]time.Duration{15 * time.Second, lease, 12 * time.Hour}).Draw(rt, "time"))
			},
			"sweep": func(*rapid.T) { m.sweep() },
			"claim many": func(rt *rapid.T) {
				m.claimMany(rapid.SliceOfN(ref, 1, 5).Draw(rt, "keys"), rapid.SliceOfN(text, 5, 5).Draw(rt, "contents"))
			},
			"effects": func(rt *rapid.T) {
				m.batch = nil
				texts := rapid.SliceOfN(text, 5, 5).Draw(rt, "contents")
				for i, r := range rapid.SliceOfN(ref, 1, 5).Draw(rt, "keys") {
					m.batch = append(m.batch, b.item(r, texts[i]))
				}
				m.effects()
			},
			"repeat": func(*rapid.T) { m.effects() },
			"":       func(*rapid.T) { m.check() },
		})
	})
}

func (m *model) draw(rt *rapid.T) *idempotency.Claim {
	if len(m.claims) == 0 {
		rt.Skip("nothing was claimed")
	}
	return rapid.SampledFrom(m.claims).Draw(rt, "claim")
}

func (m *model) read(r idempotency.Ref, text string) {
	o := m.b.read(r, content(text))
	m.compare("read", o, m.rows[r], m.rows[r].kind(text))
}

func (m *model) compare(what string, o idempotency.Outcome, row *modelRow, want idempotency.Kind) {
	if o.Kind != want {
		m.Fatalf("%s answers %s, want %s", what, o.Kind, want)
	}
	if want == idempotency.Completed && string(o.Answer.Response) != strings.Trim(row.answer, onlyResource) {
		m.Fatalf("%s answers %q, want %q", what, o.Answer.Response, row.answer)
	}
	if want == idempotency.Processing && (o.RetryAfter <= 0 || o.RetryAfter > row.lease) {
		m.Fatalf("%s says %s are left, want %s", what, o.RetryAfter, row.lease)
	}
}

func (m *model) claim(r idempotency.Ref, text string) {
	m.claimed(m.b.claim(r, content(text)), r, text)
}

// claimed compares the outcome of a claim with the model, and updates the model.
func (m *model) claimed(o idempotency.Outcome, r idempotency.Ref, text string) {
	row := m.rows[r]
	want := row.kind(text)
	if want != idempotency.Absent {
		m.compare("claim", o, row, want)
		return
	}
	c := o.Claim
	if o.Kind != idempotency.Claimed || c.Ref != r || c.Reclaimed != !row.forgotten() || m.tokens[c.Token] {
		m.Fatalf("claim answers %s %+v, want claimed, reclaimed %v, under a new token", o.Kind, c, !row.forgotten())
	}
	retain := modelRetention
	if c.Reclaimed {
		retain = max(row.retain, retain)
		if c.ID != row.id {
			m.Fatalf("a reclaim changed the id")
		}
	}
	m.tokens[c.Token] = true
	m.claims = append(m.claims, c)
	m.rows[r] = &modelRow{id: c.ID, token: c.Token, content: text, lease: lease, retain: retain}
}

// holds returns the row that the claim may end.
func (m *model) holds(c *idempotency.Claim) *modelRow {
	if row := m.rows[c.Ref]; row != nil && row.id == c.ID && row.token == c.Token {
		return row
	}
	return nil
}

func (m *model) complete(c *idempotency.Claim, answer string) {
	row := m.holds(c)
	if recorded := m.b.complete(c, response(answer)); recorded != (row != nil) {
		m.Fatalf("complete answers %v, want %v", recorded, row != nil)
	}
	if row != nil && row.answer == "" {
		row.answer = answer
	}
}

func (m *model) release(c *idempotency.Claim) {
	row := m.holds(c)
	want := row != nil && row.answer == ""
	if released := m.b.release(c); released != want {
		m.Fatalf("release answers %v, want %v", released, want)
	}
	switch {
	case want && c.Reclaimed: // the earlier worker may still have made the effect
		row.lease = min(row.lease, 0)
	case want:
		delete(m.rows, c.Ref)
	}
}

func (m *model) pass(d time.Duration) {
	m.b.pass(d)
	for _, row := range m.rows {
		row.lease -= d
		row.retain -= d
	}
}

func (m *model) sweep() {
	want := 0
	for r, row := range m.rows {
		if row.forgotten() {
			delete(m.rows, r)
			want++
		}
	}
	if read, deleted := m.b.sweep(100); read != want || deleted != want {
		m.Fatalf("the sweep read %d and deleted %d, want %d", read, deleted, want)
	}
}

func (m *model) claimMany(refs []idempotency.Ref, texts []string) {
	var wanted []idempotency.Wanted
	for i, r := range refs {
		wanted = append(wanted, idempotency.Wanted{Ref: r, Content: content(texts[i])})
	}
	for i, o := range m.b.claimMany(wanted...) {
		m.claimed(o, refs[i], texts[i]) // as one after the other
	}
}

// effects sends the last batch, for the first time or again.
func (m *model) effects() {
	got, err := m.b.settle(m.b.Context(), m.batch)
	if err != nil {
		m.Fatal(err)
	}
	first := map[idempotency.Ref]bool{}
	for i, it := range m.batch {
		row := m.rows[it.Ref]
		text := "1"
		if it.Hash != content("1").Current() {
			text = "2"
		}
		want := row.kind(text)
		switch {
		case row == nil && !first[it.Ref]:
			want = idempotency.Claimed
			m.rows[it.Ref] = &modelRow{id: it.ID, token: it.Token, content: text, answer: onlyResource, lease: lease, retain: modelRetention}
			m.tokens[it.Token] = true
		case row != nil && row.token == it.Token && !first[it.Ref]:
			want = idempotency.Claimed
		case want == idempotency.Absent:
			want = idempotency.Unsettled
		}
		first[it.Ref] = true
		if got[i] != want {
			m.Fatalf("item %d is %s, want %s", i, got[i], want)
		}
	}
}

// check compares every row with the model's.
func (m *model) check() {
	type seen struct{ org, key, token, content, answer string }
	want := map[seen]bool{}
	for r, row := range m.rows {
		answer := row.answer
		want[seen{r.Organization.String(), r.Key.String(), row.token.String(), content(row.content).Current().String(), answer}] = true
	}
	got := one[[]string](m.b, `SELECT coalesce(array_agg(organization_id || '|' || key || '|' || lease_token || '|' || request_hash || '|' ||
		CASE WHEN status = 'processing' THEN '' ELSE coalesce(response::text, '-') END), '{}') FROM agent.idempotency_keys`)
	for s := range want {
		line := fmt.Sprintf("%s|%s|%s|%s|%s", s.org, s.key, s.token, s.content, s.answer)
		found := false
		for _, g := range got {
			found = found || g == line
		}
		if !found {
			m.Fatalf("no row %s among %q", line, got)
		}
	}
	if len(got) != len(want) {
		m.Fatalf("%d rows, want %d: %q", len(got), len(want), got)
	}
}

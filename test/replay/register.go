package replay

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"webhook-gateway/internal/capture"
	"webhook-gateway/jobs"
	"webhook-gateway/providers"
)

// Town is one registration of the sources and jobs that some captures need, with its own names and secrets.
type Town struct {
	Places       Places
	Organization uuid.UUID
	Jobs         []uuid.UUID
	Sources      []uuid.UUID
}

// Register registers a town for the captures in a database. Towns are independent: what one has received is new to
// the next. The town's name is added to those of its sources; without a name the sources have the names that the
// captures give them.
func Register(t testing.TB, store *jobs.Store, list []*Capture, name string) Town {
	t.Helper()
	cast, err := capture.Parties(list)
	if err != nil {
		t.Fatal(err)
	}
	town := Town{Places: make(Places), Organization: uuid.New()}
	secrets := make(map[string]string)
	called := func(source string) string { return strings.TrimSuffix(source+"-"+name, "-") }
	for _, s := range cast.Sources {
		text := secretOf(s)
		added, err := store.AddSource(t.Context(), jobs.NewSource{Provider: s.Provider, Name: called(s.Name), Pins: identities(s.Pins), Secret: secret(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		secrets[s.Provider+s.Name] = text
		town.Sources = append(town.Sources, added.ID)
		town.Places[capture.PlaceKey(s.Provider, "source", s.Name)] = Place{Path: providers.SourcePath(s.Provider, called(s.Name)), Secret: text}
	}
	for _, j := range cast.Jobs {
		n := jobs.NewJob{Provider: j.Provider, Organization: town.Organization, Pins: identities(j.Pins), Fallback: j.Fallback}
		text := secrets[j.Provider+j.Source]
		if j.Source != "" {
			n.Source = called(j.Source)
		} else {
			text = secretOf(j)
			n.Secret = secret(t, text)
		}
		added, err := store.AddJob(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		town.Jobs = append(town.Jobs, added.ID)
		town.Places[capture.PlaceKey(j.Provider, "job", j.Name)] = Place{Path: providers.JobPath(j.Provider, added.ID), Secret: text}
	}
	return town
}

// secretOf returns the secret that a capture was recorded with, or a random one.
func secretOf(m capture.CastMember) string {
	if m.Secret != "" {
		return m.Secret
	}
	return rand.Text()
}

func secret(t testing.TB, text string) jobs.Secret {
	t.Helper()
	s, err := jobs.NewSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func identities(pins map[string]string) []jobs.Identity {
	var list []jobs.Identity
	for name, value := range pins {
		list = append(list, jobs.Identity{Name: name, Value: value})
	}
	slices.SortFunc(list, func(a, b jobs.Identity) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func vendor(name string) providers.Provider {
	for _, v := range Vendors() {
		if v.Name() == name {
			return v
		}
	}
	return nil
}

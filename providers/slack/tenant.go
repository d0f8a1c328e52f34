package slack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/jobs"
)

// names holds the identities that a body names. Slack puts the installation in different places on its different
// surfaces. The lists are in the order in which Bolt, Slack's own framework, looks for it.
type names struct {
	orgWide     bool     // the installation is an organization's, not a workspace's
	teams       []string // the ids in a team's place; some are an enterprise's
	enterprises []string
	places      []string // enterprise ids in the place of the team where something happened
	apps        []string
	// The body names these too, but not as the installation.
	otherTeams, otherEnterprises []string
}

// tenant returns the installation's identity. An organization's is the enterprise: a workspace named beside it is
// only where something happened. An enterprise in the team's place is the installation, whatever the flag says:
// enterprise.id may be that of the user who clicked.
func (n *names) tenant() jobs.Identity {
	team, enterprise := cmp.Or(n.teams...), cmp.Or(n.enterprises...)
	switch {
	case isEnterprise(team):
		return inTeamPlace(team)
	case enterprise != "" && (n.orgWide || team == ""):
		return jobs.Identity{Name: "enterprise_id", Value: enterprise}
	case team != "":
		return inTeamPlace(team)
	case len(n.places) > 0:
		return inTeamPlace(n.places[0])
	default:
		return jobs.Identity{}
	}
}

// isEnterprise reports whether an id is an enterprise's. The first letter of Slack's ids shows their kind.
func isEnterprise(id string) bool { return strings.HasPrefix(id, "E") }

// CheckPin refuses a team_id that is an enterprise's: deliveries name it as enterprise_id.
func (*Provider) CheckPin(pin jobs.Identity) error {
	if pin.Name == "team_id" && isEnterprise(pin.Value) {
		return fmt.Errorf("%s is an organization's id, wherever Slack puts it: pin enterprise_id=%s", pin.Value, pin.Value)
	}
	return nil
}

// inTeamPlace returns the identity that an id in a team's place names.
func inTeamPlace(id string) jobs.Identity {
	if isEnterprise(id) {
		return jobs.Identity{Name: "enterprise_id", Value: id}
	}
	return jobs.Identity{Name: "team_id", Value: id}
}

// named returns every identity once, sorted.
func (n *names) named() []jobs.Identity {
	var all []jobs.Identity
	add := func(values []string, identity func(string) jobs.Identity) {
		for _, value := range values {
			if value != "" {
				all = append(all, identity(value))
			}
		}
	}
	enterprise := func(id string) jobs.Identity { return jobs.Identity{Name: "enterprise_id", Value: id} }
	add(n.teams, inTeamPlace)
	add(n.otherTeams, inTeamPlace)
	add(n.places, inTeamPlace)
	add(n.enterprises, enterprise)
	add(n.otherEnterprises, enterprise)
	add(n.apps, func(id string) jobs.Identity { return jobs.Identity{Name: "api_app_id", Value: id} })
	slices.SortFunc(all, func(a, b jobs.Identity) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value))
	})
	return slices.Compact(all)
}

// namesIn reads the names in an event, a notice or an interaction.
func namesIn(s *canonical.Strict, root canonical.Value) *names {
	var n names
	view, event := s.Object(root, "view"), s.Object(root, "event")
	team, teamID := idOf(s, root, "team")
	_, enterpriseID := idOf(s, root, "enterprise")
	user := s.Member(root, "user", canonical.Object, canonical.String)
	_, eventTeam := idOf(s, event, "team")

	var first canonical.Value
	position := 0
	for a := range s.Member(root, "authorizations", canonical.Array).Elements() {
		a = s.Want(a, "authorizations", canonical.Object)
		if position == 0 {
			first = a
		} else {
			n.otherTeams = append(n.otherTeams, s.Text(a, "team_id"))
			n.otherEnterprises = append(n.otherEnterprises, s.Text(a, "enterprise_id"))
		}
		position++
	}

	own := s.Text(first, "enterprise_id")
	outside := []string{enterpriseID, s.Text(root, "enterprise_id"), s.Text(team, "enterprise_id")}
	n.otherEnterprises = append(n.otherEnterprises, s.Text(root, "context_enterprise_id"))
	inner, outer := flag(s, first), flag(s, root)
	if first.Kind() == canonical.Object {
		// An authorization describes the installation. It is authoritative: what it omits does not apply, even if the
		// body says so outside of it.
		n.enterprises, n.orgWide = []string{own}, inner
		n.otherEnterprises = append(n.otherEnterprises, outside...)
	} else {
		n.enterprises, n.orgWide = outside, outer
	}

	n.teams = append(make([]string, 0, 8),
		s.Text(view, "app_installed_team_id"), teamID, s.Text(first, "team_id"), s.Text(root, "team_id"))
	for _, id := range []string{eventTeam, s.Text(event, "team_id"), s.Text(user, "team_id"), s.Text(view, "team_id")} {
		// A user without a workspace has an enterprise here, which may differ from the installation's.
		if isEnterprise(id) {
			n.places = append(n.places, id)
		} else {
			n.teams = append(n.teams, id)
		}
	}
	n.otherTeams = append(n.otherTeams, s.Text(root, "context_team_id"))
	n.apps = []string{s.Text(root, "api_app_id")}
	return &n
}

// idOf reads what Slack writes either as an object with an id or as the id alone. In the second case the object is
// absent.
func idOf(s *canonical.Strict, v canonical.Value, name string) (object canonical.Value, id string) {
	member := s.Member(v, name, canonical.Object, canonical.String)
	if member.Kind() == canonical.String {
		return canonical.Value{}, member.Text()
	}
	return member, s.Text(member, "id")
}

// flag reads is_enterprise_install, which is a boolean or its text.
func flag(s *canonical.Strict, v canonical.Value) bool {
	member := s.Member(v, "is_enterprise_install", canonical.Bool, canonical.String)
	return member.True() || member.Text() == "true"
}

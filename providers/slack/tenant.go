package slack

import (
	"cmp"
	"slices"

	"webhook-gateway/internal/canonical"
	"webhook-gateway/jobs"
)

// names holds whom a body names. Slack puts the installation in different places on its different
// surfaces; the lists are in the order in which its own framework, Bolt, looks there.
type names struct {
	orgWide     bool // the installation is an organization's, not a workspace's
	teams       []string
	enterprises []string
	apps        []string
	// others are named too, but not as the installation's own.
	otherTeams, otherEnterprises []string
}

// tenant is the installation's one identity. An organization's is the enterprise: a workspace that is
// named beside it is only where something happened.
func (n *names) tenant() jobs.Identity {
	team, enterprise := cmp.Or(n.teams...), cmp.Or(n.enterprises...)
	switch {
	case enterprise != "" && (n.orgWide || team == ""):
		return jobs.Identity{Name: "enterprise_id", Value: enterprise}
	case team != "":
		return jobs.Identity{Name: "team_id", Value: team}
	default:
		return jobs.Identity{}
	}
}

// named is every identity there is, once, sorted.
func (n *names) named() []jobs.Identity {
	var all []jobs.Identity
	add := func(name string, values []string) {
		for _, value := range values {
			if value != "" {
				all = append(all, jobs.Identity{Name: name, Value: value})
			}
		}
	}
	add("team_id", n.teams)
	add("team_id", n.otherTeams)
	add("enterprise_id", n.enterprises)
	add("enterprise_id", n.otherEnterprises)
	add("api_app_id", n.apps)
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

	n.enterprises = []string{
		enterpriseID, s.Text(first, "enterprise_id"), s.Text(root, "enterprise_id"),
		s.Text(team, "enterprise_id"), s.Text(root, "context_enterprise_id"),
	}
	userTeam := s.Text(user, "team_id")
	if slices.Contains(n.enterprises, userTeam) {
		// In organizations Slack puts the enterprise's id here, for users who have no workspace.
		userTeam = ""
	}
	n.teams = []string{
		s.Text(view, "app_installed_team_id"), teamID, s.Text(first, "team_id"), s.Text(root, "team_id"),
		eventTeam, s.Text(event, "team_id"), userTeam, s.Text(view, "team_id"),
	}
	n.otherTeams = append(n.otherTeams, s.Text(root, "context_team_id"))
	n.apps = []string{s.Text(root, "api_app_id")}

	inner, outer := flag(s, first), flag(s, root)
	n.orgWide = cmp.Or(inner, outer) == "true"
	return &n
}

// idOf reads what Slack writes either as an object with an id or as that id alone. The object is absent
// in the second case.
func idOf(s *canonical.Strict, v canonical.Value, name string) (object canonical.Value, id string) {
	member := s.Member(v, name, canonical.Object, canonical.String)
	if member.Kind() == canonical.String {
		return canonical.Value{}, member.Text()
	}
	return member, s.Text(member, "id")
}

// flag reads is_enterprise_install, which is a boolean or its text: "true", something else, or empty when
// nothing is said.
func flag(s *canonical.Strict, v canonical.Value) string {
	member := s.Member(v, "is_enterprise_install", canonical.Bool, canonical.String)
	if member.Kind() == canonical.Bool {
		return string(member.Raw())
	}
	return member.Text()
}

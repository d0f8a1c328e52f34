package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/jobs"
)

// usagef returns an error about a flag or an argument.
func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// group is a command with only subcommands. Called without one, it lists them.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Name()
	}
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%s has no command %q (known: %s)", cmd.CommandPath(), args[0], strings.Join(names, ", "))
			}
			return usagef("give a command: %s %s", cmd.CommandPath(), strings.Join(names, "|"))
		},
	}
	cmd.AddCommand(commands...)
	return cmd
}

// atMost accepts up to n positional arguments.
func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usagef("unexpected argument %q; usage: %s", args[n], cmd.UseLine())
		}
		return nil
	}
}

// one returns the value of an argument or a flag, and refuses both at once and neither.
func one(args []string, flag, value string) (string, error) {
	switch {
	case len(args) == 1 && value != "" && args[0] != value:
		return "", usagef("%q and --%s %q name two different things; give one of them", args[0], flag, value)
	case len(args) == 1 && args[0] != "":
		return args[0], nil
	case value != "":
		return value, nil
	default:
		return "", usagef("--%s is missing", flag)
	}
}

func addJSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print exactly one JSON object on stdout")
}

func addProviderFlag(cmd *cobra.Command, provider *string) {
	cmd.Flags().StringVar(provider, "provider", "", "the vendor: "+strings.Join(wiredNames(), " or "))
}

func addRefFlag(cmd *cobra.Command, refs *[]string, help string) {
	// An array flag and not a slice flag: a value may contain commas.
	cmd.Flags().StringArrayVar(refs, "ref", nil, help)
}

func wiredNames() []string {
	var names []string
	for _, p := range vendors() {
		names = append(names, p.Name())
	}
	slices.Sort(names)
	return names
}

// checkProvider refuses a provider that this build does not have, and an empty one unless it is optional.
func checkProvider(provider string, optional bool) error {
	names := wiredNames()
	if provider == "" && optional {
		return nil
	}
	if provider == "" {
		return usagef("--provider is missing (known: %s)", strings.Join(names, " or "))
	}
	for _, name := range names {
		if name == provider {
			return nil
		}
	}
	return usagef("unknown --provider %q (known: %s)", provider, strings.Join(names, " or "))
}

// parseRefs parses NAME=VALUE texts.
func parseRefs(texts []string) ([]jobs.Identity, error) {
	var refs []jobs.Identity
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || value == "" {
			return nil, usagef("--ref %q is not of the form NAME=VALUE, like team_id=T123", text)
		}
		refs = append(refs, jobs.Identity{Name: name, Value: value})
	}
	return refs, nil
}

func parseID(flag, text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 || id == uuid.Nil {
		return uuid.Nil, usagef("%s %q is not a UUID like 3f2b8c1e-5d0a-4c57-9a55-0c6f3a1d2b7e", flag, text)
	}
	return id, nil
}

// refsText formats identities for people.
func refsText(pins []jobs.Identity) string {
	texts := make([]string, len(pins))
	for i, p := range pins {
		texts[i] = p.Name + "=" + p.Value
	}
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, " ")
}

// targetBase validates an address to send captures to.
func targetBase(target string, yes bool) (string, error) {
	u, err := url.Parse(target)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", usagef("--target %q: write the gateway's address without a path, like http://127.0.0.1:8080", target)
	}
	if !configs.OnLoopback(u.Host) && !yes {
		return "", usagef("--target %s is not this machine, and deliveries would be stored there; add --yes to confirm", u.Host)
	}
	return u.Scheme + "://" + u.Host, nil
}

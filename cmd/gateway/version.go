package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build describes the build of this binary.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Go       string `json:"go"`
}

func buildOf() build {
	b := build{Version: "unknown", Revision: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version, b.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := buildOf()
			if asJSON {
				return printJSON(cmd, b)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "gateway %s (%s, %s)\n", b.Version, b.Revision, b.Go)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

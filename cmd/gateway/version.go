package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/gateway"
)

func versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print what this binary was built from",
		Args:  atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := gateway.ReadBuild()
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

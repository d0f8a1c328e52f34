package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/internal/safetext"
)

// streams are a command's output: data goes to out, everything else to err.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// newRoot builds the command tree. Each command has its own file.
func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "gateway",
		Short:         "Receive vendors' webhooks: verify, deduplicate, store, acknowledge",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,

		SuggestionsMinimumDistance: 2,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			text := fmt.Sprintf("unknown command %q", args[0])
			if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
				text += "; did you mean " + strings.Join(like, " or ") + "?"
			}
			return usagef("%s (gateway --help lists them)", text)
		},
	}
	root.SetIn(s.in)
	// A command's output, including error texts, may contain data from outside. This is the one place that makes it
	// safe for a terminal.
	root.SetOut(safetext.NewWriter(s.out))
	root.SetErr(safetext.NewWriter(s.err))
	root.PersistentFlags().String("config", "", "YAML file with settings (environment variables win over it)")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		serveCommand(),
		devCommand(),
		migrateCommand(),
		sourcesCommand(),
		jobsCommand(),
		secretsCommand(),
		dropsCommand(),
		keysCommand(),
		sendCommand(),
		replayCommand(),
		signCommand(),
		exportCommand(),
		importCommand(),
		doctorCommand(),
		sweepCommand(),
		configCommand(),
		healthcheckCommand(),
		versionCommand(),
	)
	return root
}

// settings loads the settings of a command, and requires those named.
func settings(cmd *cobra.Command, required ...string) (configs.Config, error) {
	cfg, err := settingsOver(cmd, nil)
	if err == nil {
		err = asSetting(cfg.Require(required...))
	}
	return cfg, err
}

// settingsOver loads the settings of a command. Variables in over win over the environment.
func settingsOver(cmd *cobra.Command, over []string) (configs.Config, error) {
	file, err := cmd.Flags().GetString("config")
	if err != nil {
		return configs.Config{}, err
	}
	cfg, err := configs.Load(file, append(os.Environ(), over...))
	return cfg, asSetting(err)
}

// printJSON writes exactly one JSON object to stdout.
func printJSON(cmd *cobra.Command, value any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

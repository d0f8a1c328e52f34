package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/gateway"
	"webhook-gateway/providers"
	"webhook-gateway/providers/nylas"
	"webhook-gateway/providers/slack"
)

// vendors lists the vendors that this gateway receives from. A new one is one line here.
func vendors() []providers.Provider {
	return []providers.Provider{
		slack.New(),
		nylas.New(),
	}
}

// vendorsByName are the vendors of this build.
func vendorsByName() map[string]providers.Provider {
	list := make(map[string]providers.Provider)
	for _, p := range vendors() {
		list[p.Name()] = p
	}
	return list
}

func serveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Receive webhooks until SIGTERM",
		Long: "Receive webhooks until SIGTERM or SIGINT, then finish and answer the requests in progress and exit with status 0.\n" +
			"Needs DATABASE_URL and GATEWAY_SECRETS_KEY; the schema must exist (gateway migrate up). It waits for PostgreSQL\n" +
			"if it does not answer yet, unless GATEWAY_WAIT_FOR_POSTGRES is false.",
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd, "DATABASE_URL", "GATEWAY_SECRETS_KEY")
			if err != nil {
				return err
			}
			err = gateway.Serve(cmd.Context(), cfg, vendors(), cmd.ErrOrStderr(), nil)
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // stopped before it received anything
			}
			return err
		},
	}
}

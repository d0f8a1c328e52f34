package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/configs"
	"webhook-gateway/internal/admin"
)

func healthcheckCommand() *cobra.Command {
	var url string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the gateway on this machine whether it is ready; for a container's HEALTHCHECK",
		Long: `Asks /readyz of the admin listener (GATEWAY_ADMIN_LISTEN) on this machine. The exit status is 0 if the
gateway is ready, else 1.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url == "" {
				cfg, err := settings(cmd)
				if err != nil {
					return err
				}
				url = "http://" + configs.Dialable(cfg.AdminListen) + "/readyz"
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("no answer within %s", timeout))
			defer cancel()
			text, err := admin.Ask(ctx, url)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().StringVar(&url, "url", "", "ask this URL instead of /readyz of the admin listener")
	cmd.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	return cmd
}

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/safetext"
)

func healthcheckCommand() *cobra.Command {
	var url string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask the gateway on this machine whether it is ready; for a container's HEALTHCHECK",
		Long: `Asks /readyz of the admin listener (GATEWAY_ADMIN_LISTEN) on this machine. The exit status is 0 when the
gateway is ready, else 1.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url == "" {
				cfg, err := settings(cmd)
				if err != nil {
					return err
				}
				url = "http://" + dialable(cfg.AdminListen) + "/readyz"
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, fmt.Errorf("no answer within %s", timeout))
			defer cancel()
			text, err := askReady(ctx, url)
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

func askReady(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", usagef("--url %q: %w", url, err)
	}
	// Straight to the gateway, whatever proxy the environment names.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", fmt.Errorf("ask %s (is the gateway running, and is this its GATEWAY_ADMIN_LISTEN?): %w", url, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", url, err)
	}
	text := safetext.Line(strings.TrimSpace(string(body)))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %d: %s", url, resp.StatusCode, text)
	}
	return text, nil
}

// dialable turns an address to listen on into one to call on this machine.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen // it was checked when the settings were loaded
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"webhook-gateway/internal/gateway"
	"webhook-gateway/internal/inbox"
	"webhook-gateway/internal/pg"
)

func sweepCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Remove what is past its retention, and create the inbox's next days",
		Long: `Sweeps the idempotency keys, the drops and the inbox once: it removes what is past its retention and creates
the inbox's days for the week ahead. A gateway does the same in the background (GATEWAY_SWEEP_INTERVAL); any
number may run at once, beside all writers. The backlog is what a bounded pass or a busy table leaves.`,
		Args: atMost(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			pool, cfg, err := openDatabase(ctx, cmd)
			if err != nil {
				return err
			}
			defer pg.Close(pool)
			sweeper, err := inbox.NewSweeper(pool, inbox.Retention{Inbox: cfg.InboxRetention, Drops: cfg.DropsRetention},
				nil, gateway.NewLogger(cmd.ErrOrStderr(), cfg))
			if err != nil {
				return err
			}
			swept, err := sweeper.Sweep(ctx)
			if err != nil {
				return fmt.Errorf("sweep: %w", err)
			}
			if asJSON {
				return printJSON(cmd, map[string]any{"swept": swept})
			}
			w := newTable(cmd.OutOrStdout())
			w.row("TABLE", "REMOVED", "LEFT")
			for _, s := range swept {
				w.row(s.Table, counted(s.Table, s.Removed), counted(s.Table, s.Backlog))
			}
			return w.flush()
		},
	}
	addJSONFlag(cmd, &asJSON)
	return cmd
}

// counted returns the unit that a sweep counts: for the inbox, days.
func counted(table string, n int) string {
	unit := "row"
	if table == "webhook_deliveries" {
		unit = "day"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

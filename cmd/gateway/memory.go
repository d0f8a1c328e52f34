package main

import (
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"webhook-gateway/configs"
)

// tuneGC lets more garbage gather than Go's default. A gateway's live memory is small, so by default it would collect
// many times a second, and shrink the stacks of its connections each time. The limit is above the maximum of bodies and
// queue, and makes the collector eager when they fill up: a process with the default settings stays below 512 MiB. An
// operator's GOGC and GOMEMLIMIT win.
func tuneGC(cfg configs.Config) {
	const beside = 64 << 20 // connections, and the large bodies that are read at once
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.BodyBudgetBytes + cfg.QueueBytes + beside)
	}
}

func newLogger(w io.Writer, cfg configs.Config) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: cfg.LogLevel}))
}

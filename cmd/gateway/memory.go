package main

import (
	"os"
	"runtime/debug"

	"webhook-gateway/configs"
)

// relaxCollector lets more garbage gather than Go's default: a gateway's live memory is small, so that it
// would collect many times a second, and shrink the stacks of its connections each time. The limit is
// above what bodies, the queue and a few large bodies being read may take, and makes the collector as eager as before when they do. An
// operator's GOGC and GOMEMLIMIT win.
func relaxCollector(cfg configs.Config) {
	const beside = 384 << 20 // connections, and the indexes of the large bodies that are read at once
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(cfg.BodyBudgetBytes + cfg.QueueBytes + beside)
	}
}

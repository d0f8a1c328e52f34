//go:build !linux

package watch

import "os/exec"

// start starts a child, which outlives us if we are killed.
func start(cmd *exec.Cmd) error { return cmd.Start() }

//go:build !linux

package binary

import "os/exec"

// Start starts a child. It outlives this process if that is killed.
func Start(cmd *exec.Cmd) error { return cmd.Start() }

package binary_test

import (
	"os/exec"
	"strings"
	"testing"

	"webhook-gateway/test/binary"
)

// A program that never logs its addresses is ended, whatever else it prints.
func TestServeEndsASilentProgram(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"it ends by itself":          `echo no database >&2; exit 3`,
		"a line without an end":      `head -c 3000000 /dev/zero | tr '\0' x >&2; echo no database >&2; exec sleep 600`,
		"it closes its log and goes": `echo no database >&2; exec sleep 600 2>&-`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", script)
			serving, err := binary.Serve(cmd)
			if err == nil {
				t.Fatalf("it serves at %s", serving.URL)
			}
			if cmd.ProcessState == nil {
				t.Error("it still runs")
			}
			if !strings.Contains(err.Error(), "no database") && !strings.Contains(err.Error(), "too long") {
				t.Errorf("the error does not say why: %v", err)
			}
		})
	}
}

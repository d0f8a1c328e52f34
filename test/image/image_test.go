// Package image checks the container image without a container engine. It builds the binary with the Dockerfile's own
// command, and runs it like the final stage: alone in an empty root directory, as an unprivileged user.
package image

import (
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"webhook-gateway/test/binary"
)

const root = "../.."

// dockerfile holds the final stage of the Dockerfile.
type dockerfile struct {
	build       string // the RUN line that builds the binary
	healthcheck []string
	entrypoint  []string
	cmd         []string
}

func read(t *testing.T) dockerfile {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	words := func(pattern string) []string {
		t.Helper()
		var list []string
		if err := json.Unmarshal([]byte(line(t, string(text), pattern)), &list); err != nil {
			t.Fatalf("%s: %v: a shell would be needed to run it", pattern, err)
		}
		return list
	}
	return dockerfile{
		build:       line(t, string(text), `(?m)^RUN (.* go build .*)$`),
		healthcheck: words(`(?m)^HEALTHCHECK .*CMD (.*)$`),
		entrypoint:  words(`(?m)^ENTRYPOINT (.*)$`),
		cmd:         words(`(?m)^CMD (.*)$`),
	}
}

func line(t *testing.T, text, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("the Dockerfile has no %s", pattern)
	}
	return found[1]
}

// image is the final stage in a directory.
type image struct {
	dockerfile
	dir string
}

// build runs the first stage, and lays out the last.
func build(t *testing.T) image {
	t.Helper()
	img := image{dockerfile: read(t), dir: t.TempDir()}
	command := strings.ReplaceAll(img.dockerfile.build, "/out/gateway", filepath.Join(img.dir, "gateway"))
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return img
}

// run runs a command of the image in its directory: as root to enter it, then as its user.
func (img image) run(ctx context.Context, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Env = []string{} // not nil, which means our environment
	if os.Geteuid() == 0 {
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: img.dir, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	} else {
		cmd.Path = filepath.Join(img.dir, words[0]) // only root may change the root directory
		cmd.Err = nil
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestImageBinary(t *testing.T) {
	t.Parallel()
	img := build(t)
	file, err := elf.Open(filepath.Join(img.dir, "gateway"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it is not static: %v", p.Type)
		}
	}

	t.Run("it runs", func(t *testing.T) {
		out, err := img.run(t.Context(), append(img.entrypoint, "version")...)
		if err != nil || !strings.HasPrefix(out, "gateway ") {
			t.Errorf("version: %v\n%s", err, out)
		}
	})
	t.Run("its command asks for settings", func(t *testing.T) {
		out, err := img.run(t.Context(), append(img.entrypoint, img.cmd...)...)
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(out, "DATABASE_URL") {
			t.Errorf("serve without settings: %v\n%s", err, out)
		}
	})
	t.Run("its health check asks the gateway", func(t *testing.T) { healthcheck(t, img) })
}

func healthcheck(t *testing.T, img image) {
	free, err := binary.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := img.run(t.Context(), append(img.healthcheck, "--url", "http://"+free)...); err == nil {
		t.Errorf("healthy without a gateway: %s", out)
	}
	for status, healthy := range map[int]bool{http.StatusOK: true, http.StatusServiceUnavailable: false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := img.run(ctx, append(img.healthcheck, "--url", s.URL)...)
		if (err == nil) != healthy {
			t.Errorf("the gateway answers %d: healthy %v, want %v\n%s", status, err == nil, healthy, out)
		}
	}
}

func TestMakefileBuildsTheSame(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.NewReplacer("$(GO)", "go").Replace(line(t, string(text), `(?m)^BUILD = (.*)$`))
	got := strings.NewReplacer("GOOS=$TARGETOS GOARCH=$TARGETARCH ", "").Replace(read(t).build)
	if !strings.HasPrefix(got, want+" ") {
		t.Errorf("the Dockerfile runs %q, make build runs %q", got, want)
	}
}

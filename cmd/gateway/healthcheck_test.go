package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestHealthcheckAsksTheAdminListener(t *testing.T) {
	t.Parallel()
	r := startGateway(t)
	c := cliFor(t, "", "")
	if err := os.WriteFile(c.file, []byte("admin_listen: "+strings.TrimPrefix(r.admin, "http://")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.run("healthcheck"); got.status != exitOK || got.stdout != "ready\n" {
		t.Errorf("status %d, stdout %q, stderr %q", got.status, got.stdout, got.err)
	}
}

func TestHealthcheckFailsUnlessTheGatewayIsReady(t *testing.T) {
	t.Parallel()
	unready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not receiving", http.StatusServiceUnavailable)
	}))
	defer unready.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	unused := "http://" + l.Addr().String()
	l.Close()

	call(t, untouched{t}, "healthcheck", "--url", unready.URL).wants(t, exitFailed, "answers 503: not receiving")
	call(t, untouched{t}, "healthcheck", "--url", slow.URL, "--timeout", "20ms").wants(t, exitFailed, "no answer within 20ms")
	call(t, untouched{t}, "healthcheck", "--url", unused).wants(t, exitFailed, "is the gateway running", "GATEWAY_ADMIN_LISTEN")
	call(t, untouched{t}, "healthcheck", "--url", "http://%zz").wants(t, exitUsage, "--url")
}

package main

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"webhook-gateway/configs"
)

// askAs asks for a path of the admin listener and names a host, as a page does whose name resolves to this machine.
func (r *running) askAs(host, path string) int {
	r.t.Helper()
	req, err := http.NewRequest(http.MethodGet, r.admin+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Host = host
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

func TestAdminListenerChecksHost(t *testing.T) {
	t.Parallel()
	closed := startGateway(t, func(c *configs.Config) { c.Pprof = true })
	open := startGateway(t, func(c *configs.Config) { c.AdminOpen = true })
	for host, ours := range map[string]bool{
		"localhost": true, "LocalHost:8081": true, "127.0.0.1": true, "127.0.0.1:1": true, "[::1]": true, "[::1]:8081": true,
		"evil.example": false, "evil.example:8081": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false,
		"10.0.0.1:8081": false, "0.0.0.0:8081": false, "[::]:8081": false, "localhost@evil.example": false,
	} {
		want := http.StatusForbidden
		if ours {
			want = http.StatusOK
		}
		for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/"} {
			if got := closed.askAs(host, path); got != want {
				t.Errorf("%s of host %s: %d, want %d", path, host, got, want)
			}
		}
		if got := open.askAs(host, "/metrics"); got != http.StatusOK {
			t.Errorf("GATEWAY_ADMIN_OPEN, host %s: %d, want 200", host, got)
		}
	}
}

func TestAdminOffLoopbackNeedsConsent(t *testing.T) {
	t.Parallel()
	c := cliFor(t, "postgres://gateway@127.0.0.1:1/gateway?sslmode=disable", testKey)
	write := func(lines string) {
		t.Helper()
		if err := os.WriteFile(c.file, []byte("database_url: "+c.url+"\nsecrets_key: "+testKey+"\n"+lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("admin_listen: \":8081\"\n")
	for _, command := range []string{"serve", "config check", "healthcheck"} {
		r := c.run(strings.Fields(command)...)
		if r.status != exitConfig || !strings.Contains(r.err, "GATEWAY_ADMIN_OPEN=true if something else protects it") {
			t.Errorf("%s: status %d, %s", command, r.status, r.err)
		}
	}
	write("admin_listen: \":8081\"\nadmin_open: true\n")
	if r := c.run("config", "check"); r.status != exitOK {
		t.Errorf("config check: status %d, %s", r.status, r.err)
	}
}

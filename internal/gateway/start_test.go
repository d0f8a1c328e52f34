package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"webhook-gateway/configs"
)

func TestClientAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		proxies, peer string
		forwarded     []string
		want          string
	}{
		{"", "203.0.113.9:1", nil, "203.0.113.9"},
		{"", "127.0.0.1:1", []string{"198.51.100.7"}, "127.0.0.1"},
		{"10.0.0.0/8", "203.0.113.9:1", []string{"198.51.100.7"}, "203.0.113.9"},
		{"10.0.0.0/8", "127.0.0.1:1", []string{"198.51.100.7"}, "127.0.0.1"},
		{"10.0.0.0/8", "10.1.2.3:1", nil, "10.1.2.3"},
		{"10.0.0.0/8", "10.1.2.3:1", []string{"198.51.100.7"}, "198.51.100.7"},
		{"10.0.0.0/8", "10.1.2.3:1", []string{"198.51.100.7, 203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.0/8", "10.1.2.3:1", []string{"198.51.100.7", "203.0.113.9, 10.9.9.9"}, "203.0.113.9"},
		{"10.0.0.0/8", "10.1.2.3:1", []string{"198.51.100.7, \x1b[31m"}, "10.1.2.3"},
		{"10.1.2.3, 2001:db8::/32", "[2001:db8::1]:1", []string{"198.51.100.7, 10.1.2.3"}, "198.51.100.7"},
		{"10.1.2.3", "10.1.2.4:1", []string{"198.51.100.7"}, "10.1.2.4"},
	} {
		var proxies configs.Networks
		if err := proxies.UnmarshalText([]byte(tt.proxies)); err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		req.RemoteAddr, req.Header["X-Forwarded-For"] = tt.peer, tt.forwarded
		if got := clientAddress(proxies)(req); got != tt.want {
			t.Errorf("proxies %q, peer %s, forwarded %q: %s, want %s", tt.proxies, tt.peer, tt.forwarded, got, tt.want)
		}
	}
}

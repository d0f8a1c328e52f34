package configs

import "testing"

func TestDialable(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		":8081":          "127.0.0.1:8081",
		"0.0.0.0:8081":   "127.0.0.1:8081",
		"[::]:8081":      "[::1]:8081",
		"127.0.0.1:8081": "127.0.0.1:8081",
		"10.0.0.7:8081":  "10.0.0.7:8081",
		"localhost:8081": "localhost:8081",
	} {
		if got := Dialable(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}

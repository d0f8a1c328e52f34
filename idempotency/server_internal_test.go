package idempotency

import (
	"errors"
	"strings"
	"testing"
)

func TestCheckServerProblems(t *testing.T) {
	t.Parallel()
	good := server{
		number: 150018, version: "15.18", fsync: "on", fullPages: "on", commitWait: "on",
		isolation: "read committed", encoding: "UTF8",
	}
	if err := good.check(ServerOptions{}); err != nil {
		t.Errorf("a good server: %v", err)
	}
	for want, spoil := range map[string]func(*server){
		"it is PostgreSQL 14.9: upgrade to 15":      func(s *server) { s.number, s.version = 140009, "14.9" },
		"connect to the primary":                    func(s *server) { s.standby = true },
		"set fsync = on":                            func(s *server) { s.fsync = "off" },
		"set full_page_writes = on":                 func(s *server) { s.fullPages = "off" },
		"set synchronous_commit = on":               func(s *server) { s.commitWait = "off" },
		"default_transaction_isolation is serializ": func(s *server) { s.isolation = "serializable" },
		"default_transaction_read_only is on":       func(s *server) { s.readOnly = "on" },
		"ENCODING 'UTF8'":                           func(s *server) { s.encoding = "LATIN1" },
	} {
		bad := good
		spoil(&bad)
		if err := bad.check(ServerOptions{}); !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one error that says %q", err, want)
		}
	}
	worst := server{number: 90600, commitWait: "off"}
	if err := worst.check(ServerOptions{}); strings.Count(err.Error(), "\n") != 5 {
		t.Errorf("got %v, want every reason", err)
	}
	for _, waits := range []string{"local", "remote_write", "remote_apply"} {
		fine := good
		fine.commitWait = waits
		if err := fine.check(ServerOptions{}); err != nil {
			t.Errorf("synchronous_commit = %s: %v", waits, err)
		}
	}
}

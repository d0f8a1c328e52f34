package pg_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"webhook-gateway/internal/pg"
	"webhook-gateway/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// alter runs statements on the database of the URL, on a plain connection.
func alter(t *testing.T, url string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, sql := range statements {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// name is the database's name in a URL from devdb.
func name(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return url[strings.LastIndex(url, "/")+1:]
}

func TestSessionSettings(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	tests := []struct{ setting, elsewhere, want string }{
		{"client_encoding", "WIN1252", "UTF8"},
		{"standard_conforming_strings", "off", "on"},
		{"bytea_output", "escape", "hex"},
		{"array_nulls", "off", "on"},
		{"DateStyle", "German", "ISO, YMD"},
		{"IntervalStyle", "iso_8601", "postgres"},
		{"extra_float_digits", "-15", "1"},
		{"TimeZone", "America/New_York", "UTC"},
		{"search_path", "evil, pg_catalog", "pg_catalog, pg_temp"},
		{"default_table_access_method", "elsewhere", "heap"},
		{"default_transaction_isolation", "serializable", "read committed"},
		{"default_transaction_deferrable", "on", "off"},
		{"synchronous_commit", "off", "on"},
		{"session_replication_role", "replica", "origin"},
		{"row_security", "on", "off"},
		{"exit_on_error", "on", "off"},
		{"lock_timeout", "60000", "0"},
		{"statement_timeout", "60000", "0"},
		{"idle_session_timeout", "60000", "0"},
		{"idle_in_transaction_session_timeout", "0", "1min"},
		{"plan_cache_mode", "force_custom_plan", "auto"},
		{"jit", "on", "off"},
		{"enable_seqscan", "off", "on"},
		{"enable_indexscan", "off", "on"},
		{"enable_indexonlyscan", "off", "on"},
		{"enable_bitmapscan", "off", "on"},
		{"enable_tidscan", "off", "on"},
		{"enable_nestloop", "off", "on"},
		{"enable_hashjoin", "off", "on"},
		{"enable_mergejoin", "off", "on"},
		{"enable_hashagg", "off", "on"},
		{"enable_sort", "off", "on"},
		{"enable_material", "off", "on"},
		{"enable_partition_pruning", "off", "on"},
	}
	for _, tt := range tests {
		if tt.setting != "default_table_access_method" { // PostgreSQL has but one
			value := "'" + tt.elsewhere + "'"
			if tt.setting == "search_path" {
				value = tt.elsewhere
			}
			alter(t, url, fmt.Sprintf("ALTER DATABASE %s SET %s = %s", name(url), tt.setting, value))
		}
	}
	alter(t, url, `CREATE SCHEMA evil`,
		`CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql AS 'SELECT $2'`,
		`CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql AS $$SELECT 'origin'$$`)
	pool, err := pg.Open(t.Context(), url, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, tt := range tests {
		var got string
		if err := pool.QueryRow(t.Context(), `SELECT pg_catalog.current_setting($1)`, tt.setting).Scan(&got); err != nil || got != tt.want {
			t.Errorf("%s is %q, want %q: %v", tt.setting, got, tt.want, err)
		}
	}
}

func TestReplicationRole(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	role := "role_" + name(url)
	alter(t, url, `CREATE ROLE `+role+` LOGIN PASSWORD 'p'`, `ALTER ROLE `+role+` SET session_replication_role = replica`)
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), url)
		if err == nil {
			_, _ = conn.Exec(context.Background(), `DROP ROLE `+role)
			_ = conn.Close(context.Background())
		}
	})
	_, at, _ := strings.Cut(url, "@")
	pool, err := pg.Open(t.Context(), "postgres://"+role+":p@"+at, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	err = pool.Ping(t.Context())
	if !errors.Is(err, pg.ErrUnfit) || !strings.Contains(err.Error(), "session_replication_role is replica") {
		t.Errorf("got %v, want the setting's name", err)
	}
}

func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"exec", "simple_protocol", "describe_exec", "cache_describe"} {
		_, err := pg.Open(t.Context(), "postgres://u:s3cret@127.0.0.1/d?default_query_exec_mode="+mode, 1)
		if !errors.Is(err, pg.ErrSettings) || !strings.Contains(err.Error(), "default_query_exec_mode="+mode) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", mode, err)
		}
	}
	for _, url := range []string{"postgres://u:s3cret@127.0.0.1/d?statement_cache_capacity=0", "postgres://u:s3cret@host:port/d", "s3cret"} {
		if _, err := pg.Open(t.Context(), url, 1); !errors.Is(err, pg.ErrSettings) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

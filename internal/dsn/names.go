package dsn

// foreign lists parameters of other drivers that users often copy, and what to do with each.
func foreign() map[string]string {
	const leaveOut = "leave it out"
	list := map[string]string{
		"schema":           "leave it out; the tables are in the schema agent",
		"currentSchema":    "leave it out; the tables are in the schema agent",
		"pgbouncer":        "leave it out; a pooler is recognized, and must keep one connection per session",
		"ssl_mode":         "write sslmode",
		"sslMode":          "write sslmode",
		"useSSL":           "write sslmode",
		"sslaccept":        "write sslmode",
		"connection_limit": "write pool_max_conns",
		"pool_size":        "write pool_max_conns",
		"max_connections":  "write pool_max_conns; the server's limit is a server setting",
		"connectTimeout":   "write connect_timeout, in seconds",
		"ApplicationName":  "write application_name",
		"charset":          "leave it out; the encoding is always UTF8",
		"encoding":         "leave it out; the encoding is always UTF8",
	}
	for _, name := range []string{"pool_timeout", "socket_timeout", "socketTimeout", "loginTimeout", "prepareThreshold", "prepare_threshold",
		"gssencmode", "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count",
		"hostaddr", "fallback_application_name", "load_balance_hosts", "sslcompression", "sslcrl", "supa", "prepared_statements", "prepared_statement_cache_size", "reWriteBatchedInserts", "targetServerType", "autosave", "driver", "plugin", "adapter"} {
		list[name] = leaveOut
	}
	return list
}

// values lists the parameters with a fixed set of values.
func values() map[string][]string {
	return map[string][]string{
		"sslmode":              {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"},
		"target_session_attrs": {"any", "read-write", "read-only", "primary", "standby", "prefer-standby"},
		"channel_binding":      {"disable", "prefer", "require"},
		"sslnegotiation":       {"postgres", "direct"},
		"ssl":                  {"true"},
	}
}

// known lists, in lower case, the parameters that may follow a password: those of the client, and the common ones of
// the server.
func known() []string {
	return []string{
		"host", "port", "dbname", "database", "user", "password", "passfile", "connect_timeout", "sslmode", "ssl", "sslkey",
		"sslcert", "sslcertmode", "sslrootcert", "sslnegotiation", "sslpassword", "sslsni", "krbspn", "krbsrvname",
		"target_session_attrs", "service", "servicefile", "min_protocol_version", "max_protocol_version", "channel_binding",
		"require_auth", "default_query_exec_mode", "statement_cache_capacity", "description_cache_capacity",
		"pool_max_conns", "pool_min_conns", "pool_min_idle_conns", "pool_max_conn_lifetime", "pool_max_conn_idle_time",
		"pool_health_check_period", "pool_max_conn_lifetime_jitter", "pool_ping_timeout",
		"application_name", "options", "search_path", "client_encoding", "datestyle", "timezone", "intervalstyle", "lc_messages",
		"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "idle_session_timeout", "role", "work_mem",
		"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout", "synchronous_commit",
		"default_transaction_read_only", "default_transaction_isolation", "standard_conforming_strings", "extra_float_digits",
	}
}

-- +goose Up
CREATE SCHEMA IF NOT EXISTS agent;

-- The plane: one row per effect. The CHECKs are the contract's sentences, so that a hand-written
-- statement cannot store what the service would refuse.
CREATE TABLE agent.idempotency_keys (
  id               uuid             NOT NULL,
  organization_id  uuid             NOT NULL,
  -- COLLATE "C" makes the unique index independent of the C library's collation version,
  -- and gives SQL the same order as a comparison of bytes in Go.
  scope            text COLLATE "C" NOT NULL,
  key              text COLLATE "C" NOT NULL,
  request_hash     text COLLATE "C" NOT NULL,
  status           text COLLATE "C" NOT NULL DEFAULT 'processing',
  lease_token      uuid             NOT NULL,
  resource_type    text,
  resource_id      text,
  -- json and not jsonb: jsonb refuses \u0000, lone surrogates and huge exponents, after the effect was made.
  response         json,
  claimed_at       timestamptz      NOT NULL,
  lease_expires_at timestamptz      NOT NULL,
  retain_until     timestamptz      NOT NULL,
  CONSTRAINT idempotency_keys_pkey     PRIMARY KEY (id),
  CONSTRAINT idempotency_keys_key      UNIQUE (organization_id, scope, key),
  CONSTRAINT idempotency_keys_scope    CHECK (octet_length(scope) BETWEEN 1 AND 100),
  CONSTRAINT idempotency_keys_key_len  CHECK (octet_length(key) BETWEEN 1 AND 512),
  CONSTRAINT idempotency_keys_hash_len CHECK (octet_length(request_hash) BETWEEN 1 AND 128),
  CONSTRAINT idempotency_keys_status   CHECK (status IN ('processing', 'completed')),
  CONSTRAINT idempotency_keys_clocks   CHECK (retain_until >= lease_expires_at),
  CONSTRAINT idempotency_keys_answer   CHECK (status = 'processing' OR response IS NOT NULL OR resource_id IS NOT NULL),
  CONSTRAINT idempotency_keys_resource CHECK ((resource_type IS NULL) = (resource_id IS NULL)),
  CONSTRAINT idempotency_keys_size     CHECK (response IS NULL OR octet_length(response::text) <= 65536)
) WITH (
  fillfactor = 85,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.02,
  toast.autovacuum_vacuum_scale_factor = 0.01,
  toast.autovacuum_vacuum_threshold = 1000
);

-- For the sweep alone. No index may mention status or the lease: a completion would stop being a HOT update.
CREATE INDEX idempotency_keys_retain ON agent.idempotency_keys (retain_until);

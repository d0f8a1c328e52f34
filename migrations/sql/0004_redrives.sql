-- +goose Up

-- Every time a kept drop was driven again: who did it, why, and what came of it. It is kept as long as a
-- drop. It has no foreign key: that would cost the sweep of the drops two reads a row.
CREATE TABLE agent.webhook_redrives (
  drop_id     uuid        NOT NULL,
  redriven_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  redriven_by text        NOT NULL,
  why         text        NOT NULL,
  outcome     text COLLATE "C",                -- null: begun, and no ending was written down
  detail      text        NOT NULL DEFAULT '', -- our own words on the outcome
  delivery_id uuid,                            -- the delivery in the inbox that it became
  CONSTRAINT webhook_redrives_pkey    PRIMARY KEY (redriven_at, drop_id),
  CONSTRAINT webhook_redrives_by      CHECK (octet_length(redriven_by) BETWEEN 1 AND 200),
  CONSTRAINT webhook_redrives_why     CHECK (octet_length(why) BETWEEN 1 AND 1000),
  CONSTRAINT webhook_redrives_outcome CHECK (outcome IN ('accepted', 'failed', 'duplicate', 'hash_mismatch', 'unknown_job', 'job_mismatch', 'malformed'))
);
CREATE INDEX webhook_redrives_drop ON agent.webhook_redrives (drop_id);

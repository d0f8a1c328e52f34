-- +goose Up

-- The inbox. Partitioned by the day of stored_at; the gateway makes the days, and there is no default
-- partition on purpose: attaching a day would have to scan it. The bytes are the truth: jsonb would refuse some.
CREATE TABLE agent.webhook_deliveries (
  id               uuid             NOT NULL,
  organization_id  uuid             NOT NULL,
  provider         text COLLATE "C" NOT NULL,
  job_id           uuid             NOT NULL,
  delivery_key     text COLLATE "C" NOT NULL,
  event_type       text             NOT NULL,
  request_hash     text COLLATE "C" NOT NULL,
  headers          json             NOT NULL,
  content_type     text             NOT NULL,
  content_encoding text             NOT NULL,
  body             bytea            NOT NULL,
  ordering_key     text             NOT NULL,
  received_at      timestamptz      NOT NULL,
  stored_at        timestamptz      NOT NULL DEFAULT clock_timestamp(),
  -- A reader follows (xid, id) below pg_snapshot_xmin; docs/reading.md.
  xid              xid8             NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (id, stored_at)
) PARTITION BY RANGE (stored_at);
CREATE INDEX webhook_deliveries_follow ON agent.webhook_deliveries (xid, id);

-- Verified deliveries that were not kept. A request's body lies with the first of its rows that has one.
CREATE TABLE agent.webhook_drops (
  id               uuid             NOT NULL,
  reason           text COLLATE "C" NOT NULL,
  detail           text             NOT NULL DEFAULT '',  -- our own words: why it is malformed, which identity differs
  provider         text COLLATE "C" NOT NULL,
  organization_id  uuid,
  job_id           uuid,
  verified_by      text COLLATE "C" NOT NULL,             -- whose secret: source or job
  verifier_id      uuid             NOT NULL,
  path_job         uuid,                                  -- what the URL named; both null: an unreadable id
  path_source      text,
  request_id       uuid             NOT NULL,
  position         integer          NOT NULL,             -- the delivery's place in its request
  delivery_key     text COLLATE "C" NOT NULL DEFAULT '',
  event_type       text             NOT NULL DEFAULT '',
  request_hash     text COLLATE "C" NOT NULL DEFAULT '',
  request_seed     bytea            NOT NULL,             -- what the ids were minted from; a re-drive mints the same
  headers          json,
  content_type     text,
  content_encoding text,
  body             bytea,
  count            integer          NOT NULL DEFAULT 1,   -- how many drops the row stands for
  received_at      timestamptz      NOT NULL,
  stored_at        timestamptz      NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT webhook_drops_pkey     PRIMARY KEY (id),
  CONSTRAINT webhook_drops_reason   CHECK (reason IN ('hash_mismatch', 'unknown_job', 'job_mismatch', 'malformed')),
  CONSTRAINT webhook_drops_verifier CHECK (verified_by IN ('source', 'job')),
  CONSTRAINT webhook_drops_count    CHECK (count > 0)
);
CREATE INDEX webhook_drops_stored ON agent.webhook_drops (stored_at);
CREATE INDEX webhook_drops_request ON agent.webhook_drops (request_id);

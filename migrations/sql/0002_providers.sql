-- +goose Up

-- An identity is an object of short strings: {"team_id": "T1"}.
-- +goose StatementBegin
CREATE FUNCTION agent.is_identity(identity jsonb, fewest integer, most integer) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN jsonb_typeof(identity) = 'object'
  AND (SELECT count(*) BETWEEN fewest AND most
              AND coalesce(bool_and(jsonb_typeof(value) = 'string'
                                    AND octet_length(value #>> '{}') BETWEEN 1 AND 200
                                    AND octet_length(key) BETWEEN 1 AND 200), true)
         FROM jsonb_each(identity));
-- +goose StatementEnd

-- Every gateway follows the two tables by this column; see jobs.Directory.
-- +goose StatementBegin
CREATE FUNCTION agent.mark_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.changed := pg_current_xact_id();
  RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TABLE agent.provider_sources (
  id             uuid             NOT NULL,
  provider       text COLLATE "C" NOT NULL,
  name           text COLLATE "C" NOT NULL,
  identity       jsonb            NOT NULL DEFAULT '{}',
  secrets        bytea[]          NOT NULL DEFAULT '{}', -- sealed; the current one first
  rotating_until timestamptz,
  created_at     timestamptz      NOT NULL DEFAULT now(),
  removed_at     timestamptz,
  changed        xid8             NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT provider_sources_pkey     PRIMARY KEY (id),
  CONSTRAINT provider_sources_provider UNIQUE (id, provider),
  CONSTRAINT provider_sources_name     CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'),
  CONSTRAINT provider_sources_identity CHECK (agent.is_identity(identity, 0, 16)),
  CONSTRAINT provider_sources_secrets  CHECK (cardinality(secrets) <= 8),
  CONSTRAINT provider_sources_rotation CHECK (isfinite(rotating_until))
);
CREATE UNIQUE INDEX provider_sources_named ON agent.provider_sources (provider, name) WHERE removed_at IS NULL;
CREATE INDEX provider_sources_changed ON agent.provider_sources (changed);
CREATE TRIGGER mark_changed BEFORE INSERT OR UPDATE ON agent.provider_sources
  FOR EACH ROW EXECUTE FUNCTION agent.mark_changed();

CREATE TABLE agent.provider_jobs (
  id              uuid             NOT NULL,
  organization_id uuid             NOT NULL,
  provider        text COLLATE "C" NOT NULL,
  source_id       uuid,
  identity        jsonb            NOT NULL DEFAULT '{}',
  fallback        boolean          NOT NULL DEFAULT false,
  secrets         bytea[]          NOT NULL DEFAULT '{}', -- sealed; the current one first
  rotating_until  timestamptz,
  created_at      timestamptz      NOT NULL DEFAULT now(),
  closed_at       timestamptz,
  changed         xid8             NOT NULL DEFAULT pg_current_xact_id(),
  CONSTRAINT provider_jobs_pkey     PRIMARY KEY (id),
  CONSTRAINT provider_jobs_source   FOREIGN KEY (source_id, provider) REFERENCES agent.provider_sources (id, provider),
  -- A job belongs to a source and pins exactly one tenant, or it holds secrets of its own. Never both.
  CONSTRAINT provider_jobs_secrets  CHECK (cardinality(secrets) <= 8 AND (source_id IS NULL OR (secrets = '{}' AND rotating_until IS NULL))),
  CONSTRAINT provider_jobs_identity CHECK (CASE WHEN source_id IS NULL THEN agent.is_identity(identity, 0, 16)
                                                ELSE agent.is_identity(identity, 1, 1) END),
  CONSTRAINT provider_jobs_rotation CHECK (isfinite(rotating_until)),
  CONSTRAINT provider_jobs_fallback CHECK (NOT fallback OR source_id IS NOT NULL)
);
CREATE UNIQUE INDEX provider_jobs_tenant ON agent.provider_jobs (source_id, identity)
  WHERE closed_at IS NULL AND source_id IS NOT NULL;
CREATE UNIQUE INDEX provider_jobs_one_fallback ON agent.provider_jobs (source_id)
  WHERE fallback AND closed_at IS NULL;
CREATE INDEX provider_jobs_changed ON agent.provider_jobs (changed);
CREATE TRIGGER mark_changed BEFORE INSERT OR UPDATE ON agent.provider_jobs
  FOR EACH ROW EXECUTE FUNCTION agent.mark_changed();

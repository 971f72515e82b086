-- SPDX-License-Identifier: Apache-2.0
-- Archived activities (docs/retention.md): what stays of an activity whose rows were written to a file and removed.

-- One row for each, for ever: an activity_id and a unit's number are never used twice, and its activity number only after a quarantine.
CREATE TABLE archived_activity (
  activity_id  text COLLATE "C" PRIMARY KEY,
  number       integer NOT NULL CHECK (number BETWEEN 1 AND 4095),
  unit_first   bigint NOT NULL,                          -- its units were unit_first … unit_past - 1
  unit_past    bigint NOT NULL CHECK (unit_past >= unit_first),
  description  jsonb NOT NULL,                           -- its rows of activity, activity_sku, bucket, stock_transfer
  begun_at     timestamptz NOT NULL DEFAULT now(),       -- from here on it is no activity any more
  begun_xid    xid8 NOT NULL DEFAULT pg_current_xact_id(),
  removed_at   timestamptz,                              -- nothing but its verdicts is left
  forgotten_at timestamptz,                              -- nor they
  CHECK (forgotten_at IS NULL OR removed_at IS NOT NULL)
);
CREATE INDEX archived_activity_number ON archived_activity (number);
CREATE INDEX archived_activity_kept ON archived_activity (begun_at) WHERE forgotten_at IS NULL;

-- The activity goes in one step, its units after it in batches. Rule H10 of the audit finds units of no activity.
ALTER TABLE inventory_token DROP CONSTRAINT inventory_token_activity_id_sku_id_fkey;

CREATE INDEX review_activity ON review (activity_id) WHERE activity_id IS NOT NULL;

-- What is older than a year may be removed (archive_expire_log); all else stands for ever.
CREATE OR REPLACE FUNCTION audit_log_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' THEN
    IF OLD.happened_at < now() - interval '365 days' THEN
      RETURN OLD;
    END IF;
  END IF;
  RAISE EXCEPTION 'audit_log is only ever added to' USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_log_append';
END $$;

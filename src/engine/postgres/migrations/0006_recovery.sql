-- SPDX-License-Identifier: Apache-2.0
-- Recovery of buckets: one walk over an activity for all of its buckets, rows of the outbox that tell of many, and indexes that no statistics can turn into
-- a scan of everything.

-- One walk for all buckets of an activity that are being recovered: ORDERED (0), RELEASED (1), UNITS (2), and round again. A bucket joins it where it is, and
-- has been told everything when the walk comes by that place in the next lap.
CREATE TABLE recovery_walk (
  activity_id   text COLLATE "C" PRIMARY KEY REFERENCES activity,
  epoch         smallint NOT NULL,
  lap           bigint NOT NULL DEFAULT 0,
  step          smallint NOT NULL DEFAULT 0 CHECK (step BETWEEN 0 AND 2),
  after_user    text COLLATE "C" NOT NULL DEFAULT '',    -- how far ORDERED and RELEASED are
  after_request text COLLATE "C" NOT NULL DEFAULT '',
  after_unit    bigint NOT NULL DEFAULT 0,               -- how far UNITS is
  visited       bigint NOT NULL DEFAULT 0                -- verdicts and units looked at, in all laps
) WITH (fillfactor = 50);

ALTER TABLE bucket DROP CONSTRAINT bucket_step_check;
UPDATE bucket SET step = 'HEALED', mark = NULL WHERE step <> 'HEALED';    -- what was under way begins anew
ALTER TABLE bucket ADD CONSTRAINT bucket_step_check CHECK (step IN ('WALK', 'WAIT', 'HEALED'));
ALTER TABLE bucket
  DROP COLUMN after_user,
  DROP COLUMN after_request,
  DROP COLUMN after_unit,
  ADD COLUMN from_lap     bigint NOT NULL DEFAULT 0,                    -- where it joined the walk
  ADD COLUMN from_step    smallint NOT NULL DEFAULT 0,
  ADD COLUMN from_user    text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN from_request text COLLATE "C" NOT NULL DEFAULT '',
  ADD COLUMN from_unit    bigint NOT NULL DEFAULT 0;

-- STATUSES, RETURNS: the status of many reservations, the return of many units of one activity; `generation` says how many.
ALTER TABLE outbox ADD COLUMN units bigint[], ADD COLUMN generations integer[];
ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_kind_check
  CHECK (kind IN ('STATUS', 'RETURN', 'EVENT', 'DEAD_LETTER', 'REFUND', 'ORDERS', 'STATUSES', 'RETURNS'));
ALTER TABLE outbox DROP CONSTRAINT outbox_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_check
  CHECK (CASE kind WHEN 'STATUS' THEN reservation_id IS NOT NULL AND activity_id IS NOT NULL
                   WHEN 'RETURN' THEN unit IS NOT NULL AND generation IS NOT NULL AND activity_id IS NOT NULL
                   WHEN 'EVENT' THEN reservation_id IS NOT NULL AND subject IS NOT NULL
                   WHEN 'ORDERS' THEN activity_id IS NOT NULL AND generation = cardinality(reservations) AND generation BETWEEN 1 AND 64
                   WHEN 'STATUSES' THEN activity_id IS NOT NULL AND generation = cardinality(reservations) AND generation BETWEEN 1 AND 128
                   WHEN 'RETURNS' THEN activity_id IS NOT NULL AND generation = cardinality(units) AND generation = cardinality(generations)
                                       AND generation BETWEEN 1 AND 128
                   ELSE subject IS NOT NULL END);

-- Rows that tell of many, in their order. The key is an expression, so that no other index can offer this order: a planner that believed the outbox to be empty
-- would read all of it by the primary key.
DROP INDEX outbox_orders;
CREATE INDEX outbox_packs ON outbox ((outbox_id + 0)) WHERE kind IN ('ORDERS', 'STATUSES', 'RETURNS');

-- Lists of reviews, open or resolved, from the newest; and the review of an order.
DROP INDEX review_open;
CREATE INDEX review_listed ON review (status, opened_at);
CREATE INDEX review_order ON review (order_id) WHERE order_id IS NOT NULL;

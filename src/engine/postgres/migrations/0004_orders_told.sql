-- SPDX-License-Identifier: Apache-2.0
-- One outbox row tells of many orders: their status and their event. Nothing of it changes what is told, only how many rows it takes to remember it.

ALTER TABLE outbox ADD COLUMN reservations text[] COLLATE "C";           -- ORDERS: those of its orders; `generation` says how many
ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_kind_check CHECK (kind IN ('STATUS', 'RETURN', 'EVENT', 'DEAD_LETTER', 'REFUND', 'ORDERS'));
ALTER TABLE outbox DROP CONSTRAINT outbox_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_check
  CHECK (CASE kind WHEN 'STATUS' THEN reservation_id IS NOT NULL AND activity_id IS NOT NULL
                   WHEN 'RETURN' THEN unit IS NOT NULL AND generation IS NOT NULL AND activity_id IS NOT NULL
                   WHEN 'EVENT' THEN reservation_id IS NOT NULL AND subject IS NOT NULL
                   WHEN 'ORDERS' THEN activity_id IS NOT NULL AND generation = cardinality(reservations) AND generation BETWEEN 1 AND 64
                   ELSE subject IS NOT NULL END);
CREATE INDEX outbox_orders ON outbox (outbox_id) WHERE kind = 'ORDERS';

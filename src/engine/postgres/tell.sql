-- SPDX-License-Identifier: Apache-2.0
-- What place and release have in common once a verdict is written.

-- What stands for a request in the server's table of locks. Two requests with one key only wait for each other.
CREATE OR REPLACE FUNCTION request_key(activity_id text, user_id text, request_id text) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN hashtextextended(activity_id || '/' || user_id || '/' || request_id COLLATE "C", 0);

-- units_return(ids): units of reservations that this transaction has just RELEASED leave them. The units are already locked by the caller,
-- in unit order. A unit still AVAILABLE at the reservation's generation gets the next one and goes back; a generation above
-- the unit's means that the ledger went back in time, and the unit jumps past it, whoever holds it.
-- Writes inbox.raised, journal, compensation. The return itself is queued by outbox_tell.
CREATE OR REPLACE FUNCTION units_return(p_ids text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  r_unit bigint[];
  r_generation integer[];
  r_available boolean[];
  r_activity text[];
  r_sku text[];    -- a message of another SKU may name the same unit and generation: it has returned nothing
BEGIN
  WITH raised AS (
    UPDATE inventory_token t SET generation = r.top + 1, updated_at = now()
    FROM (SELECT x.unit, x.activity_id, x.sku_id, max(x.generation) AS top FROM consumer_inbox x
          WHERE x.reservation_id = ANY (p_ids) GROUP BY 1, 2, 3) r
    WHERE t.unit = ANY (ARRAY[r.unit]) AND t.activity_id = r.activity_id AND t.sku_id = r.sku_id
      AND (t.generation < r.top
           OR (t.generation = r.top AND t.status = 'AVAILABLE'
               AND (SELECT o.unit FROM orders o WHERE o.unit = t.unit AND o.status <> 'CANCELED' LIMIT 1) IS NULL))
    RETURNING t.unit, t.generation, t.status = 'AVAILABLE' AS available, t.activity_id, t.sku_id)
  SELECT array_agg(unit), array_agg(generation), array_agg(available), array_agg(activity_id), array_agg(sku_id)
  INTO r_unit, r_generation, r_available, r_activity, r_sku FROM raised;
  IF r_unit IS NULL THEN
    RETURN;
  END IF;

  UPDATE consumer_inbox x SET raised = r.generation
  FROM unnest(r_unit, r_generation, r_activity, r_sku) r(unit, generation, activity, sku)
  WHERE x.reservation_id = ANY (p_ids) AND x.unit = r.unit AND x.generation = r.generation - 1 AND x.activity_id = r.activity AND x.sku_id = r.sku;

  INSERT INTO inventory_journal (unit, generation, change, delta, reservation_id, reason)
  SELECT DISTINCT ON (r.unit) r.unit, r.generation, CASE WHEN r.available THEN 'RETURNED' ELSE 'RAISED' END, 0, x.reservation_id, x.reason
  FROM unnest(r_unit, r_generation, r_available, r_activity, r_sku) r(unit, generation, available, activity, sku)
  JOIN consumer_inbox x ON x.unit = r.unit AND x.generation = r.generation - 1 AND x.activity_id = r.activity AND x.sku_id = r.sku
  WHERE x.reservation_id = ANY (p_ids)
  ORDER BY r.unit, x.reservation_id;

  INSERT INTO compensation (compensation_id, reservation_id, compensation_type, schema_version, unit, generation)
  SELECT DISTINCT ON (r.unit) compensation_name(x.reservation_id, 'RETURN_UNIT', 1), x.reservation_id, 'RETURN_UNIT', 1, r.unit, r.generation
  FROM unnest(r_unit, r_generation, r_available, r_activity, r_sku) r(unit, generation, available, activity, sku)
  JOIN consumer_inbox x ON x.unit = r.unit AND x.generation = r.generation - 1 AND x.activity_id = r.activity AND x.sku_id = r.sku
  WHERE x.reservation_id = ANY (p_ids) AND r.available
  ORDER BY r.unit, x.reservation_id;
END $$;

-- orders_free(reservations, activities): of the orders of these reservations, just placed, those that cost nothing are PAID at once: nobody would ever send a
-- payment of 0. The first question is of the few SKUs of the activities, so that a sale at a price does no more than ask it.
CREATE OR REPLACE FUNCTION orders_free(p_ids text[], p_activities text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM activity_sku s WHERE s.activity_id = ANY (p_activities) AND s.price = 0) THEN
    RETURN;
  END IF;
  WITH paid AS (
    UPDATE orders o SET status = 'PAID', paid_at = now(), updated_at = now(), version = o.version + 1
    WHERE o.reservation_id = ANY (p_ids) AND o.amount = 0 AND o.status || '' = 'CREATED'
    RETURNING o.reservation_id)
  INSERT INTO outbox AS b (key, kind, reservation_id, subject)
  SELECT 'EVENT:PAID:' || p.reservation_id, 'EVENT', p.reservation_id, 'PAID' FROM paid p ORDER BY p.reservation_id
  ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL;
END $$;

-- outbox_tell(again, created, released): queues what others must hear. Of orders `created` by this transaction: status and event. Of the
-- reservations in `again` (each once; those not just created) that have a verdict: the status, and the return of the unit where that is AVAILABLE
-- at the generation which the verdict, or the cancel of the order, raised it to. Of those among them just `released`: the event.
-- A row that stands already is renewed: version + 1 and free to be claimed, for what was told may have been forgotten. Keys are taken in order,
-- so that two tellers never wait for each other.
CREATE OR REPLACE FUNCTION outbox_tell(p_again text[], p_created text[], p_released text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF p_released IS NOT NULL THEN
    PERFORM refund_released(p_released);
  END IF;
  INSERT INTO outbox AS b (key, kind, activity_id, reservation_id, unit, generation, subject)
  SELECT q.key, q.kind, q.activity_id, q.reservation_id, q.unit, q.generation, q.subject FROM (
    SELECT 'STATUS:' || x.reservation_id AS key, 'STATUS' AS kind, x.activity_id, x.reservation_id, NULL::bigint AS unit, NULL::integer AS generation,
           NULL::text AS subject
    FROM consumer_inbox x
    WHERE x.reservation_id = ANY (p_again || p_created) AND (SELECT a.number FROM activity a WHERE a.activity_id = x.activity_id) IS NOT NULL
    UNION ALL
    SELECT DISTINCT 'RETURN:' || t.unit || '-' || t.generation, 'RETURN', t.activity_id, NULL, t.unit, t.generation, NULL
    FROM consumer_inbox x
    LEFT JOIN LATERAL (SELECT o.raised FROM orders o WHERE o.reservation_id = x.reservation_id LIMIT 1) o ON true
    CROSS JOIN LATERAL (SELECT k.* FROM inventory_token k WHERE k.unit = x.unit LIMIT 1) t
    WHERE x.reservation_id = ANY (p_again) AND t.activity_id = x.activity_id AND t.sku_id = x.sku_id AND t.status = 'AVAILABLE'
      AND t.generation = coalesce(o.raised, x.raised)
    UNION ALL
    SELECT 'EVENT:ORDER_CREATED:' || c.id, 'EVENT', NULL, c.id, NULL, NULL, 'ORDER_CREATED' FROM unnest(p_created) c(id)
    UNION ALL
    SELECT 'EVENT:RESERVATION_RELEASED:' || c.id, 'EVENT', NULL, c.id, NULL, NULL, 'RESERVATION_RELEASED' FROM unnest(p_released) c(id)
  ) q
  ORDER BY q.key COLLATE "C"
  ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL;
END $$;

-- orders_tell(ids, activities): as outbox_tell of orders created by this transaction and nothing else. Many of them share rows, 64 a row: a row of an
-- outbox is written, claimed and deleted, and each of that costs more than what it says.
CREATE OR REPLACE FUNCTION orders_tell(p_ids text[], p_activities text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF cardinality(p_ids) < 16 THEN
    PERFORM outbox_tell('{}', p_ids, NULL);
    RETURN;
  END IF;
  INSERT INTO outbox (key, kind, activity_id, generation, reservations)
  SELECT 'ORDERS:' || min(i.id), 'ORDERS', i.activity, count(*), array_agg(i.id ORDER BY i.ordinal) FROM (
    SELECT p.id, p.activity, p.ordinal, (row_number() OVER (PARTITION BY p.activity ORDER BY p.ordinal) - 1) / 64 AS pack
    FROM unnest(p_ids, p_activities) WITH ORDINALITY p(id, activity, ordinal)) i
  GROUP BY i.activity, i.pack;
END $$;

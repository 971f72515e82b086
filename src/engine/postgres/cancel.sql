-- SPDX-License-Identifier: Apache-2.0
-- cancel_orders: unpaid orders go CREATED → CANCELING → CANCELED and their units come back, all in one call (mission §9.5).
--
-- In: orders, each with the user whose it must be ('': anybody's); whether only those whose deadline has passed by this clock, and none that
-- another transaction holds just now; why (goes into the journal). Out: one row per item, in order, each with this clock in ms.
-- Promises: whoever changes the order's row from CREATED first has it, a payment or a cancel; a PAID order is never touched; each unit
-- gets its next generation and its return is queued in the same transaction.
-- Locks: units → orders → outbox, each in order. (Orders first deadlocks with place_orders.)
CREATE OR REPLACE FUNCTION cancel_orders(i_order text[], i_user text[], p_due boolean, p_why text)
RETURNS TABLE (v_outcome text, v_fresh boolean, v_now bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  wanted text[];                 -- as they stood a moment ago
  units bigint[];
  mine text[];                   -- orders whose right to cancel is won, and what they are about, in one order …
  reservations text[];
  activities text[];
  freed text[];                  -- … and in that of the units as they were freed
  generations integer[];
  rows integer;
BEGIN
  PERFORM require_session();
  SELECT array_agg(DISTINCT o.order_id), array_agg(DISTINCT o.unit) INTO wanted, units
  FROM unnest(i_order, i_user) i(ord, usr)
  CROSS JOIN LATERAL (SELECT k.* FROM orders k WHERE k.order_id = i.ord LIMIT 1) o
  WHERE o.status = 'CREATED' AND (i.usr = '' OR i.usr = o.user_id) AND (NOT p_due OR o.pay_deadline <= now());
  IF wanted IS NOT NULL THEN
    -- What is locked is judged once more, and outside: by the look-up itself only the keys are named.
    IF p_due THEN
      SELECT array_agg(h.unit) INTO units FROM (SELECT t.unit FROM inventory_token t WHERE t.unit = ANY (units) ORDER BY t.unit FOR UPDATE SKIP LOCKED) h;
      WITH held AS MATERIALIZED (
        SELECT o.order_id, o.unit, o.reservation_id, o.activity_id, o.status, o.pay_deadline FROM orders o WHERE o.order_id = ANY (wanted)
        ORDER BY o.order_id FOR UPDATE SKIP LOCKED)
      SELECT array_agg(h.order_id), array_agg(h.unit), array_agg(h.reservation_id), array_agg(h.activity_id) INTO mine, units, reservations, activities
      FROM held h WHERE h.status = 'CREATED' AND h.pay_deadline <= now() AND h.unit = ANY (units);
    ELSE
      PERFORM FROM inventory_token t WHERE t.unit = ANY (units) ORDER BY t.unit FOR UPDATE;
      WITH held AS MATERIALIZED (
        SELECT o.order_id, o.unit, o.reservation_id, o.activity_id, o.status FROM orders o WHERE o.order_id = ANY (wanted) ORDER BY o.order_id FOR UPDATE)
      SELECT array_agg(h.order_id), array_agg(h.unit), array_agg(h.reservation_id), array_agg(h.activity_id) INTO mine, units, reservations, activities
      FROM held h WHERE h.status = 'CREATED';
    END IF;
  END IF;

  IF mine IS NOT NULL THEN
    UPDATE orders o SET status = 'CANCELING', updated_at = now(), version = o.version + 1 WHERE o.order_id = ANY (mine);
    WITH freed AS (
      UPDATE inventory_token t
      SET status = 'AVAILABLE', reservation_id = NULL, consumed_at = NULL, generation = t.generation + 1, updated_at = now()
      FROM unnest(mine, units, reservations, activities) m(ord, unit, reservation, activity)
      WHERE t.unit = ANY (ARRAY[m.unit]) AND t.reservation_id = m.reservation AND t.status = 'CONSUMED'
      RETURNING m.ord, m.unit, m.reservation, m.activity, t.generation)
    SELECT array_agg(ord), array_agg(unit), array_agg(reservation), array_agg(activity), array_agg(generation), count(*)
    INTO freed, units, reservations, activities, generations, rows FROM freed;
    IF rows <> cardinality(mine) THEN
      RAISE EXCEPTION 'cancel_orders: % orders but % units', cardinality(mine), rows USING ERRCODE = 'assert_failure';
    END IF;
    UPDATE orders o SET status = 'CANCELED', canceled_at = now(), raised = f.generation, updated_at = now(), version = o.version + 1
    FROM unnest(freed, generations) f(ord, generation)
    WHERE o.order_id = ANY (ARRAY[f.ord]);
    INSERT INTO inventory_journal (unit, generation, change, delta, reservation_id, reason)
    SELECT f.unit, f.generation, 'FREED', 1, f.reservation, p_why FROM unnest(units, generations, reservations) f(unit, generation, reservation);
    INSERT INTO compensation (compensation_id, reservation_id, compensation_type, schema_version, unit, generation)
    SELECT compensation_name(f.reservation, 'CANCEL_ORDER', 1), f.reservation, 'CANCEL_ORDER', 1, f.unit, f.generation
    FROM unnest(units, generations, reservations) f(unit, generation, reservation);
    INSERT INTO outbox AS b (key, kind, activity_id, reservation_id, unit, generation, subject)
    SELECT q.key, q.kind, q.activity_id, q.reservation_id, q.unit, q.generation, q.subject FROM (
      SELECT 'EVENT:CANCELED:' || f.reservation AS key, 'EVENT' AS kind, NULL::text AS activity_id, f.reservation AS reservation_id, NULL::bigint AS unit,
             NULL::integer AS generation, 'CANCELED' AS subject
      FROM unnest(reservations) f(reservation)
      UNION ALL
      SELECT 'RETURN:' || f.unit || '-' || f.generation, 'RETURN', f.activity, NULL, f.unit, f.generation, NULL
      FROM unnest(units, generations, activities) f(unit, generation, activity)) q
    ORDER BY q.key COLLATE "C"
    ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL;
  END IF;

  RETURN QUERY
    SELECT CASE WHEN o.order_id IS NULL OR (i.usr <> '' AND i.usr <> o.user_id) THEN 'NOT_FOUND'
                WHEN o.status = 'PAID' THEN 'ORDER_PAID'
                WHEN o.status = 'CANCELED' THEN 'CANCELED'
                WHEN p_due AND o.pay_deadline > now() THEN 'UNCHANGED'
                ELSE 'ENGINE_BUSY' END,    -- held by another transaction, or not there yet when we began
           o.order_id = ANY (mine) IS TRUE AND (i.usr = '' OR i.usr = o.user_id) AND i.turn = 1, (extract(epoch FROM now()) * 1000)::bigint
    FROM (SELECT i.*, row_number() OVER (PARTITION BY i.ord ORDER BY k.user_id = i.usr OR i.usr = '' DESC, i.ordinal) AS turn
          FROM unnest(i_order, i_user) WITH ORDINALITY i(ord, usr, ordinal)
          LEFT JOIN LATERAL (SELECT k.user_id FROM orders k WHERE k.order_id = i.ord LIMIT 1) k ON true) i
    LEFT JOIN LATERAL (SELECT k.* FROM orders k WHERE k.order_id = i.ord LIMIT 1) o ON true
    ORDER BY i.ordinal;
END $$;

-- overdue_orders: unpaid orders past their deadline by at least so much, the oldest first, from behind a place (its cursor and its order) on; one row without an
-- order where there is none, for the clock's sake. A cursor is the deadline in microseconds. 512 orders of one deadline, of two batches, are looked through at most.
DROP FUNCTION IF EXISTS overdue_orders(integer, integer);
CREATE OR REPLACE FUNCTION overdue_orders(p_limit integer, p_grace_ms integer, p_cursor bigint, p_order text)
RETURNS TABLE (d_order text, d_user text, d_activity text, d_amount bigint, d_deadline bigint, d_currency text, d_now bigint, d_cursor bigint)
LANGUAGE sql STABLE AS $$
  SELECT coalesce(o.order_id, ''), coalesce(o.user_id, ''), coalesce(o.activity_id, ''), coalesce(o.amount, 0),
         coalesce((extract(epoch FROM o.pay_deadline) * 1000)::bigint, 0), coalesce(o.currency, ''), (extract(epoch FROM now()) * 1000)::bigint,
         coalesce((extract(epoch FROM o.pay_deadline) * 1000000)::bigint, 0)
  FROM (VALUES (1)) one(x)
  LEFT JOIN LATERAL (
    SELECT k.* FROM (    -- orders_due alone has this order
      SELECT d.* FROM orders d
      WHERE d.status = 'CREATED' AND d.pay_deadline <= now() - make_interval(secs => p_grace_ms / 1000.0)
        AND d.pay_deadline >= 'epoch'::timestamptz + p_cursor * interval '1 microsecond'
      ORDER BY d.pay_deadline LIMIT p_limit + 512) k
    WHERE (extract(epoch FROM k.pay_deadline) * 1000000)::bigint > p_cursor OR k.order_id > p_order
    ORDER BY k.pay_deadline, k.order_id LIMIT p_limit) o ON true
  ORDER BY o.pay_deadline, o.order_id
$$;

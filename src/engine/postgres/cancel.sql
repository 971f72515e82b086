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
  mine text[];                   -- orders whose right to cancel is won
  c_unit bigint[];
  c_generation integer[];
  rows integer;
BEGIN
  SELECT array_agg(DISTINCT o.order_id), array_agg(DISTINCT o.unit) INTO wanted, units
  FROM unnest(i_order, i_user) i(ord, usr) JOIN orders o ON o.order_id = i.ord
  WHERE o.status = 'CREATED' AND (i.usr = '' OR i.usr = o.user_id) AND (NOT p_due OR o.pay_deadline <= now());
  IF wanted IS NOT NULL THEN
    IF p_due THEN
      SELECT array_agg(h.unit) INTO units FROM (SELECT t.unit FROM inventory_token t WHERE t.unit = ANY (units) ORDER BY t.unit FOR UPDATE SKIP LOCKED) h;
      SELECT array_agg(h.order_id) INTO mine FROM (
        SELECT o.order_id FROM orders o WHERE o.order_id = ANY (wanted) AND o.unit = ANY (units) AND o.status = 'CREATED' AND o.pay_deadline <= now()
        ORDER BY o.order_id FOR UPDATE SKIP LOCKED) h;
    ELSE
      PERFORM FROM inventory_token t WHERE t.unit = ANY (units) ORDER BY t.unit FOR UPDATE;
      SELECT array_agg(h.order_id) INTO mine FROM (
        SELECT o.order_id FROM orders o WHERE o.order_id = ANY (wanted) AND o.status = 'CREATED' ORDER BY o.order_id FOR UPDATE) h;
    END IF;
  END IF;

  IF mine IS NOT NULL THEN
    UPDATE orders o SET status = 'CANCELING', updated_at = now(), version = o.version + 1 WHERE o.order_id = ANY (mine) AND o.status = 'CREATED';
    WITH freed AS (
      UPDATE inventory_token t
      SET status = 'AVAILABLE', reservation_id = NULL, consumed_at = NULL, generation = t.generation + 1, updated_at = now()
      FROM orders o
      WHERE o.order_id = ANY (mine) AND t.unit = o.unit AND t.reservation_id = o.reservation_id AND t.status = 'CONSUMED'
      RETURNING t.unit, t.generation)
    SELECT array_agg(unit), array_agg(generation), count(*) INTO c_unit, c_generation, rows FROM freed;
    IF rows <> cardinality(mine) THEN
      RAISE EXCEPTION 'cancel_orders: % orders but % units', cardinality(mine), rows USING ERRCODE = 'assert_failure';
    END IF;
    UPDATE orders o SET status = 'CANCELED', canceled_at = now(), raised = c.generation, updated_at = now(), version = o.version + 1
    FROM unnest(c_unit, c_generation) c(unit, generation)
    WHERE o.order_id = ANY (mine) AND o.unit = c.unit AND o.status = 'CANCELING';
    INSERT INTO inventory_journal (unit, generation, change, delta, reservation_id, reason)
    SELECT o.unit, o.raised, 'FREED', 1, o.reservation_id, p_why FROM orders o WHERE o.order_id = ANY (mine);
    INSERT INTO compensation (compensation_id, reservation_id, compensation_type, schema_version, unit, generation)
    SELECT compensation_name(o.reservation_id, 'CANCEL_ORDER', 1), o.reservation_id, 'CANCEL_ORDER', 1, o.unit, o.raised FROM orders o WHERE o.order_id = ANY (mine);
    INSERT INTO outbox AS b (key, kind, activity_id, reservation_id, unit, generation, subject)
    SELECT q.key, q.kind, q.activity_id, q.reservation_id, q.unit, q.generation, q.subject FROM (
      SELECT 'EVENT:CANCELED:' || o.reservation_id AS key, 'EVENT' AS kind, NULL::text AS activity_id, o.reservation_id, NULL::bigint AS unit,
             NULL::integer AS generation, 'CANCELED' AS subject
      FROM orders o WHERE o.order_id = ANY (mine)
      UNION ALL
      SELECT 'RETURN:' || o.unit || '-' || o.raised, 'RETURN', o.activity_id, NULL, o.unit, o.raised, NULL FROM orders o WHERE o.order_id = ANY (mine)) q
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
    FROM (SELECT i.*, row_number() OVER (PARTITION BY i.ord ORDER BY o.user_id = i.usr OR i.usr = '' DESC, i.ordinal) AS turn
          FROM unnest(i_order, i_user) WITH ORDINALITY i(ord, usr, ordinal) LEFT JOIN orders o ON o.order_id = i.ord) i
    LEFT JOIN orders o ON o.order_id = i.ord
    ORDER BY i.ordinal;
END $$;

-- overdue_orders: unpaid orders past their deadline by at least so much, the oldest first; one row without an order where there is none, for the
-- clock's sake.
CREATE OR REPLACE FUNCTION overdue_orders(p_limit integer, p_grace_ms integer)
RETURNS TABLE (d_order text, d_user text, d_activity text, d_amount bigint, d_deadline bigint, d_currency text, d_now bigint) LANGUAGE sql STABLE AS $$
  SELECT coalesce(o.order_id, ''), coalesce(o.user_id, ''), coalesce(o.activity_id, ''), coalesce(o.amount, 0),
         coalesce((extract(epoch FROM o.pay_deadline) * 1000)::bigint, 0), coalesce(o.currency, ''), (extract(epoch FROM now()) * 1000)::bigint
  FROM (VALUES (1)) one(x)
  LEFT JOIN LATERAL (SELECT * FROM orders WHERE status = 'CREATED' AND pay_deadline <= now() - make_interval(secs => p_grace_ms / 1000.0)
                     ORDER BY pay_deadline, order_id LIMIT p_limit) o ON true
  ORDER BY o.pay_deadline, o.order_id
$$;

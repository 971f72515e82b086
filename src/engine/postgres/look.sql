-- SPDX-License-Identifier: Apache-2.0
-- look: what the ledger holds of one reservation, request or order. Out: one row, or none where it holds nothing, or another user asks.
-- `by`: RESERVATION | REQUEST (activity and user name it too) | ORDER. Of several reservations of one request the one with the order speaks,
-- then the one released first, whose superseded_by tells the rest. By ORDER: a row for each payment of it, oldest first, 65 at most, those with a refund first.
DROP FUNCTION IF EXISTS look(text, text, text, text);
CREATE OR REPLACE FUNCTION look(p_by text, p_id text, p_activity text, p_user text)
RETURNS TABLE (
  l_decided boolean, l_outcome text, l_why text, l_order text, l_superseded_by text,
  l_message text, l_request text, l_reservation text, l_activity text, l_sku text, l_user text, l_unit bigint, l_generation integer,
  l_created bigint, l_epoch smallint, l_has_order boolean, l_order_generation integer, l_order_state text, l_amount bigint, l_currency text,
  l_order_created bigint, l_paid bigint, l_deadline bigint, l_canceled bigint, l_parked boolean, l_decided_at bigint,
  l_payment text, l_result text, l_paid_amount bigint, l_paid_currency text, l_channel text, l_occurred bigint, l_disposition text, l_refund text,
  l_received bigint)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  id text;
BEGIN
  CASE p_by
    WHEN 'RESERVATION' THEN id := p_id;
    WHEN 'ORDER' THEN SELECT o.reservation_id INTO id FROM orders o WHERE o.order_id = p_id;
    WHEN 'REQUEST' THEN
      -- By the user's order of each SKU. Asked by (activity, user, request), which has an index too, a planner that expects one row of the sale reads the whole
      -- sale by the index (activity, SKU, user).
      SELECT o.reservation_id INTO id FROM activity_sku s
      CROSS JOIN LATERAL (SELECT k.reservation_id, k.request_id FROM orders k
                          WHERE k.activity_id = s.activity_id AND k.sku_id = s.sku_id AND k.user_id = p_user LIMIT 1) o
      WHERE s.activity_id = p_activity AND o.request_id = p_id;
      IF id IS NULL THEN
        SELECT x.reservation_id INTO id FROM consumer_inbox x
        WHERE x.activity_id = p_activity AND x.user_id = p_user AND x.request_id = p_id AND x.outcome = 'RELEASED'
        ORDER BY x.received_at, x.reservation_id LIMIT 1;
      END IF;
      IF id IS NULL THEN
        SELECT r.reservation_id INTO id FROM review r
        WHERE r.activity_id = p_activity AND r.user_id = p_user AND r.request_id = p_id AND r.status = 'OPEN' LIMIT 1;    -- review_request
      END IF;
  END CASE;
  IF id IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT x.reservation_id IS NOT NULL, coalesce(x.outcome, ''), coalesce(x.reason, 'OK'), coalesce(o.order_id, ''), coalesce(x.superseded_by, ''),
           coalesce(x.message_id, r.message_id, ''), coalesce(x.request_id, r.request_id, ''), id, coalesce(x.activity_id, r.activity_id, ''),
           coalesce(x.sku_id, r.sku_id, ''), coalesce(x.user_id, r.user_id, ''), coalesce(x.unit, r.unit, 0), coalesce(x.generation, r.generation, 0),
           coalesce((extract(epoch FROM coalesce(x.created_at, r.created_at)) * 1000)::bigint, 0), coalesce(x.epoch, r.epoch, 0::smallint),
           o.order_id IS NOT NULL, coalesce(o.generation, 0), coalesce(o.status, ''), coalesce(o.amount, 0), coalesce(o.currency, ''),
           coalesce((extract(epoch FROM o.created_at) * 1000)::bigint, 0), coalesce((extract(epoch FROM o.paid_at) * 1000)::bigint, 0),
           coalesce((extract(epoch FROM o.pay_deadline) * 1000)::bigint, 0), coalesce((extract(epoch FROM o.canceled_at) * 1000)::bigint, 0),
           r.review_id IS NOT NULL, coalesce((extract(epoch FROM x.received_at) * 1000)::bigint, 0),
           coalesce(p.given_id, p.payment_id, ''), coalesce(p.result, 'FAILED'), coalesce(p.amount, 0), coalesce(p.currency, ''), coalesce(p.channel, ''),
           coalesce((extract(epoch FROM p.occurred_at) * 1000)::bigint, 0), coalesce(p.disposition, 'OK'), coalesce(p.refund_status, 'NONE'),
           coalesce((extract(epoch FROM p.received_at) * 1000)::bigint, 0)
    FROM (VALUES (id)) asked(id)
    LEFT JOIN LATERAL (SELECT k.* FROM consumer_inbox k WHERE k.reservation_id = asked.id LIMIT 1) x ON true
    LEFT JOIN LATERAL (SELECT k.* FROM orders k WHERE k.reservation_id = asked.id LIMIT 1) o ON true
    LEFT JOIN LATERAL (SELECT v.* FROM review v WHERE v.reservation_id = asked.id AND v.status || '' = 'OPEN' ORDER BY v.opened_at LIMIT 1) r ON true
    LEFT JOIN LATERAL (SELECT q.* FROM payment_record q WHERE p_by = 'ORDER' AND q.order_id = p_id
                       ORDER BY q.refund_status = 'NONE', q.received_at, q.payment_id LIMIT 65) p ON true
    WHERE (x.reservation_id IS NOT NULL OR r.review_id IS NOT NULL)
      AND (coalesce(p_user, '') = '' OR coalesce(x.user_id, r.user_id) = p_user)
    ORDER BY p.received_at, p.payment_id;
END $$;

-- units: the units of an activity after `after`, in order: who has each, and whether something of it is still to be delivered.
-- Of the rows that tell of many, 256 are looked into; where more stand undelivered, something of every unit that an order has may be among them.
CREATE OR REPLACE FUNCTION units(p_activity text, p_after bigint, p_bucket integer, p_available boolean, p_limit integer)
RETURNS TABLE (u_unit bigint, u_generation integer, u_sku text, u_home smallint, u_available boolean, u_reservation text, u_ordered boolean,
               u_returning boolean)
LANGUAGE sql STABLE AS $$
  SELECT t.unit, t.generation, t.sku_id, t.bucket, t.status = 'AVAILABLE', coalesce(t.reservation_id, ''),
         coalesce((SELECT s.holds_stock FROM orders o JOIN order_state s ON s.state = o.status WHERE o.unit = t.unit AND o.status <> 'CANCELED' LIMIT 1), false),
         (SELECT b.key FROM outbox b WHERE b.key = 'RETURN:' || t.unit || '-' || t.generation) IS NOT NULL
         OR (SELECT b.key FROM outbox b WHERE b.key = 'STATUS:' || coalesce(t.reservation_id, (
               SELECT j.reservation_id FROM inventory_journal j WHERE j.unit = t.unit AND j.generation = t.generation AND j.change IN ('RETURNED', 'FREED') LIMIT 1))) IS NOT NULL
         OR coalesce(t.reservation_id, '') IN (SELECT unnest(p.reservations) FROM (
              SELECT b.reservations FROM outbox b WHERE b.kind = 'ORDERS' ORDER BY b.outbox_id + 0 LIMIT 256) p)
         OR (t.reservation_id IS NOT NULL AND (SELECT true FROM outbox b WHERE b.kind = 'ORDERS' ORDER BY b.outbox_id + 0 OFFSET 256 LIMIT 1) IS NOT NULL)
  FROM (SELECT k.* FROM activity_sku s
        CROSS JOIN LATERAL (SELECT k.* FROM inventory_token k WHERE k.unit BETWEEN greatest(s.unit_first, p_after + 1) AND s.unit_first + s.stock - 1
                            AND (p_bucket < 0 OR k.bucket = p_bucket) AND (NOT p_available OR k.status = 'AVAILABLE')
                            ORDER BY k.unit LIMIT p_limit) k
        WHERE s.activity_id = p_activity ORDER BY k.unit LIMIT p_limit) t
  ORDER BY t.unit
$$;

-- decided: of each reservation, in order, whether a verdict stands. A subquery of its own, which the planner may not turn into a join over the whole table.
CREATE OR REPLACE FUNCTION decided(p_reservations text[]) RETURNS SETOF boolean LANGUAGE sql STABLE AS $$
  SELECT (SELECT x.outcome FROM consumer_inbox x WHERE x.reservation_id = i.id LIMIT 1) IS NOT NULL
  FROM unnest(p_reservations) WITH ORDINALITY i(id, ordinal) ORDER BY i.ordinal
$$;

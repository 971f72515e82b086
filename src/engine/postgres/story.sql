-- SPDX-License-Identifier: Apache-2.0
-- story: what happened to a unit, a reservation, an order, a payment or a user (of an activity, '' : of any), told from the rows themselves: the newest
-- `limit` events, oldest first. `by`: UNIT | RESERVATION | ORDER | PAYMENT | USER.
CREATE OR REPLACE FUNCTION story(p_by text, p_id text, p_unit bigint, p_activity text, p_limit integer)
RETURNS TABLE (
  t_at bigint, t_kind text, t_reservation text, t_order text, t_user text, t_payment text, t_review text, t_unit bigint, t_generation integer,
  t_outcome text, t_why text, t_result text, t_refund text, t_amount bigint, t_currency text, t_detail text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
  ids text[];        -- reservations
  names text[];      -- orders, whether they stand or not
  paid text[];       -- payments
  units bigint[];
  looked text[];     -- reviews
  sales text[] := CASE WHEN p_by <> 'USER' THEN '{}' WHEN p_activity <> '' THEN ARRAY[p_activity] ELSE ARRAY(SELECT a.activity_id FROM activity a) END;
BEGIN
  CASE p_by
    WHEN 'UNIT' THEN
      ids := ARRAY(SELECT j.reservation_id FROM inventory_journal j WHERE j.unit = p_unit AND j.reservation_id IS NOT NULL
                   UNION SELECT o.reservation_id FROM orders o WHERE o.unit = p_unit);
    WHEN 'RESERVATION' THEN ids := ARRAY[p_id];
    WHEN 'ORDER' THEN
      names := ARRAY[p_id];
      ids := ARRAY(SELECT o.reservation_id FROM orders o WHERE o.order_id = p_id);
    WHEN 'PAYMENT' THEN
      paid := p_id || ARRAY(SELECT p.payment_id FROM payment_record p WHERE p.given_id = p_id);
      names := ARRAY(SELECT p.order_id FROM payment_record p WHERE p.payment_id = ANY (paid) UNION SELECT v.order_id FROM review v WHERE v.payment_id = ANY (paid));
      ids := ARRAY(SELECT o.reservation_id FROM orders o WHERE o.order_id = ANY (names));
    WHEN 'USER' THEN
      -- Neither table has an index that begins with the user: a look-up of his order for each SKU, of his releases for each sale.
      ids := ARRAY(
        SELECT q.reservation_id FROM (
          SELECT x.received_at, x.reservation_id FROM activity_sku s
          CROSS JOIN LATERAL (SELECT o.reservation_id FROM orders o WHERE o.activity_id = s.activity_id AND o.sku_id = s.sku_id AND o.user_id = p_id LIMIT 1) o
          CROSS JOIN LATERAL (SELECT k.received_at, k.reservation_id FROM consumer_inbox k WHERE k.reservation_id = o.reservation_id LIMIT 1) x
          WHERE s.activity_id = ANY (sales)
          UNION ALL
          SELECT x.received_at, x.reservation_id FROM unnest(sales) s(id)
          CROSS JOIN LATERAL (SELECT k.received_at, k.reservation_id FROM consumer_inbox k
                              WHERE k.activity_id = s.id AND k.user_id = p_id AND k.outcome = 'RELEASED' ORDER BY k.request_id LIMIT p_limit) x) q
        ORDER BY q.received_at DESC, q.reservation_id LIMIT p_limit);
  END CASE;
  names := coalesce(names, '{}') || ARRAY(SELECT order_name(i.id) FROM unnest(ids) i(id));
  paid := coalesce(paid, '{}') || ARRAY(SELECT p.payment_id FROM payment_record p WHERE p.order_id = ANY (names)
                                        UNION SELECT v.payment_id FROM review v WHERE v.kind = 'PAYMENT' AND v.order_id = ANY (names)
                                        UNION SELECT p.given_id FROM payment_record p WHERE p.order_id = ANY (names) AND p.given_id IS NOT NULL);

  units := CASE WHEN p_by = 'UNIT' THEN ARRAY[p_unit] ELSE ARRAY(SELECT DISTINCT x.unit FROM consumer_inbox x WHERE x.reservation_id = ANY (ids)) END;

  looked := ARRAY(SELECT v.review_id FROM review v WHERE v.reservation_id = ANY (ids) UNION SELECT v.review_id FROM review v WHERE v.payment_id = ANY (paid));

  RETURN QUERY
    SELECT (extract(epoch FROM e.happened) * 1000)::bigint, e.kind, coalesce(e.reservation, ''), coalesce(e.ord, ''), coalesce(e.usr, ''),
           coalesce(payment_given(e.payment), ''), coalesce(e.review, ''), coalesce(e.unit, 0), coalesce(e.generation, 0), coalesce(e.outcome, 'OK'), coalesce(e.why, 'OK'),
           coalesce(e.result, 'FAILED'), coalesce(e.refund, 'NONE'), coalesce(e.amount, 0), coalesce(e.currency, ''), coalesce(e.detail, '')
    FROM (
      SELECT q.* FROM (
        SELECT x.received_at AS happened, 1 AS step, 'DECIDED' AS kind, x.reservation_id AS reservation,
               CASE x.outcome WHEN 'ORDERED' THEN order_name(x.reservation_id) END AS ord, x.user_id AS usr, NULL::text AS payment, NULL::text AS review,
               x.unit, x.generation, x.outcome, x.reason AS why, NULL::text AS result, NULL::text AS refund, NULL::bigint AS amount,
               NULL::text AS currency, x.superseded_by AS detail
        FROM consumer_inbox x WHERE x.reservation_id = ANY (ids)
        UNION ALL
        SELECT CASE k.kind WHEN 'CREATED' THEN o.created_at WHEN 'PAID' THEN o.paid_at ELSE o.canceled_at END, k.step, k.kind, o.reservation_id, o.order_id,
               o.user_id, CASE k.kind WHEN 'PAID' THEN o.payment_id END, NULL, o.unit, o.generation, NULL,
               CASE k.kind WHEN 'CANCELED' THEN (SELECT j.reason FROM inventory_journal j WHERE j.unit = o.unit AND j.generation = o.raised AND j.change = 'FREED') END,
               NULL, NULL, o.amount, o.currency, NULL
        FROM orders o, (VALUES ('CREATED', 2), ('PAID', 5), ('CANCELED', 6)) k(kind, step)
        WHERE o.reservation_id = ANY (ids)
          AND (k.kind = 'CREATED' OR (k.kind = 'PAID' AND o.paid_at IS NOT NULL) OR (k.kind = 'CANCELED' AND o.canceled_at IS NOT NULL))
        UNION ALL
        SELECT j.happened_at, CASE j.change WHEN 'CONSUMED' THEN 3 ELSE 7 END, j.change, j.reservation_id, NULL, x.user_id, NULL, NULL, j.unit, j.generation, NULL,
               j.reason, NULL, NULL, NULL, NULL, NULL
        FROM inventory_journal j
        LEFT JOIN LATERAL (SELECT k.user_id FROM consumer_inbox k WHERE k.reservation_id = j.reservation_id LIMIT 1) x ON true
        WHERE j.unit = ANY (units) AND (p_by = 'UNIT' OR j.reservation_id = ANY (ids))
        UNION ALL
        SELECT c.done_at, 8, 'RESTOCKED', c.reservation_id, NULL, NULL, NULL, NULL, c.unit, c.generation, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM compensation c
        WHERE c.unit = ANY (units) AND c.done_at IS NOT NULL AND (p_by = 'UNIT' OR c.reservation_id = ANY (ids))
        UNION ALL
        SELECT w.received_at, 4, 'PAYMENT_HEARD', NULL, w.order_id, NULL, w.payment_id, NULL, NULL, NULL, w.verdict, w.why, w.result, NULL, w.amount, w.currency,
               NULL
        FROM payment_webhook w WHERE w.payment_id = ANY (paid)
        UNION ALL
        SELECT p.refund_asked_at, 9, 'REFUND', NULL, p.order_id, NULL, p.payment_id, NULL, NULL, NULL, NULL, p.disposition, NULL, 'REQUESTED', p.amount, p.currency, p.channel
        FROM payment_record p WHERE p.payment_id = ANY (paid) AND p.refund_asked_at IS NOT NULL
        UNION ALL
        SELECT p.refunded_at, 10, 'REFUND', NULL, p.order_id, NULL, p.payment_id, NULL, NULL, NULL, NULL, p.disposition, NULL, 'DONE', p.amount, p.currency, p.channel
        FROM payment_record p WHERE p.payment_id = ANY (paid) AND p.refunded_at IS NOT NULL
        UNION ALL
        SELECT v.opened_at, 11, 'REVIEW', v.reservation_id, v.order_id, v.user_id, v.payment_id, v.review_id, v.unit, v.generation, NULL, v.reason, v.result, NULL,
               v.amount, v.currency, NULL
        FROM review v WHERE v.review_id = ANY (looked)
        UNION ALL
        SELECT v.resolved_at, 12, 'RESOLVED', v.reservation_id, v.order_id, v.user_id, v.payment_id, v.review_id, v.unit, v.generation, NULL, v.reason, v.result, NULL,
               v.amount, v.currency, v.decision || ' by ' || v.actor || ': ' || v.note
        FROM review v WHERE v.review_id = ANY (looked) AND v.resolved_at IS NOT NULL
      ) q
      ORDER BY q.happened DESC, q.step DESC, q.reservation DESC, q.payment DESC LIMIT p_limit) e
    ORDER BY e.happened, e.step, e.reservation, e.payment;
END $$;

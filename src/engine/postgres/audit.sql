-- SPDX-License-Identifier: Apache-2.0
-- audit: the rules of mission §17.7 and H1–H10 and H14 as far as the ledger can judge alone, of one activity ('' : all). Nothing here trusts a
-- constraint: each rule is counted from the rows, so that a ledger whose constraint was dropped is found out.
-- Out: at most 1000 findings (rule, subject, detail), named by their row.
--
-- Every join here is of a whole activity, so none of them may be a nested loop. The planner believes its statistics, and after a sale they are of
-- before it: it expects one row of an activity it has never counted, and 10,000 orders then cost 76 s instead of 0.8 (docs/faults).
CREATE OR REPLACE FUNCTION audit_findings(p_activity text) RETURNS TABLE (f_rule text, f_subject text, f_detail text) LANGUAGE sql STABLE
  SET enable_nestloop TO off AS $$
  WITH o AS MATERIALIZED (SELECT * FROM orders WHERE p_activity = '' OR activity_id = p_activity),
       x AS MATERIALIZED (SELECT * FROM consumer_inbox WHERE p_activity = '' OR activity_id = p_activity),
       t AS MATERIALIZED (SELECT * FROM inventory_token WHERE p_activity = '' OR activity_id = p_activity),
       s AS MATERIALIZED (SELECT * FROM activity_sku WHERE p_activity = '' OR activity_id = p_activity),
       held AS MATERIALIZED (SELECT * FROM o WHERE status <> 'CANCELED'),
       -- a payment belongs to its order's activity; one of an order that does not exist, to all of them together
       p AS MATERIALIZED (SELECT p.*, o.status, o.order_id IS NOT NULL AS ordered, o.status = 'PAID' AND o.payment_id = p.payment_id AS pays
                          FROM payment_record p LEFT JOIN o USING (order_id) WHERE p_activity = '' OR o.order_id IS NOT NULL)
  SELECT * FROM (
    SELECT 'H1' AS rule, s.activity_id || '/' || s.sku_id AS subject, 'effective orders ' || count(h.order_id) || ' of stock ' || s.stock AS detail
    FROM s LEFT JOIN held h USING (activity_id, sku_id) GROUP BY s.activity_id, s.sku_id, s.stock HAVING count(h.order_id) > s.stock
    UNION ALL
    SELECT 'H1', 'unit ' || w.unit, 'the journal consumes it ' || max(w.used) || ' times at once, by generation ' || max(w.generation)
    FROM (SELECT j.unit, j.generation, -sum(j.delta) OVER (PARTITION BY j.unit ORDER BY j.generation, j.change DESC) AS used
          FROM inventory_journal j JOIN t USING (unit)) w WHERE w.used NOT IN (0, 1) GROUP BY w.unit
    UNION ALL
    SELECT 'H1', 'unit ' || t.unit, 'the journal says ' || coalesce(j.used, 0) || ' consumed, the unit is ' || t.status
    FROM t LEFT JOIN (SELECT unit, -sum(delta) AS used FROM inventory_journal GROUP BY unit) j USING (unit)
    WHERE coalesce(j.used, 0) <> CASE t.status WHEN 'CONSUMED' THEN 1 ELSE 0 END
    UNION ALL
    SELECT 'H2', o.activity_id || '/' || o.sku_id || '/' || o.user_id, count(*) || ' orders of one user: ' || string_agg(o.order_id, ' ' ORDER BY o.order_id)
    FROM o GROUP BY o.activity_id, o.sku_id, o.user_id HAVING count(*) > 1
    UNION ALL
    SELECT 'H3', x.activity_id || '/' || x.user_id || '/' || x.request_id, 'ordered ' || count(*) || ' times: ' || string_agg(x.reservation_id, ' ' ORDER BY x.reservation_id)
    FROM x WHERE x.outcome = 'ORDERED' GROUP BY x.activity_id, x.user_id, x.request_id HAVING count(*) > 1
    UNION ALL
    SELECT 'H3', o.activity_id || '/' || o.user_id || '/' || o.request_id, count(*) || ' orders of one request: ' || string_agg(o.order_id, ' ' ORDER BY o.order_id)
    FROM o GROUP BY o.activity_id, o.user_id, o.request_id HAVING count(*) > 1
    UNION ALL
    SELECT 'H4', o.reservation_id, count(*) || ' orders: ' || string_agg(o.order_id, ' ' ORDER BY o.order_id) FROM o GROUP BY o.reservation_id HAVING count(*) > 1
    UNION ALL
    SELECT 'H4', x.consumer_group || '/' || x.message_id, 'decided ' || count(*) || ' reservations' FROM x
    WHERE x.message_id IS NOT NULL GROUP BY x.consumer_group, x.message_id HAVING count(*) > 1
    UNION ALL
    SELECT 'H5', token_id(o.unit, o.generation), 'bound to ' || string_agg(o.reservation_id, ' ' ORDER BY o.reservation_id)
    FROM o GROUP BY o.unit, o.generation HAVING count(DISTINCT o.reservation_id) > 1
    UNION ALL
    SELECT 'H5', 'unit ' || h.unit, 'held by ' || count(*) || ' orders: ' || string_agg(h.order_id, ' ' ORDER BY h.order_id)
    FROM held h GROUP BY h.unit HAVING count(*) > 1
    UNION ALL
    SELECT 'H5', 'unit ' || t.unit, 'CONSUMED by ' || t.reservation_id || ', which has no order of it'
    FROM t LEFT JOIN held h ON h.unit = t.unit AND h.reservation_id = t.reservation_id WHERE t.status = 'CONSUMED' AND h.order_id IS NULL
    UNION ALL
    SELECT 'H5', h.order_id, 'holds unit ' || h.unit || ', which is ' || coalesce(t.status || ' by ' || coalesce(t.reservation_id, 'nobody'), 'not there')
    FROM held h LEFT JOIN t ON t.unit = h.unit AND t.activity_id = h.activity_id AND t.sku_id = h.sku_id
    WHERE t.unit IS NULL OR t.status <> 'CONSUMED' OR t.reservation_id IS DISTINCT FROM h.reservation_id
    UNION ALL
    SELECT 'H6', 'unit ' || t.unit, 'generation ' || t.generation || ' is behind ' || m.why || ' at ' || m.generation
    FROM t JOIN (SELECT unit, generation, 'order ' || order_id AS why FROM o
                 UNION ALL SELECT unit, generation + 1, 'the cancelled order ' || order_id FROM o WHERE status = 'CANCELED'
                 UNION ALL SELECT unit, raised, 'the verdict of ' || reservation_id FROM x WHERE raised IS NOT NULL
                 UNION ALL SELECT unit, generation, 'its journal' FROM inventory_journal) m USING (unit)
    WHERE t.generation < m.generation
    UNION ALL
    SELECT 'H7', x.reservation_id, 'ORDERED without an order' FROM x LEFT JOIN o USING (reservation_id) WHERE x.outcome = 'ORDERED' AND o.order_id IS NULL
    UNION ALL
    SELECT 'H7', o.order_id, 'its reservation ' || o.reservation_id || ' is ' || coalesce(x.outcome, 'not decided')
    FROM o LEFT JOIN x USING (reservation_id) WHERE x.outcome IS DISTINCT FROM 'ORDERED'
    UNION ALL
    SELECT 'H8', p.order_id, 'a payment was applied, the order is ' || p.status FROM p
    WHERE p.disposition = 'PAYMENT_APPLIED' AND p.result = 'SUCCESS' AND p.ordered AND p.status <> 'PAID'
    UNION ALL
    SELECT 'H8', o.order_id, 'paid ' || o.amount || ' ' || o.currency || coalesce(' by ' || o.payment_id || ', which is ' || p.result || ' ' || p.amount || ' ' || p.currency, ' by nothing')
    FROM o LEFT JOIN p ON p.payment_id = o.payment_id AND p.order_id = o.order_id
    WHERE o.status = 'PAID' AND (p.payment_id IS NULL OR p.result <> 'SUCCESS' OR p.disposition <> 'PAYMENT_APPLIED' OR p.amount <> o.amount OR p.currency <> o.currency)
    UNION ALL
    SELECT 'H8', o.order_id, 'names payment ' || o.payment_id || ' and is ' || o.status FROM o WHERE o.payment_id IS NOT NULL AND o.status <> 'PAID'
    UNION ALL
    SELECT 'H9', p.payment_id, 'money for order ' || p.order_id || ' (' || p.status || ') and no refund was asked for'
    FROM p WHERE p.result = 'SUCCESS' AND p.refund_status = 'NONE' AND p.disposition <> 'PAYMENT_QUARANTINED' AND NOT p.pays
    UNION ALL
    SELECT 'H9', p.payment_id, 'refunded, and ' || CASE WHEN p.pays THEN 'it pays order ' || p.order_id ELSE 'it never succeeded' END
    FROM p WHERE p.refund_status <> 'NONE' AND (p.pays OR p.result <> 'SUCCESS')
    UNION ALL
    SELECT 'H9', p.payment_id, 'its refund is ' || p.refund_status || ' and ' || CASE WHEN b.key IS NULL THEN 'nothing' ELSE 'still something' END || ' of it is in the outbox'
    FROM p LEFT JOIN outbox b ON b.key = 'REFUND:' || p.payment_id WHERE (p.refund_status = 'REQUESTED') <> (b.key IS NOT NULL)
    UNION ALL
    SELECT 'H9', substr(b.key, 8), 'a refund without a payment' FROM outbox b
    WHERE p_activity = '' AND b.kind = 'REFUND' AND NOT EXISTS (SELECT FROM payment_record q WHERE q.payment_id = b.subject)
    UNION ALL
    SELECT 'H9', p.payment_id, 'set aside for order ' || p.order_id || ', whose reservation is RELEASED, and not given back'
    FROM p JOIN consumer_inbox r ON r.reservation_id = reservation_of(p.order_id)
    WHERE p.result = 'SUCCESS' AND p.refund_status = 'NONE' AND NOT p.ordered AND r.outcome = 'RELEASED'
    UNION ALL
    SELECT 'money', p.payment_id, 'set aside, and no person was called' FROM p
    WHERE p.disposition = 'PAYMENT_QUARANTINED' AND p.refund_status = 'NONE' AND NOT EXISTS (SELECT FROM review v WHERE v.payment_id = p.payment_id)
    UNION ALL
    SELECT 'money', o.order_id, 'costs ' || o.amount || ' ' || o.currency || ', the item ' || s.price || ' ' || s.currency
    FROM o JOIN s USING (activity_id, sku_id) WHERE o.amount <> s.price OR o.currency <> s.currency
    UNION ALL
    SELECT 'money', m.currency, 'came in ' || m.came || '; paid orders ' || m.paid || ' + refunds ' || m.refunds || ' + set aside ' || m.aside || ' = ' || m.paid + m.refunds + m.aside
    FROM (SELECT c.currency, sum(c.came) AS came, sum(c.paid) AS paid, sum(c.refunds) AS refunds, sum(c.aside) AS aside FROM (
            SELECT p.currency, p.amount::numeric AS came, 0::numeric AS paid, CASE WHEN p.refund_status <> 'NONE' THEN p.amount ELSE 0 END AS refunds,
                   CASE WHEN p.refund_status = 'NONE' AND p.disposition = 'PAYMENT_QUARANTINED' THEN p.amount ELSE 0 END AS aside
            FROM p WHERE p.result = 'SUCCESS'
            UNION ALL SELECT o.currency, 0, o.amount, 0, 0 FROM o WHERE o.status = 'PAID') c GROUP BY c.currency) m
    WHERE m.came <> m.paid + m.refunds + m.aside
    UNION ALL
    SELECT 'H10', s.activity_id || '/' || s.sku_id, 'units ' || count(t.unit) || ' of stock ' || s.stock
    FROM s LEFT JOIN t ON t.activity_id = s.activity_id AND t.sku_id = s.sku_id AND t.unit BETWEEN s.unit_first AND s.unit_first + s.stock - 1
                          AND t.status IN ('AVAILABLE', 'CONSUMED')
    GROUP BY s.activity_id, s.sku_id, s.stock HAVING count(t.unit) <> s.stock
    UNION ALL
    SELECT 'H10', 'unit ' || t.unit, 'belongs to no SKU''s stock' FROM t
    LEFT JOIN s ON t.activity_id = s.activity_id AND t.sku_id = s.sku_id AND t.unit BETWEEN s.unit_first AND s.unit_first + s.stock - 1 WHERE s.sku_id IS NULL
    UNION ALL    -- what a commit promises; that it is waited for is asked of each connection when it begins (lane.c)
    SELECT 'H14', 'PostgreSQL', name || ' is off: what was told may be forgotten' FROM pg_settings WHERE name IN ('fsync', 'full_page_writes') AND setting <> 'on'
    UNION ALL
    SELECT '17.7 one order per user', o.activity_id || '/' || o.sku_id || '/' || o.user_id, count(*) || ' orders'
    FROM o GROUP BY o.activity_id, o.sku_id, o.user_id HAVING count(*) > 1
    UNION ALL
    SELECT '17.7 one reservation per token', o.inventory_token_id, count(DISTINCT o.reservation_id) || ' reservations'
    FROM o GROUP BY o.inventory_token_id HAVING count(DISTINCT o.reservation_id) > 1
    UNION ALL
    SELECT '17.7 one order per reservation', o.reservation_id, count(*) || ' orders' FROM o GROUP BY o.reservation_id HAVING count(*) > 1
    UNION ALL
    SELECT '17.7 paid is never cancelled', o.order_id, 'paid and ' || o.status FROM o WHERE o.paid_at IS NOT NULL AND o.status IN ('CANCELING', 'CANCELED')
  ) findings LIMIT 1000
$$;

-- audit_totals: what the findings were judged over.
CREATE OR REPLACE FUNCTION audit_totals(p_activity text)
RETURNS TABLE (c_stock bigint, c_available bigint, c_consumed bigint, c_orders bigint, c_holding bigint, c_released bigint, c_outbox bigint,
               c_first bigint, c_last bigint) LANGUAGE sql STABLE AS $$
  SELECT (SELECT coalesce(sum(stock), 0)::bigint FROM activity_sku WHERE p_activity = '' OR activity_id = p_activity), u.available, u.consumed, o.orders, o.holding,
         (SELECT count(*) FROM consumer_inbox WHERE outcome = 'RELEASED' AND (p_activity = '' OR activity_id = p_activity)),
         (SELECT coalesce(sum(CASE b.kind WHEN 'ORDERS' THEN 2 * b.generation ELSE 1 END), 0) FROM outbox b LEFT JOIN consumer_inbox x USING (reservation_id)
          WHERE p_activity = '' OR coalesce(b.activity_id, x.activity_id) = p_activity),
         coalesce((extract(epoch FROM o.first_at) * 1000)::bigint, 0), coalesce((extract(epoch FROM o.last_at) * 1000)::bigint, 0)
  FROM (SELECT count(*) FILTER (WHERE status = 'AVAILABLE') AS available, count(*) FILTER (WHERE status = 'CONSUMED') AS consumed
        FROM inventory_token WHERE p_activity = '' OR activity_id = p_activity) u,
       (SELECT count(*) AS orders, count(*) FILTER (WHERE status <> 'CANCELED') AS holding, min(created_at) AS first_at, max(created_at) AS last_at
        FROM orders WHERE p_activity = '' OR activity_id = p_activity) o
$$;

-- audit: one row per finding, each with the totals; one row with no finding where all holds. One snapshot for all of it: the caller's statement.
CREATE OR REPLACE FUNCTION audit(p_activity text)
RETURNS TABLE (f_rule text, f_subject text, f_detail text, c_stock bigint, c_available bigint, c_consumed bigint, c_orders bigint, c_holding bigint,
               c_released bigint, c_outbox bigint, c_first bigint, c_last bigint) LANGUAGE sql STABLE AS $$
  SELECT coalesce(f.f_rule, ''), coalesce(f.f_subject, ''), coalesce(f.f_detail, ''), c.*
  FROM audit_totals(p_activity) c LEFT JOIN audit_findings(p_activity) f ON true
$$;

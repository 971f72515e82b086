-- SPDX-License-Identifier: Apache-2.0
-- audit: the rules of mission §17.7 and H1–H10 and H14 as far as the ledger can judge alone. Each rule is counted from rows; what holds across
-- activities is held by unique constraints, and these are looked for.
-- In: an activity; '*': what belongs to no activity; '': every activity and '*', in one statement, for small ledgers.
-- Out: at most 1000 findings (rule, subject, detail), named by their row.
-- Locks: none.
--
-- Two kinds of functions, because the planner believes its statistics, and after a sale they are of before it:
--   audit_orders … audit_payments   read the rows of one activity, through an index and by nothing else, whatever the statistics say;
--   audit_activity_findings         joins those rows to each other, by hash and by nothing else: a nested loop over 10,000 orders takes 76 s.

-- ---- the rows of one activity -------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION audit_orders(p_activity text) RETURNS SETOF orders LANGUAGE sql STABLE
  SET enable_seqscan TO off SET jit TO off AS $$
  SELECT * FROM orders WHERE activity_id = p_activity
$$;

CREATE OR REPLACE FUNCTION audit_inbox(p_activity text) RETURNS SETOF consumer_inbox LANGUAGE sql STABLE
  SET enable_seqscan TO off SET jit TO off AS $$
  SELECT * FROM consumer_inbox WHERE activity_id = p_activity AND outcome = 'ORDERED'
  UNION ALL SELECT * FROM consumer_inbox WHERE activity_id = p_activity AND outcome = 'RELEASED'
$$;

-- Units by the ranges of the activity's items, and those that claim the activity beyond every range. OFFSET 0: the planner may not turn it round.
CREATE OR REPLACE FUNCTION audit_units(p_activity text) RETURNS SETOF inventory_token LANGUAGE sql STABLE
  SET enable_seqscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off AS $$
  SELECT t.* FROM activity_sku s
  CROSS JOIN LATERAL (SELECT * FROM inventory_token k WHERE k.unit BETWEEN s.unit_first AND s.unit_first + s.stock - 1 OFFSET 0) t
  WHERE s.activity_id = p_activity
  UNION ALL
  SELECT k.* FROM inventory_token k
  WHERE k.unit >= (SELECT s.unit_first + s.stock FROM activity_sku s ORDER BY s.unit_first DESC LIMIT 1) AND k.activity_id = p_activity
$$;

CREATE OR REPLACE FUNCTION audit_journal(p_activity text) RETURNS SETOF inventory_journal LANGUAGE sql STABLE
  SET enable_seqscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off AS $$
  SELECT j.* FROM activity_sku s
  CROSS JOIN LATERAL (SELECT * FROM inventory_journal k WHERE k.unit BETWEEN s.unit_first AND s.unit_first + s.stock - 1 OFFSET 0) j
  WHERE s.activity_id = p_activity
$$;

-- A payment belongs to its order's activity. queued: a refund of it is in the outbox; reviewed: an operator was called.
CREATE OR REPLACE FUNCTION audit_payments(p_activity text) RETURNS TABLE (p payment_record, queued boolean, reviewed boolean) LANGUAGE sql STABLE
  SET enable_seqscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off AS $$
  SELECT p.row, (SELECT true FROM outbox b WHERE b.key = 'REFUND:' || (p.row).payment_id LIMIT 1) IS NOT NULL,
         (SELECT true FROM review v WHERE v.payment_id = (p.row).payment_id LIMIT 1) IS NOT NULL
  FROM (SELECT order_id FROM orders WHERE activity_id = p_activity OFFSET 0) o
  CROSS JOIN LATERAL (SELECT q AS row FROM payment_record q WHERE q.order_id = o.order_id OFFSET 0) p
$$;

-- ---- what holds across activities ---------------------------------------------------------------------------------------------------

-- The unique indexes by which no two activities share a unit, a reservation, a message or a payment. One that is missing or not valid proves nothing.
-- And the settings without which a commit may be forgotten. Both are judged with each activity: a sale whose ledger lacks one is paused.
CREATE OR REPLACE FUNCTION audit_constraints() RETURNS TABLE (f_rule text, f_subject text, f_detail text) LANGUAGE sql STABLE
  SET enable_seqscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off AS $$
  SELECT c.rule, c.name, 'the unique index is missing or not valid'
  FROM (VALUES ('H2', 'uq_orders_activity_sku_user'), ('H3', 'uq_orders_activity_user_request'), ('H4', 'orders_pkey'), ('H4', 'uq_orders_reservation'),
               ('H4', 'consumer_inbox_consumer_group_message_id_key'), ('H5', 'uq_orders_token'), ('H5', 'uq_orders_unit_held'),
               ('H7', 'consumer_inbox_pkey'), ('H9', 'payment_record_pkey'), ('H10', 'inventory_token_pkey')) c(rule, name)
  WHERE (SELECT true FROM pg_index i WHERE i.indexrelid = to_regclass(c.name) AND i.indisunique AND i.indisvalid AND i.indisready LIMIT 1) IS NULL
  UNION ALL    -- what a commit promises; that it is waited for is asked of each connection when it begins (lane.c). Each sale depends on it
  SELECT 'H14', 'PostgreSQL', n.name || ' is off: what was told may be forgotten' FROM (VALUES ('fsync'), ('full_page_writes')) n(name)
  WHERE current_setting(n.name) <> 'on'
$$;

-- ---- one activity -------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION audit_activity_findings(p_activity text) RETURNS TABLE (f_rule text, f_subject text, f_detail text) LANGUAGE sql STABLE
  SET enable_nestloop TO off SET enable_seqscan TO off SET jit TO off AS $$
  WITH o AS MATERIALIZED (SELECT * FROM audit_orders(p_activity)),
       x AS MATERIALIZED (SELECT * FROM audit_inbox(p_activity)),
       t AS MATERIALIZED (SELECT * FROM audit_units(p_activity)),
       j AS MATERIALIZED (SELECT * FROM audit_journal(p_activity)),
       s AS MATERIALIZED (SELECT * FROM activity_sku WHERE activity_id = p_activity),
       held AS MATERIALIZED (SELECT * FROM o WHERE status <> 'CANCELED'),
       p AS MATERIALIZED (SELECT (a.p).*, a.queued, a.reviewed, o.status, o.status = 'PAID' AND o.payment_id = (a.p).payment_id AS pays
                          FROM audit_payments(p_activity) a JOIN o ON o.order_id = (a.p).order_id)
  SELECT * FROM (
    SELECT 'H1' AS rule, s.activity_id || '/' || s.sku_id AS subject, 'effective orders ' || count(h.order_id) || ' of stock ' || s.stock AS detail
    FROM s LEFT JOIN held h USING (activity_id, sku_id) GROUP BY s.activity_id, s.sku_id, s.stock HAVING count(h.order_id) > s.stock
    UNION ALL
    SELECT 'H1', 'unit ' || w.unit, 'the journal consumes it ' || max(w.used) || ' times at once, by generation ' || max(w.generation)
    FROM (SELECT j.unit, j.generation, -sum(j.delta) OVER (PARTITION BY j.unit ORDER BY j.generation, j.change DESC) AS used
          FROM j JOIN t USING (unit)) w WHERE w.used NOT IN (0, 1) GROUP BY w.unit
    UNION ALL
    SELECT 'H1', 'unit ' || t.unit, 'the journal says ' || coalesce(j.used, 0) || ' consumed, the unit is ' || t.status
    FROM t LEFT JOIN (SELECT unit, -sum(delta) AS used FROM j GROUP BY unit) j USING (unit)
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
                 UNION ALL SELECT unit, generation, 'its journal' FROM j) m USING (unit)
    WHERE t.generation < m.generation
    UNION ALL
    SELECT 'H7', x.reservation_id, 'ORDERED without an order' FROM x LEFT JOIN o USING (reservation_id) WHERE x.outcome = 'ORDERED' AND o.order_id IS NULL
    UNION ALL
    SELECT 'H7', o.order_id, 'its reservation ' || o.reservation_id || ' is ' || coalesce(x.outcome, 'not decided')
    FROM o LEFT JOIN x USING (reservation_id) WHERE x.outcome IS DISTINCT FROM 'ORDERED'
    UNION ALL
    SELECT 'H8', p.order_id, 'a payment was applied, the order is ' || p.status FROM p
    WHERE p.disposition = 'PAYMENT_APPLIED' AND p.result = 'SUCCESS' AND p.status <> 'PAID'
    UNION ALL
    SELECT 'H8', o.order_id, 'paid ' || o.amount || ' ' || o.currency || coalesce(' by ' || o.payment_id || ', which is ' || p.result || ' ' || p.amount || ' ' || p.currency, ' by nothing')
    FROM o LEFT JOIN p ON p.payment_id = o.payment_id AND p.order_id = o.order_id
    WHERE o.status = 'PAID' AND NOT (o.amount = 0 AND o.payment_id IS NULL)    -- what is free needs no payment
      AND (p.payment_id IS NULL OR p.result <> 'SUCCESS' OR p.disposition <> 'PAYMENT_APPLIED' OR p.amount <> o.amount OR p.currency <> o.currency)
    UNION ALL
    SELECT 'H8', o.order_id, 'names payment ' || o.payment_id || ' and is ' || o.status FROM o WHERE o.payment_id IS NOT NULL AND o.status <> 'PAID'
    UNION ALL
    SELECT 'H9', p.payment_id, 'money for order ' || p.order_id || ' (' || p.status || ') and no refund was asked for'
    FROM p WHERE p.result = 'SUCCESS' AND p.refund_status = 'NONE' AND p.disposition <> 'PAYMENT_QUARANTINED' AND NOT p.pays
    UNION ALL
    SELECT 'H9', p.payment_id, 'refunded, and ' || CASE WHEN p.pays THEN 'it pays order ' || p.order_id ELSE 'it never succeeded' END
    FROM p WHERE p.refund_status <> 'NONE' AND (p.pays OR p.result <> 'SUCCESS')
    UNION ALL
    SELECT 'H9', p.payment_id, 'its refund is ' || p.refund_status || ' and ' || CASE WHEN p.queued THEN 'still something' ELSE 'nothing' END || ' of it is in the outbox'
    FROM p WHERE (p.refund_status = 'REQUESTED') <> p.queued
    UNION ALL
    SELECT 'money', p.payment_id, 'set aside, and no person was called' FROM p
    WHERE p.disposition = 'PAYMENT_QUARANTINED' AND p.refund_status = 'NONE' AND NOT p.reviewed
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

-- ---- no activity --------------------------------------------------------------------------------------------------------------------

-- What is of no activity: rows of items that do not exist, money of orders that do not exist. Reads the tables from end to end: a full run only.
CREATE OR REPLACE FUNCTION audit_rest_findings() RETURNS TABLE (f_rule text, f_subject text, f_detail text) LANGUAGE sql STABLE
  SET enable_nestloop TO off SET jit TO off SET work_mem TO '64MB' AS $$
  WITH p AS MATERIALIZED (SELECT q.*, r.outcome FROM payment_record q LEFT JOIN orders o USING (order_id)
                          LEFT JOIN consumer_inbox r ON r.reservation_id = reservation_of(q.order_id) WHERE o.order_id IS NULL)
  SELECT * FROM (
    SELECT 'H1' AS rule, o.order_id AS subject, 'of item ' || o.activity_id || '/' || o.sku_id || ', which does not exist' AS detail
    FROM orders o LEFT JOIN activity_sku s USING (activity_id, sku_id) WHERE s.sku_id IS NULL AND NOT activity_leaves(o.activity_id)
    UNION ALL
    SELECT 'H7', x.reservation_id, 'ORDERED in activity ' || x.activity_id || ', which does not exist'
    FROM consumer_inbox x LEFT JOIN activity a USING (activity_id) WHERE x.outcome = 'ORDERED' AND a.activity_id IS NULL
      AND NOT EXISTS (SELECT FROM archived_activity r WHERE r.activity_id = x.activity_id)
    UNION ALL
    SELECT 'H10', 'unit ' || t.unit, 'belongs to no SKU''s stock' FROM inventory_token t
    LEFT JOIN activity_sku s ON t.activity_id = s.activity_id AND t.sku_id = s.sku_id AND t.unit BETWEEN s.unit_first AND s.unit_first + s.stock - 1
    WHERE s.sku_id IS NULL AND NOT activity_leaves(t.activity_id)
    UNION ALL
    SELECT 'H9', substr(b.key, 8), 'a refund without a payment' FROM outbox b LEFT JOIN payment_record q ON q.payment_id = b.subject
    WHERE b.kind = 'REFUND' AND q.payment_id IS NULL
    UNION ALL
    SELECT 'H9', p.payment_id, 'money for order ' || p.order_id || ', which does not exist, and no refund was asked for'
    FROM p WHERE p.result = 'SUCCESS' AND p.refund_status = 'NONE' AND p.disposition <> 'PAYMENT_QUARANTINED'
    UNION ALL
    SELECT 'H9', p.payment_id, 'refunded, and it never succeeded' FROM p WHERE p.refund_status <> 'NONE' AND p.result <> 'SUCCESS'
    UNION ALL
    SELECT 'H9', p.payment_id, 'its refund is ' || p.refund_status || ' and ' || CASE WHEN b.key IS NULL THEN 'nothing' ELSE 'still something' END || ' of it is in the outbox'
    FROM p LEFT JOIN outbox b ON b.key = 'REFUND:' || p.payment_id WHERE (p.refund_status = 'REQUESTED') <> (b.key IS NOT NULL)
    UNION ALL
    SELECT 'H9', p.payment_id, 'set aside for order ' || p.order_id || ', whose reservation is RELEASED, and not given back'
    FROM p WHERE p.result = 'SUCCESS' AND p.refund_status = 'NONE' AND p.outcome = 'RELEASED'
    UNION ALL
    SELECT 'money', p.payment_id, 'set aside, and no person was called' FROM p LEFT JOIN review v ON v.payment_id = p.payment_id
    WHERE p.disposition = 'PAYMENT_QUARANTINED' AND p.refund_status = 'NONE' AND v.payment_id IS NULL
  ) findings LIMIT 1000
$$;

-- ---- all of it ----------------------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION audit_findings(p_activity text) RETURNS TABLE (f_rule text, f_subject text, f_detail text) LANGUAGE sql STABLE AS $$
  SELECT f.* FROM (SELECT p_activity WHERE p_activity NOT IN ('', '*') UNION ALL SELECT activity_id FROM activity WHERE p_activity = '') a(id)
  CROSS JOIN LATERAL audit_activity_findings(a.id) f
  UNION ALL SELECT f.* FROM audit_rest_findings() f WHERE p_activity IN ('', '*')
  UNION ALL SELECT f.* FROM audit_constraints() f
  LIMIT 1000
$$;

-- audit_totals: what the findings were judged over. Outbox: rows of an activity among the 1000 oldest; of '' and '*': all there are.
CREATE OR REPLACE FUNCTION audit_totals(p_activity text)
RETURNS TABLE (c_stock bigint, c_available bigint, c_consumed bigint, c_orders bigint, c_holding bigint, c_released bigint, c_outbox bigint,
               c_first bigint, c_last bigint) LANGUAGE sql STABLE
  SET enable_seqscan TO off SET enable_hashjoin TO off SET enable_mergejoin TO off SET jit TO off AS $$
  SELECT s.stock, s.available, s.consumed, o.orders, o.holding,
         (SELECT count(*) FROM consumer_inbox x WHERE x.activity_id = p_activity AND x.outcome = 'RELEASED'),
         (SELECT coalesce(sum(CASE b.kind WHEN 'ORDERS' THEN 2 * b.generation WHEN 'STATUSES' THEN b.generation WHEN 'RETURNS' THEN b.generation ELSE 1 END), 0) FROM (SELECT * FROM outbox ORDER BY outbox_id LIMIT 1000) b
          WHERE coalesce(b.activity_id, (SELECT x.activity_id FROM consumer_inbox x WHERE x.reservation_id = b.reservation_id)) = p_activity),
         coalesce((extract(epoch FROM o.first_at) * 1000)::bigint, 0), coalesce((extract(epoch FROM o.last_at) * 1000)::bigint, 0)
  FROM (SELECT coalesce(sum(k.stock), 0)::bigint AS stock, coalesce(sum(u.available), 0)::bigint AS available, coalesce(sum(u.consumed), 0)::bigint AS consumed
        FROM activity_sku k CROSS JOIN LATERAL (
          SELECT count(*) FILTER (WHERE t.status = 'AVAILABLE') AS available, count(*) FILTER (WHERE t.status = 'CONSUMED') AS consumed
          FROM inventory_token t WHERE t.unit BETWEEN k.unit_first AND k.unit_first + k.stock - 1) u
        WHERE k.activity_id = p_activity) s,
       (SELECT count(*) AS orders, count(*) FILTER (WHERE status <> 'CANCELED') AS holding, min(created_at) AS first_at, max(created_at) AS last_at
        FROM orders WHERE activity_id = p_activity) o
$$;

-- The same, of everything: each table once, from end to end.
CREATE OR REPLACE FUNCTION audit_totals_all()
RETURNS TABLE (c_stock bigint, c_available bigint, c_consumed bigint, c_orders bigint, c_holding bigint, c_released bigint, c_outbox bigint,
               c_first bigint, c_last bigint) LANGUAGE sql STABLE SET jit TO off AS $$
  SELECT (SELECT coalesce(sum(stock), 0)::bigint FROM activity_sku), u.available, u.consumed, o.orders, o.holding,
         (SELECT count(*) FROM consumer_inbox WHERE outcome = 'RELEASED'),
         (SELECT coalesce(sum(CASE b.kind WHEN 'ORDERS' THEN 2 * b.generation WHEN 'STATUSES' THEN b.generation WHEN 'RETURNS' THEN b.generation ELSE 1 END), 0) FROM outbox b),
         coalesce((extract(epoch FROM o.first_at) * 1000)::bigint, 0), coalesce((extract(epoch FROM o.last_at) * 1000)::bigint, 0)
  FROM (SELECT count(*) FILTER (WHERE status = 'AVAILABLE') AS available, count(*) FILTER (WHERE status = 'CONSUMED') AS consumed FROM inventory_token) u,
       (SELECT count(*) AS orders, count(*) FILTER (WHERE status <> 'CANCELED') AS holding, min(created_at) AS first_at, max(created_at) AS last_at FROM orders) o
$$;

-- audit: one row per finding, each with the totals; one row with no finding where all holds. One snapshot for all of it: the caller's statement.
-- Totals of '*' are those of everything: a caller that walks the activities needs to add nothing.
CREATE OR REPLACE FUNCTION audit(p_activity text)
RETURNS TABLE (f_rule text, f_subject text, f_detail text, c_stock bigint, c_available bigint, c_consumed bigint, c_orders bigint, c_holding bigint,
               c_released bigint, c_outbox bigint, c_first bigint, c_last bigint) LANGUAGE sql STABLE AS $$
  SELECT coalesce(f.f_rule, ''), coalesce(f.f_subject, ''), coalesce(f.f_detail, ''), c.*
  FROM (SELECT * FROM audit_totals_all() WHERE p_activity IN ('', '*')
        UNION ALL SELECT * FROM audit_totals(p_activity) WHERE p_activity NOT IN ('', '*')) c
  LEFT JOIN audit_findings(p_activity) f ON true
$$;

-- SPDX-License-Identifier: Apache-2.0
-- pay_orders: callbacks of a payment channel, whose signatures hold, become verdicts in one transaction (interfaces §1), as if one by one in their order.
--
-- In: arrays of one length: the webhook-id, the SHA-256 of the body, the body; the reservation of the order where its id is one of ours
-- ('': no order can ever have this id); the payment. Out: one row per item, in order.
-- Promises: a payment is recorded once; an order is PAID by one payment; each SUCCESS pays its order, or is given back once, or waits for a person.
-- A FAILED has no money: it fixes neither amount nor currency. Money under a payment_id that is taken by other money has a record of its own name.
-- Locks: orders → the one lock of unknown orders → payments and webhooks (by key) → outbox, each in order.

-- What stands for a payment or a webhook in the server's table of locks.
CREATE OR REPLACE FUNCTION payment_key(kind text, id text) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN hashtextextended('seckill-' || kind || '/' || id COLLATE "C", 0);

-- Which reservation an order of this name has.
CREATE OR REPLACE FUNCTION reservation_of(order_id text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN starts_with(order_id, 'ord_') THEN 'rsv_' || substr(order_id, 5) ELSE '' END;

-- payment_reuse_name(payment, order, amount, currency): the name of the record of money whose payment_id is taken by a record of another order, amount or
-- currency. The same notice gives the same name, so this money too is recorded once.
CREATE OR REPLACE FUNCTION payment_reuse_name(payment_id text, order_id text, amount bigint, currency text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN 'reused_' || substr(encode(sha256(convert_to(payment_id || ':' || order_id || ':' || amount::text || ':' || currency, 'UTF8')), 'hex'), 1, 48);

-- payment_given(name): the payment_id as the channel gave it, of the record of this name.
CREATE OR REPLACE FUNCTION payment_given(p_name text) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN starts_with(p_name, 'reused_')
              THEN coalesce((SELECT r.given_id FROM payment_record r WHERE r.payment_id = p_name), p_name) ELSE p_name END
$$;

CREATE OR REPLACE FUNCTION review_payment_name(payment_id text, why text, body_hash bytea) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN encode(sha256(convert_to('payment:' || payment_id || ':' || why || ':', 'UTF8') || body_hash), 'hex');

-- refund_ask(payments): one outbox row for each; the caller has just moved them to REQUESTED.
CREATE OR REPLACE FUNCTION refund_ask(p_payments text[]) RETURNS void LANGUAGE sql VOLATILE AS $$
  INSERT INTO outbox AS b (key, kind, activity_id, reservation_id, subject)
  SELECT 'REFUND:' || p.payment_id, 'REFUND', o.activity_id, o.reservation_id, p.payment_id
  FROM payment_record p
  LEFT JOIN LATERAL (SELECT k.activity_id, k.reservation_id FROM orders k WHERE k.order_id = p.order_id LIMIT 1) o ON true
  WHERE p.payment_id = ANY (p_payments)
  ORDER BY p.payment_id
  ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL
$$;

-- refund_released(reservations): these have just been RELEASED: money that came for their orders, and was set aside because nobody could say whether
-- they would come, goes back. The lock keeps a payment of an unknown order from being recorded at this very moment.
CREATE OR REPLACE FUNCTION refund_released(p_ids text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  back text[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(payment_key('unknown', ''));
  WITH asked AS (
    UPDATE payment_record p SET refund_status = 'REQUESTED', refund_asked_at = now(), version = p.version + 1
    WHERE p.order_id = ANY (ARRAY(SELECT order_name(r.id) FROM unnest(p_ids) r(id))) AND p.result = 'SUCCESS' AND p.refund_status = 'NONE'
      AND p.disposition = 'PAYMENT_QUARANTINED'
    RETURNING p.payment_id)
  SELECT array_agg(payment_id) INTO back FROM asked;
  IF back IS NOT NULL THEN
    PERFORM refund_ask(back);
    UPDATE review SET status = 'RESOLVED', decision = 'RELEASE', resolved_at = now(), actor = 'ledger', note = 'its reservation is RELEASED'
    WHERE payment_id = ANY (back) AND status || '' = 'OPEN';
  END IF;
END $$;

CREATE OR REPLACE FUNCTION pay_orders(
  w_id text[], w_hash bytea[], w_body bytea[], i_reservation text[], i_payment text[], i_order text[], i_result text[], i_amount bigint[],
  i_currency text[], i_channel text[], i_occurred bigint[])
RETURNS TABLE (v_outcome text, v_why text, v_fresh boolean, v_refund boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  n integer := cardinality(i_payment);
  rows integer;
  locked text[];                 -- orders that stand
  round integer := 0;
  turns integer[] := array_fill(1, ARRAY[n]);    -- per ordinal: items that share a webhook, a payment or an order go one after another
  j record;                      -- the judged items of one turn, as arrays
  outcomes text[] := array_fill(NULL::text, ARRAY[n]);
  whys text[] := array_fill(NULL::text, ARRAY[n]);
  freshes boolean[] := array_fill(false, ARRAY[n]);
  names text[] := i_payment;     -- of the record that each is about
BEGIN
  PERFORM require_session();
  IF EXISTS (SELECT FROM unnest(w_id, i_payment, i_order) i(webhook, payment, ord)
             WHERE octet_length(i.webhook) NOT BETWEEN 1 AND 255 OR octet_length(i.payment) NOT BETWEEN 1 AND 64 OR octet_length(i.ord) NOT BETWEEN 1 AND 64) THEN
    RAISE EXCEPTION 'pay_orders: an id is too long or empty' USING ERRCODE = 'string_data_right_truncation';
  END IF;

  -- 1. the orders that stand, then what is known of none, then payments and webhooks
  SELECT array_agg(h.order_id) INTO locked
  FROM (SELECT o.order_id FROM orders o WHERE o.order_id = ANY (i_order) ORDER BY o.order_id FOR UPDATE) h;
  IF EXISTS (SELECT FROM unnest(i_order) i(ord) WHERE i.ord = ANY (locked) IS NOT TRUE) THEN
    PERFORM pg_advisory_xact_lock(payment_key('unknown', ''));
  END IF;
  PERFORM pg_advisory_xact_lock(k.key) FROM (
    SELECT payment_key('payment', i.id) AS key FROM unnest(i_payment) i(id)
    UNION SELECT payment_key('webhook', i.channel || '/' || i.id) FROM unnest(w_id, i_channel) i(id, channel)
    ORDER BY key) k;

  -- 2. whose turn is when: mostly all are first
  IF (SELECT least(count(DISTINCT i.webhook), count(DISTINCT i.payment), count(DISTINCT i.ord)) < n FROM unnest(w_id, i_payment, i_order) i(webhook, payment, ord)) THEN
    FOR k IN 2 .. n LOOP
      turns[k] := (SELECT coalesce(max(e.turn), 0) + 1
                   FROM unnest(w_id, i_payment, i_order, turns) WITH ORDINALITY e(webhook, payment, ord, turn, ordinal)
                   WHERE e.ordinal < k AND (e.webhook = w_id[k] OR e.payment = i_payment[k] OR e.ord = i_order[k]));
    END LOOP;
  END IF;

  WHILE round < (SELECT max(t) FROM unnest(turns) t) LOOP
    round := round + 1;
    -- 3. judge
    SELECT array_agg(f.ordinal) AS ordinal, array_agg(f.name) AS name, array_agg(f.outcome) AS outcome, array_agg(f.why) AS why, array_agg(f.known) AS known,
           array_agg(f.records) AS records, array_agg(f.refund) AS refund, array_agg(f.released) AS released
    INTO j FROM (
      SELECT d.ordinal, d.name, d.known, CASE WHEN d.known THEN d.first_outcome ELSE split_part(d.said, ' ', 1) END AS outcome,
             CASE WHEN d.known THEN d.first_why ELSE nullif(split_part(d.said, ' ', 2), '') END AS why,
             NOT d.known AND d.writable AND d.said NOT IN ('PAYMENT_UNDECIDED', 'PAYMENT_DUPLICATE') AS records,
             NOT d.known AND d.writable AND d.result = 'SUCCESS'
               AND (d.said IN ('PAYMENT_EXTRA', 'PAYMENT_AFTER_CANCEL') OR (d.said LIKE 'PAYMENT_QUARANTINED %' AND d.released)) AS refund,
             d.released AND d.writable AS released
      FROM (
        SELECT i.ordinal, i.result, i.name, w.webhook_id IS NOT NULL AND w.body_hash = i.hash AS known, w.verdict AS first_outcome, w.why AS first_why,
               x.outcome IS NOT DISTINCT FROM 'RELEASED' AND o.order_id IS NULL AS released,
               -- whether the record of this name may be written: there is none, or it says FAILED
               h.payment_id IS NULL OR (h.order_id = i.ord AND h.result = 'FAILED' AND i.result = 'SUCCESS') AS writable,
               CASE WHEN o.order_id IS NULL AND (x.outcome = 'ORDERED' OR (x.outcome IS NULL AND i.reservation <> ''))
                      AND NOT reservation_archived(i.reservation) THEN 'PAYMENT_UNDECIDED'
                    WHEN w.webhook_id IS NOT NULL THEN 'PAYMENT_QUARANTINED WEBHOOK_ID_REUSED'
                    WHEN h.order_id <> i.ord OR (i.name <> i.payment AND h.payment_id IS NULL) THEN 'PAYMENT_QUARANTINED PAYMENT_ID_REUSED'
                    WHEN h.result = 'SUCCESS' OR h.result = i.result THEN 'PAYMENT_DUPLICATE'
                    WHEN o.order_id IS NULL THEN 'PAYMENT_QUARANTINED ORDER_UNKNOWN'
                    WHEN i.result = 'FAILED' THEN 'PAYMENT_FAILED_RECORDED'
                    WHEN o.amount <> i.amount OR o.currency <> i.currency THEN 'PAYMENT_QUARANTINED WRONG_AMOUNT'
                    WHEN o.status = 'CREATED' THEN 'PAYMENT_APPLIED'
                    WHEN o.status = 'PAID' THEN 'PAYMENT_EXTRA'
                    ELSE 'PAYMENT_AFTER_CANCEL' END AS said
        FROM (
          SELECT i.*,
                 CASE WHEN i.result = 'FAILED' OR p.payment_id IS NULL OR (p.order_id = i.ord AND (p.result = 'FAILED' OR (p.amount = i.amount AND p.currency = i.currency)))
                      THEN i.payment ELSE payment_reuse_name(i.payment, i.ord, i.amount, i.currency) END AS name
          FROM unnest(w_id, w_hash, i_reservation, i_payment, i_order, i_result, i_amount, i_currency, i_channel, turns)
            WITH ORDINALITY i(webhook, hash, reservation, payment, ord, result, amount, currency, channel, turn, ordinal)
          LEFT JOIN LATERAL (SELECT k.* FROM payment_record k WHERE k.payment_id = i.payment LIMIT 1) p ON true
          WHERE i.turn = round) i
        LEFT JOIN LATERAL (SELECT k.* FROM payment_webhook k WHERE k.webhook_id = i.webhook AND k.channel = i.channel LIMIT 1) w ON true
        LEFT JOIN LATERAL (SELECT k.* FROM payment_record k WHERE k.payment_id = i.name LIMIT 1) h ON true
        LEFT JOIN LATERAL (SELECT k.* FROM orders k WHERE k.order_id = i.ord LIMIT 1) o ON o.order_id = ANY (locked)
        LEFT JOIN LATERAL (SELECT k.outcome FROM consumer_inbox k
                           WHERE k.reservation_id = CASE WHEN i.reservation <> '' THEN i.reservation ELSE reservation_of(i.ord) END LIMIT 1) x ON true) d
      ORDER BY d.ordinal) f;
    FOR k IN 1 .. cardinality(j.ordinal) LOOP
      outcomes[j.ordinal[k]] := j.outcome[k];
      whys[j.ordinal[k]] := j.why[k];
      freshes[j.ordinal[k]] := NOT j.known[k];
      names[j.ordinal[k]] := j.name[k];
    END LOOP;

    -- 4. the orders
    UPDATE orders o SET status = 'PAID', paid_at = now(), payment_id = names[f.ordinal], updated_at = now(), version = o.version + 1
    FROM unnest(j.ordinal, j.outcome, j.known) f(ordinal, outcome, known)
    WHERE f.outcome = 'PAYMENT_APPLIED' AND NOT f.known AND o.order_id = ANY (ARRAY[i_order[f.ordinal]]) AND o.status || '' = 'CREATED';
    GET DIAGNOSTICS rows = ROW_COUNT;
    IF rows <> (SELECT count(*) FROM unnest(j.outcome, j.known) f(outcome, known) WHERE f.outcome = 'PAYMENT_APPLIED' AND NOT f.known) THEN
      RAISE EXCEPTION 'pay_orders: % orders PAID, another number was to be', rows USING ERRCODE = 'assert_failure';
    END IF;

    -- 5. the money, and what was heard
    INSERT INTO payment_record AS p (payment_id, given_id, order_id, result, amount, currency, channel, occurred_at, disposition, refund_status, refund_asked_at)
    SELECT names[f.ordinal], CASE WHEN names[f.ordinal] <> i_payment[f.ordinal] THEN i_payment[f.ordinal] END, i_order[f.ordinal], i_result[f.ordinal], i_amount[f.ordinal], i_currency[f.ordinal], i_channel[f.ordinal],
           to_timestamp(i_occurred[f.ordinal] / 1000.0), f.outcome, CASE WHEN f.refund THEN 'REQUESTED' ELSE 'NONE' END, CASE WHEN f.refund THEN now() END
    FROM unnest(j.ordinal, j.outcome, j.records, j.refund) f(ordinal, outcome, records, refund)
    WHERE f.records ORDER BY names[f.ordinal] COLLATE "C"
    ON CONFLICT (payment_id) DO UPDATE
      SET result = excluded.result, amount = excluded.amount, currency = excluded.currency, channel = excluded.channel, occurred_at = excluded.occurred_at, received_at = now(), disposition = excluded.disposition,
          refund_status = excluded.refund_status, refund_asked_at = excluded.refund_asked_at, version = p.version + 1;
    INSERT INTO payment_webhook (webhook_id, channel, body_hash, payment_id, order_id, result, amount, currency, verdict, why)
    SELECT w_id[f.ordinal], i_channel[f.ordinal], w_hash[f.ordinal], i_payment[f.ordinal], i_order[f.ordinal], i_result[f.ordinal], i_amount[f.ordinal], i_currency[f.ordinal],
           f.outcome, f.why
    FROM unnest(j.ordinal, j.outcome, j.why, j.known) f(ordinal, outcome, why, known)
    WHERE NOT f.known AND f.outcome <> 'PAYMENT_UNDECIDED' AND f.why IS DISTINCT FROM 'WEBHOOK_ID_REUSED'
    ORDER BY w_id[f.ordinal] COLLATE "C", i_channel[f.ordinal] COLLATE "C";

    -- 6. a person looks, unless there is nothing left to decide: no order will come of a RELEASED reservation
    INSERT INTO review (review_id, kind, reason, status, message_key, body, payment_id, order_id, result, amount, currency, channel, occurred_at,
                        resolved_at, decision, actor, note)
    SELECT review_payment_name(i_payment[f.ordinal], f.why, w_hash[f.ordinal]), 'PAYMENT', f.why, CASE WHEN f.released THEN 'RESOLVED' ELSE 'OPEN' END,
           w_id[f.ordinal], w_body[f.ordinal], names[f.ordinal], i_order[f.ordinal], i_result[f.ordinal], i_amount[f.ordinal], i_currency[f.ordinal],
           i_channel[f.ordinal], to_timestamp(i_occurred[f.ordinal] / 1000.0), CASE WHEN f.released THEN now() END,
           CASE WHEN f.released THEN CASE WHEN f.refund THEN 'RELEASE' ELSE 'DISMISS' END END, CASE WHEN f.released THEN 'ledger' END,
           CASE WHEN f.released THEN 'its reservation is RELEASED' END
    FROM unnest(j.ordinal, j.outcome, j.why, j.known, j.refund, j.released) f(ordinal, outcome, why, known, refund, released)
    WHERE f.outcome = 'PAYMENT_QUARANTINED' AND NOT f.known
    ORDER BY 1
    ON CONFLICT (review_id) DO NOTHING;

    -- 7. what others must hear
    INSERT INTO outbox AS b (key, kind, reservation_id, subject)
    SELECT 'EVENT:PAID:' || o.reservation_id, 'EVENT', o.reservation_id, 'PAID'
    FROM unnest(j.ordinal, j.outcome, j.known) f(ordinal, outcome, known)
    CROSS JOIN LATERAL (SELECT k.reservation_id FROM orders k WHERE k.order_id = i_order[f.ordinal] LIMIT 1) o
    WHERE f.outcome = 'PAYMENT_APPLIED' AND NOT f.known
    ORDER BY o.reservation_id
    ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL;
    PERFORM refund_ask(ARRAY(SELECT names[f.ordinal] FROM unnest(j.ordinal, j.refund) f(ordinal, refund) WHERE f.refund));
  END LOOP;

  RETURN QUERY
    SELECT f.outcome, f.why, f.fresh, coalesce(p.refund_status <> 'NONE', false)
    FROM unnest(outcomes, whys, freshes, names) WITH ORDINALITY f(outcome, why, fresh, payment, ordinal)
    LEFT JOIN LATERAL (SELECT k.refund_status FROM payment_record k WHERE k.payment_id = f.payment LIMIT 1) p ON true
    ORDER BY f.ordinal;
END $$;

-- pay_again(payment, applies): judges a payment that was set aside once more; an operator asked for it. `applies`: only if it then pays its order.
-- Out: what it came to; PAYMENT_QUARANTINED: it cannot be ended so. The caller holds order and payment. Locks: outbox.
DROP FUNCTION IF EXISTS pay_again(text);
CREATE OR REPLACE FUNCTION pay_again(p payment_record, o orders, p_applies boolean) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  outcome text;
BEGIN
  IF p.disposition <> 'PAYMENT_QUARANTINED' OR p.refund_status <> 'NONE' OR o.order_id IS NULL
     OR (p.result = 'SUCCESS' AND (o.amount <> p.amount OR o.currency <> p.currency)) THEN
    RETURN p.disposition;
  END IF;
  outcome := CASE WHEN p.result = 'FAILED' THEN 'PAYMENT_FAILED_RECORDED' WHEN o.status = 'CREATED' THEN 'PAYMENT_APPLIED'
                  WHEN o.status = 'PAID' THEN 'PAYMENT_EXTRA' ELSE 'PAYMENT_AFTER_CANCEL' END;
  IF p_applies AND outcome <> 'PAYMENT_APPLIED' THEN
    RETURN p.disposition;
  END IF;
  UPDATE payment_record r
  SET disposition = outcome, version = r.version + 1, refund_status = CASE WHEN outcome IN ('PAYMENT_EXTRA', 'PAYMENT_AFTER_CANCEL') THEN 'REQUESTED' ELSE 'NONE' END,
      refund_asked_at = CASE WHEN outcome IN ('PAYMENT_EXTRA', 'PAYMENT_AFTER_CANCEL') THEN now() END
  WHERE r.payment_id = p.payment_id;
  IF outcome = 'PAYMENT_APPLIED' THEN
    UPDATE orders x SET status = 'PAID', paid_at = now(), payment_id = p.payment_id, updated_at = now(), version = x.version + 1
    WHERE x.order_id = o.order_id AND x.status || '' = 'CREATED';
    INSERT INTO outbox AS b (key, kind, reservation_id, subject) VALUES ('EVENT:PAID:' || o.reservation_id, 'EVENT', o.reservation_id, 'PAID')
    ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL;
  ELSIF outcome <> 'PAYMENT_FAILED_RECORDED' THEN
    PERFORM refund_ask(ARRAY[p.payment_id]);
  END IF;
  RETURN outcome;
END $$;

-- record_callback: a correctly signed callback that could not be understood becomes a review, once for each (channel, webhook-id) and body.
CREATE OR REPLACE FUNCTION record_callback(p_webhook text, p_channel text, p_hash bytea, p_body bytea) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM require_session();
  INSERT INTO review (review_id, kind, reason, message_key, body, channel)
  VALUES (encode(sha256(convert_to('callback:' || p_channel || ':' || p_webhook || ':', 'UTF8') || p_hash), 'hex'), 'CALLBACK', 'CALLBACK_UNREADABLE', p_webhook, p_body,
          p_channel)
  ON CONFLICT (review_id) DO NOTHING;
  RETURN FOUND;
END $$;

-- defer_refunds(rows, versions, whys): the channel has answered these refunds and has not given the money back. REFUND_PENDING: asked again after 10 s, and after
-- twice the time at each further answer, up to an hour. ENGINE_REFUSED: the same, eight times; then, or at once with REFUND_FAILED, a review calls an
-- operator, and the row waits for the decision. Out: how many reviews were opened. Locks: outbox → payments.
CREATE OR REPLACE FUNCTION defer_refunds(f_row bigint[], f_version integer[], f_why text[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ids bigint[];
  given_up text[];
BEGIN
  PERFORM require_session();
  ids := ARRAY(SELECT b.outbox_id FROM outbox b WHERE b.outbox_id = ANY (f_row) AND b.kind = 'REFUND'
               AND EXISTS (SELECT FROM unnest(f_row, f_version) f(id, version) WHERE f.id = b.outbox_id AND f.version = b.version)
               ORDER BY b.outbox_id FOR UPDATE SKIP LOCKED);
  UPDATE payment_record p SET refund_tries = p.refund_tries + 1, refund_refused = p.refund_refused + CASE f.why WHEN 'REFUND_PENDING' THEN 0 WHEN 'REFUND_FAILED' THEN 8 ELSE 1 END
  FROM unnest(f_row, f_why) f(id, why)
  CROSS JOIN LATERAL (SELECT k.subject FROM outbox k WHERE k.outbox_id = f.id LIMIT 1) b
  WHERE f.id = ANY (ids) AND p.payment_id = ANY (ARRAY[b.subject]) AND p.refund_status = 'REQUESTED';
  UPDATE outbox b SET claimed_until = (
    SELECT CASE WHEN p.refund_refused >= 8 THEN 'infinity'::timestamptz
                ELSE now() + make_interval(secs => least(10 * 2 ^ greatest(least(p.refund_tries - 1, 10), 0), 3600)) END
    FROM payment_record p WHERE p.payment_id = b.subject)
  WHERE b.outbox_id = ANY (ids);
  given_up := ARRAY(SELECT b.subject FROM outbox b WHERE b.outbox_id = ANY (ids) AND b.claimed_until = 'infinity');
  INSERT INTO review (review_id, kind, reason, body, payment_id, order_id, result, amount, currency, channel, occurred_at)
  SELECT review_payment_name(p.payment_id, 'REFUND_FAILED', convert_to((SELECT count(*) FROM review v WHERE v.payment_id = p.payment_id)::text, 'UTF8')), 'PAYMENT',
         'REFUND_FAILED', '', p.payment_id, p.order_id, p.result, p.amount, p.currency, p.channel, p.occurred_at
  FROM payment_record p WHERE p.payment_id = ANY (given_up)
  ORDER BY 1
  ON CONFLICT (review_id) DO NOTHING;
  RETURN cardinality(given_up);
END $$;

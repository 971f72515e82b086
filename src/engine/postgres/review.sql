-- SPDX-License-Identifier: Apache-2.0
-- What waits for a person, and what becomes of it.

-- reviews(id, all, before, limit): one of them with its body, or the newest opened before `before` ms (0: of all), open ones or all. `open`
-- counts those that are open in all, up to 10,000; one row without a review where there is none, for its sake.
CREATE OR REPLACE FUNCTION reviews(p_id text, p_all boolean, p_before bigint, p_limit integer)
RETURNS TABLE (
  r_id text, r_kind text, r_why text, r_decision text, r_group text, r_key text, r_message text, r_request text, r_reservation text, r_activity text,
  r_sku text, r_user text, r_unit bigint, r_generation integer, r_created bigint, r_epoch smallint, r_payment text, r_order text, r_result text,
  r_amount bigint, r_currency text, r_channel text, r_occurred bigint, r_actor text, r_note text, r_opened bigint, r_resolved bigint, r_body bytea,
  r_open bigint) LANGUAGE sql STABLE AS $$
  SELECT coalesce(v.review_id, ''), coalesce(v.kind, 'MESSAGE'), coalesce(v.reason, 'OK'), coalesce(v.decision, 'OPEN'), coalesce(v.consumer_group, ''),
         coalesce(v.message_key, ''), coalesce(v.message_id, ''), coalesce(v.request_id, ''), coalesce(v.reservation_id, ''), coalesce(v.activity_id, ''),
         coalesce(v.sku_id, ''), coalesce(v.user_id, ''), coalesce(v.unit, 0), coalesce(v.generation, 0),
         coalesce((extract(epoch FROM v.created_at) * 1000)::bigint, 0), coalesce(v.epoch, 0::smallint), coalesce(v.payment_id, ''),
         coalesce(v.order_id, ''), coalesce(v.result, 'FAILED'), coalesce(v.amount, 0), coalesce(v.currency, ''), coalesce(v.channel, ''),
         coalesce((extract(epoch FROM v.occurred_at) * 1000)::bigint, 0), coalesce(v.actor, ''), coalesce(v.note, ''),
         coalesce((extract(epoch FROM v.opened_at) * 1000)::bigint, 0), coalesce((extract(epoch FROM v.resolved_at) * 1000)::bigint, 0),
         CASE WHEN p_id <> '' THEN coalesce(v.body, '') ELSE '' END, n.open
  FROM (SELECT count(*) AS open FROM (SELECT FROM review WHERE status = 'OPEN' LIMIT 10000) o) n
  LEFT JOIN LATERAL (    -- one branch is taken; each reads one index (status, opened_at) from its end
    SELECT w.* FROM review w WHERE p_id <> '' AND w.review_id = p_id
    UNION ALL
    (SELECT w.* FROM review w WHERE p_id = '' AND w.status = 'OPEN' AND w.opened_at < CASE WHEN p_before = 0 THEN 'infinity' ELSE to_timestamp(p_before / 1000.0) END
     ORDER BY w.opened_at DESC LIMIT p_limit)
    UNION ALL
    (SELECT w.* FROM review w WHERE p_id = '' AND p_all AND w.status = 'RESOLVED'
       AND w.opened_at < CASE WHEN p_before = 0 THEN 'infinity' ELSE to_timestamp(p_before / 1000.0) END
     ORDER BY w.opened_at DESC LIMIT p_limit)
    ORDER BY opened_at DESC, review_id LIMIT greatest(p_limit, 1)) v ON true
  ORDER BY v.opened_at DESC, v.review_id
$$;

-- review_message(review, item …): a MESSAGE or a RESERVATION is decided: through place_orders (RETRY) or release_reservations (RELEASE).
-- Out: its verdict, as theirs.
CREATE OR REPLACE FUNCTION review_message(
  v review, p_decision text, i_message text, i_request text, i_reservation text, i_activity text, i_sku text, i_user text,
  i_unit bigint, i_generation integer, i_epoch smallint, i_created bigint)
RETURNS TABLE (m_outcome text, m_why text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
BEGIN
  IF p_decision = 'RETRY' THEN
    RETURN QUERY SELECT p.v_outcome, p.v_why FROM place_orders(v.consumer_group, 'review', '{}', '{}', '{}', '{}', '{}', '{}',
      ARRAY[i_message], ARRAY[i_request], ARRAY[i_reservation], ARRAY[i_activity], ARRAY[i_sku], ARRAY[i_user], ARRAY[i_unit], ARRAY[i_generation],
      ARRAY[i_epoch], ARRAY[i_created], false) p WHERE p.v_outcome <> 'LOCK_TIMEOUT';
    IF NOT FOUND THEN
      RAISE EXCEPTION 'another transaction holds the unit' USING ERRCODE = 'lock_not_available';
    END IF;
  ELSE
    RETURN QUERY SELECT p.v_outcome, p.v_why FROM release_reservations(
      ARRAY[i_request], ARRAY[i_reservation], ARRAY[i_activity], ARRAY[i_sku], ARRAY[i_user], ARRAY[i_unit], ARRAY[i_generation],
      ARRAY[i_epoch], ARRAY[i_created], ARRAY['RELEASED']) p;
  END IF;
END $$;

-- review_payment(review, decision): RETRY judges the payment again, RELEASE gives it back. Out: what it came to, or CONFLICT: this cannot end it.
CREATE OR REPLACE FUNCTION review_payment(v review, p_decision text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  p payment_record;
  outcome text;
BEGIN
  SELECT r.* INTO p FROM payment_record r WHERE r.payment_id = v.payment_id;
  IF p.payment_id IS NULL OR p.order_id <> v.order_id OR p.amount <> v.amount OR p.currency <> v.currency THEN
    RETURN 'CONFLICT';    -- this money is not in the books: another payment has its name
  END IF;
  IF p_decision = 'RETRY' THEN
    outcome := pay_again(v.payment_id);
  END IF;
  PERFORM pg_advisory_xact_lock(payment_key('payment', v.payment_id));
  SELECT r.* INTO p FROM payment_record r WHERE r.payment_id = v.payment_id FOR UPDATE;
  IF p_decision = 'RETRY' THEN
    RETURN CASE WHEN outcome = 'PAYMENT_QUARANTINED' AND p.refund_status = 'NONE' THEN 'CONFLICT' ELSE outcome END;
  ELSIF v.result <> 'SUCCESS' OR p.result <> 'SUCCESS' OR (p.disposition <> 'PAYMENT_QUARANTINED' AND p.refund_status = 'NONE') THEN
    RETURN 'CONFLICT';    -- there is nothing to give back, or it pays its order
  ELSIF p.refund_status = 'NONE' THEN
    UPDATE payment_record r SET refund_status = 'REQUESTED', refund_asked_at = now(), version = r.version + 1 WHERE r.payment_id = v.payment_id;
    PERFORM refund_ask(ARRAY[v.payment_id]);
  END IF;
  RETURN p.disposition;
END $$;

-- resolve_review: a person decided. Out: OK and what it came to; NOT_FOUND; CONFLICT: resolved otherwise, or this decision cannot end it, and it stays
-- open. i_reservation NULL: what the review itself holds.
CREATE OR REPLACE FUNCTION resolve_review(
  p_id text, p_decision text, p_actor text, p_note text,
  i_message text, i_request text, i_reservation text, i_activity text, i_sku text, i_user text, i_unit bigint, i_generation integer, i_epoch smallint,
  i_created bigint)
RETURNS TABLE (v_result text, v_outcome text, v_why text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  v review;
  outcome text := 'OK';
  why text;
BEGIN
  PERFORM pg_advisory_xact_lock(payment_key('review', p_id));    -- not the row: place, release and pay come first to their own rows
  SELECT r.* INTO v FROM review r WHERE r.review_id = p_id;
  IF v.review_id IS NULL OR v.status = 'RESOLVED' THEN
    RETURN QUERY SELECT CASE WHEN v.review_id IS NULL THEN 'NOT_FOUND' WHEN v.decision = p_decision THEN 'OK' ELSE 'CONFLICT' END, 'OK', NULL::text;
    RETURN;
  END IF;

  IF p_decision = 'DISMISS' THEN
    IF v.kind = 'RESERVATION' AND NOT EXISTS (SELECT FROM consumer_inbox x WHERE x.reservation_id = v.reservation_id) THEN
      outcome := 'CONFLICT';    -- its unit would be nobody's business for ever
    END IF;
  ELSIF v.kind = 'PAYMENT' THEN
    outcome := review_payment(v, p_decision);
  ELSIF v.kind = 'RESERVATION' THEN
    SELECT m.m_outcome, m.m_why INTO outcome, why FROM review_message(v, p_decision, v.message_id, v.request_id, v.reservation_id, v.activity_id, v.sku_id, v.user_id,
      v.unit, v.generation, v.epoch, coalesce((extract(epoch FROM v.created_at) * 1000)::bigint, 0)) m;
  ELSIF i_reservation IS NOT NULL THEN
    SELECT m.m_outcome, m.m_why INTO outcome, why FROM review_message(v, p_decision, i_message, i_request, i_reservation, i_activity, i_sku, i_user,
      i_unit, i_generation, i_epoch, i_created) m;
  ELSE
    outcome := 'CONFLICT';
  END IF;
  IF outcome IN ('CONFLICT', 'MESSAGE_ID_REUSED') THEN
    RETURN QUERY SELECT 'CONFLICT', outcome, why;
    RETURN;
  END IF;

  UPDATE review r SET status = 'RESOLVED', decision = p_decision, resolved_at = now(), actor = p_actor, note = p_note WHERE r.review_id = p_id;
  INSERT INTO audit_log (actor, action, subject, note, before, after)
  VALUES (p_actor, 'review.' || lower(p_decision), p_id, p_note, jsonb_build_object('kind', v.kind, 'reason', v.reason), jsonb_build_object('outcome', outcome, 'why', why));
  RETURN QUERY SELECT 'OK', outcome, why;
END $$;

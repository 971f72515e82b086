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
         coalesce((extract(epoch FROM v.created_at) * 1000)::bigint, 0), coalesce(v.epoch, 0::smallint), coalesce(payment_given(v.payment_id), ''),
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

-- review_payment(review, decision): what becomes of the money of a review of kind PAYMENT (docs/protocol.md §11). RETRY judges it again, APPLY lets it pay its
-- order, REFUND (and RELEASE) gives it back, DISMISS closes where no money waits. Out: what it came to, or CONFLICT: this cannot end it.
-- Locks: order → the one lock of unknown orders → payment → outbox.
CREATE OR REPLACE FUNCTION review_payment(v review, p_decision text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  o orders;
  p payment_record;
  outcome text;
  name text := v.payment_id;
  waits boolean;
BEGIN
  SELECT x.* INTO o FROM orders x WHERE x.order_id = v.order_id FOR UPDATE;
  IF o.order_id IS NULL THEN
    PERFORM pg_advisory_xact_lock(payment_key('unknown', ''));
  END IF;
  PERFORM pg_advisory_xact_lock(payment_key('payment', payment_given(name)));
  SELECT r.* INTO p FROM payment_record r WHERE r.payment_id = name FOR UPDATE;
  IF v.result = 'SUCCESS' AND (p.payment_id IS NULL OR p.result <> 'SUCCESS' OR p.order_id <> v.order_id OR p.amount <> v.amount OR p.currency <> v.currency) THEN
    -- a review of before this money had a record of its own
    name := payment_reuse_name(v.payment_id, v.order_id, v.amount, v.currency);
    INSERT INTO payment_record (payment_id, given_id, order_id, result, amount, currency, channel, occurred_at, disposition)
    VALUES (name, v.payment_id, v.order_id, 'SUCCESS', v.amount, v.currency, coalesce(v.channel, ''), coalesce(v.occurred_at, v.opened_at), 'PAYMENT_QUARANTINED')
    ON CONFLICT (payment_id) DO NOTHING;
    UPDATE review r SET payment_id = name WHERE r.review_id = v.review_id;
    SELECT r.* INTO p FROM payment_record r WHERE r.payment_id = name FOR UPDATE;
  END IF;
  waits := p.result = 'SUCCESS' AND p.disposition = 'PAYMENT_QUARANTINED' AND p.refund_status = 'NONE';

  IF v.reason = 'REFUND_FAILED' THEN
    RETURN review_refund(p, p_decision);
  ELSIF v.result = 'FAILED' THEN    -- no money; its payment_id may be that of other money, which is not this review's business
    IF p_decision = 'RETRY' AND p.result = 'FAILED' AND p.order_id = v.order_id THEN
      outcome := pay_again(p, o, false);
      RETURN CASE WHEN outcome = 'PAYMENT_QUARANTINED' THEN 'CONFLICT' ELSE outcome END;
    END IF;
    RETURN CASE p_decision WHEN 'DISMISS' THEN 'OK' ELSE 'CONFLICT' END;
  ELSIF p_decision = 'DISMISS' THEN
    RETURN CASE WHEN waits THEN 'CONFLICT' ELSE 'OK' END;    -- money that waits is applied or given back
  ELSIF p_decision IN ('RETRY', 'APPLY') THEN
    outcome := pay_again(p, o, p_decision = 'APPLY');
    RETURN CASE WHEN outcome IS NULL OR (outcome = 'PAYMENT_QUARANTINED' AND p.refund_status = 'NONE') OR (p_decision = 'APPLY' AND outcome <> 'PAYMENT_APPLIED')
                THEN 'CONFLICT' ELSE outcome END;
  ELSIF NOT waits AND p.refund_status = 'NONE' THEN
    RETURN 'CONFLICT';    -- it pays its order
  ELSIF waits THEN
    UPDATE payment_record r SET refund_status = 'REQUESTED', refund_asked_at = now(), version = r.version + 1 WHERE r.payment_id = name;
    PERFORM refund_ask(ARRAY[name]);
  END IF;
  RETURN p.disposition;
END $$;

-- review_refund(payment, decision): what becomes of a refund that the channel refused. RETRY and REFUND (and RELEASE): the channel is asked again. DISMISS: an
-- operator has seen to it that the money is where it belongs; the refund is DONE. Out: as review_payment.
CREATE OR REPLACE FUNCTION review_refund(p payment_record, p_decision text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF p.refund_status <> 'REQUESTED' THEN
    RETURN p.disposition;    -- it has ended otherwise
  ELSIF p_decision = 'APPLY' THEN
    RETURN 'CONFLICT';
  ELSIF p_decision = 'DISMISS' THEN
    DELETE FROM outbox b WHERE b.key = 'REFUND:' || p.payment_id;
    UPDATE payment_record r SET refund_status = 'DONE', refunded_at = now(), version = r.version + 1 WHERE r.payment_id = p.payment_id;
  ELSE
    UPDATE payment_record r SET refund_tries = 0, refund_refused = 0, version = r.version + 1 WHERE r.payment_id = p.payment_id;
    PERFORM refund_ask(ARRAY[p.payment_id]);
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
  PERFORM require_session();
  PERFORM pg_advisory_xact_lock(payment_key('review', p_id));    -- not the row: place, release and pay come first to their own rows
  SELECT r.* INTO v FROM review r WHERE r.review_id = p_id;
  IF v.review_id IS NULL OR v.status = 'RESOLVED' THEN
    RETURN QUERY SELECT CASE WHEN v.review_id IS NULL THEN 'NOT_FOUND' WHEN v.decision = p_decision OR (v.decision IN ('RELEASE', 'REFUND') AND p_decision IN ('RELEASE', 'REFUND')) THEN 'OK'
                             ELSE 'CONFLICT' END, 'OK', NULL::text;
    RETURN;
  END IF;

  IF v.kind = 'PAYMENT' THEN
    outcome := review_payment(v, p_decision);
  ELSIF p_decision = 'DISMISS' THEN
    IF v.kind = 'RESERVATION' AND NOT EXISTS (SELECT FROM consumer_inbox x WHERE x.reservation_id = v.reservation_id) THEN
      outcome := 'CONFLICT';    -- its unit would be nobody's business for ever
    END IF;
  ELSIF p_decision IN ('APPLY', 'REFUND') OR v.kind = 'CALLBACK' THEN
    outcome := 'CONFLICT';    -- these are of money; a callback that nobody can read can only be dismissed
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

-- SPDX-License-Identifier: Apache-2.0
-- The outbox as its relay sees it (protocol §4).

-- outbox_claim: a claimed row, as its relay is told of it. The relay reads it by place.
DROP FUNCTION IF EXISTS claim_outbox(integer, integer);
DROP FUNCTION IF EXISTS claim_orders(integer, integer);
DROP FUNCTION IF EXISTS claim_packs(integer, integer);
DROP TYPE IF EXISTS outbox_claim;
CREATE TYPE outbox_claim AS (
  o_row bigint, o_version integer, o_kind text, o_activity text, o_number integer, o_epoch smallint, o_buckets smallint, o_rebuilding boolean,
  o_user text, o_sku text, o_request text, o_reservation text, o_superseded_by text, o_superseded_request text, o_superseded_sku text,
  o_state text, o_why text, o_unit bigint, o_generation integer, o_home smallint, o_stale boolean, o_topic_key text, o_body text,
  o_waiting bigint, o_age bigint, o_payment text, o_order text, o_amount bigint, o_currency text, o_channel text);

-- claim_outbox(limit, hold): up to `limit` rows nobody holds, oldest first, held for `hold` ms. What a row says is read after the
-- claim: the verdict of a reservation (or that a person has it), epoch and buckets of its activity, home and generation of a unit.
-- `waiting` counts the rows left unclaimed, up to 1000; `age` is that of the row, in ms. Rows that tell of many come by claim_packs: such a claim has no others.
-- Where the oldest were all held before, their receiver is perhaps away: they get half of the claim, and half goes to the oldest that nobody has tried.
CREATE OR REPLACE FUNCTION claim_outbox(p_limit integer, p_hold_ms integer)
RETURNS SETOF outbox_claim LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  ids bigint[];
  untried bigint[];
  rest bigint := 0;
BEGIN
  PERFORM require_session();
  IF (SELECT b.kind FROM outbox b WHERE b.claimed_until IS NULL OR b.claimed_until <= now() ORDER BY b.outbox_id LIMIT 1) IN ('ORDERS', 'STATUSES', 'RETURNS') THEN
    RETURN QUERY SELECT * FROM claim_packs(p_limit, p_hold_ms);
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  ids := ARRAY(SELECT b.outbox_id FROM outbox b
               WHERE b.kind NOT IN ('ORDERS', 'STATUSES', 'RETURNS') AND (b.claimed_until IS NULL OR b.claimed_until <= now())
               ORDER BY b.outbox_id LIMIT p_limit FOR UPDATE SKIP LOCKED);
  IF cardinality(ids) = 0 THEN
    RETURN QUERY SELECT * FROM claim_packs(p_limit, p_hold_ms);
    RETURN;
  END IF;
  IF cardinality(ids) = p_limit AND (SELECT b.outbox_id FROM outbox b WHERE b.outbox_id = ANY (ids) AND b.claimed_until IS NULL LIMIT 1) IS NULL THEN
    IF random() < 0.5 AND (SELECT b.outbox_id FROM outbox b WHERE b.kind IN ('ORDERS', 'STATUSES', 'RETURNS') AND b.claimed_until IS NULL
                           ORDER BY b.outbox_id + 0 LIMIT 1) IS NOT NULL THEN
      RETURN QUERY SELECT * FROM claim_packs(p_limit, p_hold_ms);
      RETURN;
    END IF;
    untried := ARRAY(SELECT b.outbox_id FROM outbox b WHERE b.kind NOT IN ('ORDERS', 'STATUSES', 'RETURNS') AND b.claimed_until IS NULL
                     ORDER BY b.outbox_id LIMIT p_limit / 2 FOR UPDATE SKIP LOCKED);
    ids := ids[1 : p_limit - cardinality(untried)] || untried;
  END IF;
  UPDATE outbox SET claimed_until = now() + make_interval(secs => p_hold_ms / 1000.0) WHERE outbox_id = ANY (ids);
  IF cardinality(ids) = p_limit THEN
    SELECT count(*) INTO rest FROM (SELECT FROM outbox b WHERE b.outbox_id > ids[p_limit] AND (b.claimed_until IS NULL OR b.claimed_until <= now())
                                    LIMIT 1000) unclaimed;
  END IF;
  RETURN QUERY
    SELECT b.outbox_id, b.version, b.kind, coalesce(b.activity_id, x.activity_id, r.activity_id, d.activity_id, ''), coalesce(a.number, 0), coalesce(a.epoch, 0::smallint),
           coalesce(a.buckets, 0::smallint), coalesce(a.rebuilding, false),
           coalesce(x.user_id, r.user_id, ''), coalesce(x.sku_id, r.sku_id, t.sku_id, ''), coalesce(x.request_id, r.request_id, ''),
           coalesce(b.reservation_id, ''), coalesce(x.superseded_by, ''), coalesce(s.request_id, ''), coalesce(s.sku_id, ''),
           coalesce(x.outcome, 'MANUAL_REVIEW'), coalesce(x.reason, r.reason, 'OK'),
           coalesce(b.unit, x.unit, r.unit, 0), coalesce(b.generation, x.generation, r.generation, 0), coalesce(t.bucket, 0::smallint),
           b.kind = 'RETURN' AND (t.unit IS NULL OR t.generation <> b.generation OR t.status <> 'AVAILABLE'),
           CASE b.kind WHEN 'EVENT' THEN CASE x.outcome WHEN 'ORDERED' THEN order_name(x.reservation_id) ELSE b.reservation_id END
                       WHEN 'DEAD_LETTER' THEN coalesce(d.message_id, d.message_key, '') WHEN 'REFUND' THEN p.order_id ELSE '' END,
           CASE b.kind
             WHEN 'EVENT' THEN json_build_object('event', b.subject, 'event_id', b.key, 'reservation_id', b.reservation_id,
               'order_id', o.order_id, 'activity_id', x.activity_id, 'sku_id', CASE WHEN x.reason IS DISTINCT FROM 'LOST' THEN x.sku_id END, 'user_id', x.user_id,
               'request_id', CASE WHEN x.reason IS DISTINCT FROM 'LOST' THEN x.request_id END,
               'inventory_token_id', o.inventory_token_id, 'amount', o.amount, 'currency', o.currency, 'payment_id', payment_given(o.payment_id),
               'pay_deadline', CASE b.subject WHEN 'ORDER_CREATED' THEN to_char(o.pay_deadline AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') END,
               'reason', CASE b.subject WHEN 'CANCELED' THEN j.reason ELSE x.reason END,
               'occurred_at', to_char(b.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text
             WHEN 'DEAD_LETTER' THEN json_build_object('review_id', d.review_id, 'reason', d.reason, 'consumer_group', d.consumer_group, 'key', d.message_key,
               'reservation_id', d.reservation_id, 'message_id', d.message_id, 'body_base64', translate(encode(d.body, 'base64'), E'\n', ''),
               'parked_at', to_char(d.opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text
             WHEN 'REFUND' THEN json_build_object('event', 'REFUND_REQUESTED', 'event_id', b.key, 'payment_id', coalesce(p.given_id, p.payment_id), 'order_id', p.order_id,
               'reservation_id', b.reservation_id, 'activity_id', b.activity_id, 'amount', p.amount, 'currency', p.currency, 'channel', p.channel,
               'reason', p.disposition, 'occurred_at', to_char(p.refund_asked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text
             ELSE '' END,
           rest, (extract(epoch FROM now() - b.created_at) * 1000)::bigint, coalesce(p.given_id, p.payment_id, ''), coalesce(p.order_id, ''), coalesce(p.amount, 0),
           coalesce(p.currency, ''), coalesce(p.channel, '')
    FROM outbox b
    LEFT JOIN LATERAL (SELECT k.* FROM consumer_inbox k WHERE k.reservation_id = b.reservation_id LIMIT 1) x ON true
    LEFT JOIN LATERAL (SELECT k.request_id, k.sku_id FROM consumer_inbox k WHERE k.reservation_id = x.superseded_by LIMIT 1) s ON true
    LEFT JOIN LATERAL (SELECT v.* FROM review v WHERE b.kind = 'STATUS' AND x.reservation_id IS NULL AND v.reservation_id = b.reservation_id
                       ORDER BY v.opened_at DESC LIMIT 1) r ON true
    LEFT JOIN LATERAL (SELECT k.* FROM review k WHERE b.kind = 'DEAD_LETTER' AND k.review_id = b.subject LIMIT 1) d ON true
    LEFT JOIN LATERAL (SELECT k.* FROM orders k WHERE b.kind = 'EVENT' AND k.reservation_id = b.reservation_id LIMIT 1) o ON true
    LEFT JOIN LATERAL (SELECT k.reason FROM inventory_journal k WHERE k.unit = o.unit AND k.generation = o.raised AND k.change = 'FREED' LIMIT 1) j ON true
    LEFT JOIN LATERAL (SELECT k.* FROM payment_record k WHERE b.kind = 'REFUND' AND k.payment_id = b.subject LIMIT 1) p ON true
    LEFT JOIN LATERAL (SELECT k.* FROM inventory_token k WHERE b.kind = 'RETURN' AND k.unit = b.unit LIMIT 1) t ON true
    LEFT JOIN LATERAL (SELECT k.* FROM activity k WHERE k.activity_id = b.activity_id LIMIT 1) a ON true
    WHERE b.outbox_id = ANY (ids)
    ORDER BY b.outbox_id;
END $$;

-- pack_weight: what a row that tells of many counts as. An order is a status and an event.
CREATE OR REPLACE FUNCTION pack_weight(kind text, members integer) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE kind WHEN 'ORDERS' THEN 2 * members ELSE members END;

-- claim_packs(limit, hold): claim_outbox of rows that tell of many (of at most 128 things each): a row for each of them, side by side; of an ORDERS row such that are a
-- STATUS and an EVENT and count twice. One that was claimed before and not finished, and one larger than the limit, falls into the rows of its members, so that
-- what can never be delivered holds nobody up but itself.
CREATE OR REPLACE FUNCTION claim_packs(p_limit integer, p_hold_ms integer)
RETURNS SETOF outbox_claim LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  ids bigint[];
  apart bigint[];
  rest bigint := 0;
BEGIN
  ids := ARRAY(SELECT b.outbox_id FROM outbox b
               WHERE b.kind IN ('ORDERS', 'STATUSES', 'RETURNS') AND (b.claimed_until IS NULL OR b.claimed_until <= now())
               ORDER BY b.outbox_id + 0 LIMIT greatest(p_limit / 128, 1) FOR UPDATE SKIP LOCKED);
  apart := ARRAY(SELECT b.outbox_id FROM outbox b
                 WHERE b.outbox_id = ANY (ids) AND (b.claimed_until IS NOT NULL OR pack_weight(b.kind, b.generation) > p_limit));
  IF cardinality(apart) > 0 THEN
    PERFORM outbox_tell('{}', ARRAY(SELECT unnest(b.reservations) FROM outbox b WHERE b.outbox_id = ANY (apart) AND b.kind || '' = 'ORDERS'), NULL);
    PERFORM heal_tell(b.activity_id, b.reservations, b.units, b.generations) FROM outbox b WHERE b.outbox_id = ANY (apart) AND b.kind || '' <> 'ORDERS';
    DELETE FROM outbox WHERE outbox_id = ANY (apart);
  END IF;
  UPDATE outbox SET claimed_until = now() + make_interval(secs => p_hold_ms / 1000.0) WHERE outbox_id = ANY (ids);
  SELECT coalesce(sum(pack_weight(unclaimed.kind, unclaimed.generation)), 0) INTO rest FROM (
    SELECT b.kind, b.generation FROM outbox b
    WHERE b.kind IN ('ORDERS', 'STATUSES', 'RETURNS') AND b.outbox_id + 0 > ids[cardinality(ids)] AND (b.claimed_until IS NULL OR b.claimed_until <= now())
    ORDER BY b.outbox_id + 0 LIMIT 8) unclaimed;
  -- Orders, as mostly; then what a recovery tells.
  RETURN QUERY
    SELECT b.outbox_id, b.version, b.kind, b.activity_id, a.number, a.epoch, a.buckets, a.rebuilding, o.user_id, o.sku_id, o.request_id, o.reservation_id,
           '', '', '', 'ORDERED', 'OK', o.unit, o.generation, 0::smallint, false, o.order_id,
           json_build_object('event', 'ORDER_CREATED', 'event_id', 'EVENT:ORDER_CREATED:' || o.reservation_id, 'reservation_id', o.reservation_id,
             'order_id', o.order_id, 'activity_id', o.activity_id, 'sku_id', o.sku_id, 'user_id', o.user_id, 'request_id', o.request_id,
             'inventory_token_id', o.inventory_token_id, 'amount', o.amount, 'currency', o.currency, 'payment_id', o.payment_id,
             'pay_deadline', to_char(o.pay_deadline AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'), 'reason', NULL,
             'occurred_at', to_char(b.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))::text,
           rest, (extract(epoch FROM now() - b.created_at) * 1000)::bigint, '', '', 0::bigint, '', ''
    FROM outbox b
    CROSS JOIN LATERAL (SELECT k.* FROM activity k WHERE k.activity_id = b.activity_id LIMIT 1) a
    CROSS JOIN LATERAL unnest(b.reservations) WITH ORDINALITY m(id, ordinal)
    CROSS JOIN LATERAL (SELECT k.* FROM orders k WHERE k.reservation_id = m.id LIMIT 1) o
    WHERE b.outbox_id = ANY (ids) AND b.kind || '' = 'ORDERS'
    ORDER BY b.outbox_id, m.ordinal;
  IF (SELECT b.outbox_id FROM outbox b WHERE b.outbox_id = ANY (ids) AND b.kind || '' <> 'ORDERS' LIMIT 1) IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY
    SELECT b.outbox_id, b.version, CASE b.kind WHEN 'STATUSES' THEN 'STATUS' ELSE 'RETURN' END, b.activity_id,
           coalesce(a.number, 0), coalesce(a.epoch, 0::smallint), coalesce(a.buckets, 0::smallint), coalesce(a.rebuilding, false),
           coalesce(x.user_id, ''), coalesce(x.sku_id, t.sku_id, ''), coalesce(x.request_id, ''), coalesce(m.id, ''),
           coalesce(x.superseded_by, ''), coalesce(s.request_id, ''), coalesce(s.sku_id, ''), coalesce(x.outcome, 'ORDERED'),
           coalesce(x.reason, 'OK'), coalesce(x.unit, m.unit, 0), coalesce(x.generation, m.generation, 0), coalesce(t.bucket, 0::smallint),
           b.kind = 'RETURNS' AND (t.unit IS NULL OR t.generation <> m.generation OR t.status <> 'AVAILABLE'), '', '',
           rest, (extract(epoch FROM now() - b.created_at) * 1000)::bigint, '', '', 0::bigint, '', ''
    FROM outbox b
    LEFT JOIN LATERAL (SELECT k.* FROM activity k WHERE k.activity_id = b.activity_id LIMIT 1) a ON true
    CROSS JOIN LATERAL unnest(b.reservations, b.units, b.generations) WITH ORDINALITY m(id, unit, generation, ordinal)
    LEFT JOIN LATERAL (SELECT k.* FROM consumer_inbox k WHERE b.kind = 'STATUSES' AND k.reservation_id = m.id LIMIT 1) x ON true
    LEFT JOIN LATERAL (SELECT k.request_id, k.sku_id FROM consumer_inbox k WHERE k.reservation_id = x.superseded_by LIMIT 1) s ON true
    LEFT JOIN LATERAL (SELECT k.* FROM inventory_token k WHERE b.kind = 'RETURNS' AND k.unit = m.unit LIMIT 1) t ON true
    WHERE b.outbox_id = ANY (ids) AND b.kind || '' <> 'ORDERS'
    ORDER BY b.outbox_id, m.ordinal;
END $$;

-- finish_outbox(rows, versions): these were delivered at these versions. A row renewed meanwhile stays, and so does one that is
-- being renewed at this moment: its teller holds it, and it will be told again.
CREATE OR REPLACE FUNCTION finish_outbox(f_row bigint[], f_version integer[]) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  ids bigint[];
  gone bigint;
  r_unit bigint[];
  r_generation integer[];
  refunded text[];
BEGIN
  PERFORM require_session();
  ids := ARRAY(SELECT b.outbox_id FROM unnest(f_row, f_version) f(id, version)
               CROSS JOIN LATERAL (SELECT k.outbox_id, k.version FROM outbox k WHERE k.outbox_id = f.id LIMIT 1 FOR UPDATE SKIP LOCKED) b
               WHERE b.version = f.version);
  WITH deleted AS (DELETE FROM outbox WHERE outbox_id = ANY (ids) RETURNING kind, unit, generation, subject)
  SELECT count(*), array_agg(unit ORDER BY unit, generation) FILTER (WHERE kind = 'RETURN'), array_agg(generation ORDER BY unit, generation) FILTER (WHERE kind = 'RETURN'),
         array_agg(subject) FILTER (WHERE kind = 'REFUND')
  INTO gone, r_unit, r_generation, refunded FROM deleted;
  IF r_unit IS NOT NULL THEN
    UPDATE compensation c SET status = 'RELEASED', done_at = now()
    FROM unnest(r_unit, r_generation) r(unit, generation)
    WHERE c.unit = ANY (ARRAY[r.unit]) AND c.generation = ANY (ARRAY[r.generation]) AND c.status = 'RELEASE_PENDING';
  END IF;
  IF refunded IS NOT NULL THEN
    UPDATE payment_record p SET refund_status = 'DONE', refunded_at = now(), version = p.version + 1
    WHERE p.payment_id = ANY (refunded) AND p.refund_status = 'REQUESTED';
  END IF;
  RETURN gone;
END $$;

-- SPDX-License-Identifier: Apache-2.0
-- Archiving (docs/retention.md): an activity that is over leaves the ledger. Its number and its name stay in archived_activity.
-- Every function here that removes rows returns them, as JSON: the caller writes them to a file and makes that durable before it commits.

-- What the name of a reservation says (docs/protocol.md, section 1): the activity number, bits 42 to 53 of 128, and the time, bits 0 to 41, in milliseconds. The
-- 128 bits are 26 letters of five, the first of three. NULL: it is no such name.
CREATE OR REPLACE FUNCTION id_letter(reservation_id text, place integer) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(reservation_id, 4 + place, 1)) - 1)::bigint;
CREATE OR REPLACE FUNCTION reservation_number(reservation_id text) RETURNS integer
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN reservation_id ~ '^rsv_[0-7][0-9A-HJKMNP-TV-Z]{25}$' THEN
    (((id_letter(reservation_id, 9) & 1) << 11) | (id_letter(reservation_id, 10) << 6) | (id_letter(reservation_id, 11) << 1) | (id_letter(reservation_id, 12) >> 4))::integer END;
CREATE OR REPLACE FUNCTION reservation_made(reservation_id text) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN reservation_id ~ '^rsv_[0-7][0-9A-HJKMNP-TV-Z]{25}$' THEN to_timestamp((
    (id_letter(reservation_id, 1) << 39) | (id_letter(reservation_id, 2) << 34) | (id_letter(reservation_id, 3) << 29) | (id_letter(reservation_id, 4) << 24)
    | (id_letter(reservation_id, 5) << 19) | (id_letter(reservation_id, 6) << 14) | (id_letter(reservation_id, 7) << 9) | (id_letter(reservation_id, 8) << 4)
    | (id_letter(reservation_id, 9) >> 1)) / 1000.0) END;

-- Whether this reservation was of an activity that is archived. A number is used again no sooner than 30 days after the old activity was forgotten, so the time in
-- the name tells which of the two it is of.
CREATE OR REPLACE FUNCTION reservation_archived(reservation_id text) RETURNS boolean
  LANGUAGE sql STABLE
  RETURN EXISTS (SELECT FROM archived_activity r WHERE r.number = reservation_number(reservation_id) AND reservation_made(reservation_id) < r.begun_at);

-- Whether rows of this activity are being archived at this moment: they belong to no activity, and are no fault (audit.sql).
CREATE OR REPLACE FUNCTION activity_leaves(p_activity text) RETURNS boolean LANGUAGE sql STABLE
  RETURN EXISTS (SELECT FROM archived_activity r WHERE r.activity_id = p_activity AND r.removed_at IS NULL);

-- ---- numbers ------------------------------------------------------------------------------------------------------------------------

-- The quarantine of a number, from the moment when the last verdict of its activity was removed.
CREATE OR REPLACE FUNCTION activity_number_quarantine() RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN interval '30 days';

-- Whether a number belongs to no activity, and to no archived one that is still in quarantine.
CREATE OR REPLACE FUNCTION activity_number_free(p_number integer) RETURNS boolean
  LANGUAGE sql STABLE
  RETURN NOT EXISTS (SELECT FROM activity a WHERE a.number = p_number)
         AND NOT EXISTS (SELECT FROM archived_activity r WHERE r.number = p_number
                         AND (r.forgotten_at IS NULL OR r.forgotten_at > now() - activity_number_quarantine()));

-- How many activities can still be created.
CREATE OR REPLACE FUNCTION activity_numbers_free() RETURNS integer LANGUAGE sql STABLE AS $$
  SELECT (4095 - count(*))::integer FROM (
    SELECT a.number FROM activity a
    UNION SELECT r.number FROM archived_activity r WHERE r.forgotten_at IS NULL OR r.forgotten_at > now() - activity_number_quarantine()) used
$$;

-- The number of the next activity: one that was never used, and where there is none the free one that was forgotten the longest ago. NULL: none is free.
CREATE OR REPLACE FUNCTION activity_number_next() RETURNS integer LANGUAGE plpgsql STABLE AS $$
DECLARE
  found integer := greatest((SELECT max(number) FROM activity), (SELECT max(number) FROM archived_activity), 0) + 1;
BEGIN
  IF found > 4095 THEN
    SELECT n INTO found FROM generate_series(1, 4095) n WHERE activity_number_free(n)
    ORDER BY (SELECT max(r.forgotten_at) FROM archived_activity r WHERE r.number = n) NULLS FIRST, n LIMIT 1;
  END IF;
  RETURN found;
END $$;

-- ---- one activity leaves ------------------------------------------------------------------------------------------------------------

-- What keeps an activity from being archived, in words; NULL: nothing. The caller has audited it and counted its units in both stores.
CREATE OR REPLACE FUNCTION archive_obstacle(p_activity text, p_closed_s bigint) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
  a activity%ROWTYPE;
BEGIN
  SELECT * INTO a FROM activity WHERE activity_id = p_activity;
  IF a.state <> 'CLOSED' THEN
    RETURN 'it is ' || a.state || ', not CLOSED';
  ELSIF a.rebuilding THEN
    RETURN 'its Redis data is being rebuilt';
  ELSIF a.updated_at > now() - make_interval(secs => p_closed_s) THEN
    RETURN 'it was closed less than ' || p_closed_s || ' s ago';
  ELSIF EXISTS (SELECT FROM orders o JOIN order_state s ON s.state = o.status WHERE o.activity_id = p_activity AND NOT s.terminal) THEN
    RETURN 'some of its orders wait for payment';
  ELSIF EXISTS (SELECT FROM outbox b LEFT JOIN consumer_inbox x USING (reservation_id) WHERE coalesce(b.activity_id, x.activity_id) = p_activity) THEN
    RETURN 'rows of it are still in the outbox';
  ELSIF EXISTS (SELECT FROM review r LEFT JOIN orders o USING (order_id) WHERE r.status = 'OPEN' AND coalesce(r.activity_id, o.activity_id) = p_activity) THEN
    RETURN 'a review of it is open';
  END IF;
  RETURN NULL;
END $$;

-- archive_begin: the activity stops being one. In one transaction: it is judged once more, described in archived_activity, and removed from activity, activity_sku,
-- bucket, recovery_walk, stock_transfer and lost_question. From here on no order of it can be placed, whatever message comes.
-- Out: OK and what it was, also where it was begun before; ARCHIVED where nothing is left to do; UNKNOWN_ACTIVITY; else why not, in words.
CREATE OR REPLACE FUNCTION archive_begin(p_activity text, p_closed_s bigint, p_actor text)
RETURNS TABLE (b_result text, b_description text, b_epoch integer, b_buckets integer, b_skus text) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  described jsonb;
  obstacle text;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('seckill-activity', 0));    -- no number and no unit is dealt meanwhile
  PERFORM FROM activity a WHERE a.activity_id = p_activity FOR UPDATE;
  IF FOUND THEN
    obstacle := archive_obstacle(p_activity, p_closed_s);
    IF obstacle IS NOT NULL THEN
      RETURN QUERY SELECT obstacle, NULL::text, NULL::integer, NULL::integer, NULL::text;
      RETURN;
    END IF;
    SELECT jsonb_build_object(
      'activity', (SELECT jsonb_agg(to_jsonb(a)) FROM activity a WHERE a.activity_id = p_activity),
      'activity_sku', (SELECT jsonb_agg(to_jsonb(s) ORDER BY s.place) FROM activity_sku s WHERE s.activity_id = p_activity),
      'bucket', (SELECT jsonb_agg(to_jsonb(b)) FROM bucket b WHERE b.activity_id = p_activity),
      'stock_transfer', (SELECT jsonb_agg(to_jsonb(t)) FROM stock_transfer t WHERE t.activity_id = p_activity)) INTO described;
    INSERT INTO archived_activity (activity_id, number, unit_first, unit_past, description)
    SELECT a.activity_id, a.number, s.first, s.past, described
    FROM activity a, (SELECT min(k.unit_first) AS first, max(k.unit_first + k.stock) AS past FROM activity_sku k WHERE k.activity_id = p_activity) s
    WHERE a.activity_id = p_activity;
    DELETE FROM stock_transfer WHERE activity_id = p_activity;
    DELETE FROM recovery_walk WHERE activity_id = p_activity;
    DELETE FROM bucket WHERE activity_id = p_activity;
    DELETE FROM lost_question WHERE activity_id = p_activity;
    DELETE FROM activity_sku WHERE activity_id = p_activity;
    DELETE FROM activity WHERE activity_id = p_activity;
    INSERT INTO audit_log (actor, action, subject, note, before) VALUES (p_actor, 'activity.archive', p_activity, 'begun', described -> 'activity' -> 0);
  END IF;
  RETURN QUERY
    SELECT CASE WHEN r.removed_at IS NULL THEN 'OK' ELSE 'ARCHIVED' END, r.description::text, (r.description -> 'activity' -> 0 ->> 'epoch')::integer,
           (r.description -> 'activity' -> 0 ->> 'buckets')::integer,
           (SELECT string_agg(s ->> 'sku_id', ' ' ORDER BY (s ->> 'place')::integer) FROM jsonb_array_elements(r.description -> 'activity_sku') s)
    FROM archived_activity r WHERE r.activity_id = p_activity;
  IF NOT FOUND THEN
    RETURN QUERY SELECT 'UNKNOWN_ACTIVITY', NULL::text, NULL::integer, NULL::integer, NULL::text;
  END IF;
END $$;

-- archive_take(step, activity, after, limit): the next rows of a step, in the order of their key, after `after`; no rows: the step is over. Removed by this call,
-- but for verdicts, which stay. Steps: VERDICTS (those RELEASED), ORDERS (with verdict, payments, callbacks and reviews of each), UNITS (with journal and
-- compensations), REVIEWS (what is left of them). An order whose refund is on its way stays.
CREATE OR REPLACE FUNCTION archive_take(p_step text, p_activity text, p_after text[], p_limit integer)
RETURNS TABLE (k_after text[], k_table text, k_row jsonb) LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
#variable_conflict use_column
DECLARE
  after text[] := CASE WHEN cardinality(p_after) = 3 THEN p_after ELSE ARRAY['', '', ''] END;
  orders_now text[];
  reservations_now text[];
  payments_now text[];
  units_now bigint[];
BEGIN
  IF NOT EXISTS (SELECT FROM archived_activity r WHERE r.activity_id = p_activity) THEN
    RAISE EXCEPTION 'activity % is not being archived', p_activity USING ERRCODE = 'assert_failure';
  ELSIF NOT activity_leaves(p_activity) THEN
    RETURN;    -- nothing is left
  END IF;
  CASE p_step
    WHEN 'VERDICTS' THEN
      RETURN QUERY
        SELECT ARRAY[x.user_id, x.request_id, x.reservation_id], 'consumer_inbox', to_jsonb(x) FROM consumer_inbox x
        WHERE x.activity_id = p_activity AND x.outcome = 'RELEASED' AND (x.user_id, x.request_id) >= (after[1], after[2])
          AND (x.user_id, x.request_id, x.reservation_id) > (after[1], after[2], after[3])
        ORDER BY x.user_id, x.request_id, x.reservation_id LIMIT p_limit;
    WHEN 'ORDERS' THEN
      SELECT array_agg(h.order_id), array_agg(h.reservation_id), (array_agg(ARRAY[h.user_id, h.request_id, ''] ORDER BY h.user_id DESC, h.request_id DESC))[1:1]
      INTO orders_now, reservations_now, after FROM (
        SELECT o.order_id, o.reservation_id, o.user_id, o.request_id FROM orders o
        WHERE o.activity_id = p_activity AND (o.user_id, o.request_id) > (after[1], after[2])
          AND (SELECT p.payment_id FROM payment_record p WHERE p.order_id = o.order_id AND p.refund_status = 'REQUESTED' LIMIT 1) IS NULL
        ORDER BY o.user_id, o.request_id LIMIT p_limit FOR UPDATE) h;
      IF orders_now IS NULL THEN
        RETURN;
      END IF;
      after := ARRAY(SELECT unnest(after));
      payments_now := ARRAY(SELECT p.payment_id FROM payment_record p WHERE p.order_id = ANY (orders_now));
      RETURN QUERY SELECT after, 'consumer_inbox', to_jsonb(x) FROM consumer_inbox x WHERE x.reservation_id = ANY (reservations_now);
      RETURN QUERY WITH gone AS (DELETE FROM payment_webhook w
          WHERE w.payment_id = ANY (payments_now || ARRAY(SELECT p.given_id FROM payment_record p WHERE p.payment_id = ANY (payments_now) AND p.given_id IS NOT NULL))
            AND w.order_id = ANY (orders_now) RETURNING w.*)
        SELECT after, 'payment_webhook', to_jsonb(gone) FROM gone;
      RETURN QUERY WITH gone AS (DELETE FROM payment_record p WHERE p.payment_id = ANY (payments_now) RETURNING p.*)
        SELECT after, 'payment_record', to_jsonb(gone) FROM gone;
      RETURN QUERY WITH gone AS (DELETE FROM review r WHERE r.order_id = ANY (orders_now) AND r.status || '' = 'RESOLVED' RETURNING r.*)
        SELECT after, 'review', to_jsonb(gone) FROM gone;
      RETURN QUERY WITH gone AS (DELETE FROM orders o WHERE o.order_id = ANY (orders_now) RETURNING o.*)
        SELECT after, 'orders', to_jsonb(gone) FROM gone;
    WHEN 'UNITS' THEN
      units_now := ARRAY(SELECT t.unit FROM archived_activity r
                         CROSS JOIN LATERAL (SELECT k.unit FROM inventory_token k WHERE k.unit >= greatest(r.unit_first, coalesce(nullif(after[1], ''), '0')::bigint + 1)
                                             AND k.unit < r.unit_past ORDER BY k.unit LIMIT p_limit) t
                         WHERE r.activity_id = p_activity ORDER BY t.unit);
      IF cardinality(units_now) = 0 THEN
        RETURN;
      END IF;
      after := ARRAY[units_now[cardinality(units_now)]::text, '', ''];
      RETURN QUERY WITH gone AS (DELETE FROM inventory_journal j WHERE j.unit = ANY (units_now) RETURNING j.*)
        SELECT after, 'inventory_journal', to_jsonb(gone) FROM gone;
      RETURN QUERY WITH gone AS (DELETE FROM compensation c WHERE c.unit = ANY (units_now) RETURNING c.*)
        SELECT after, 'compensation', to_jsonb(gone) FROM gone;
      RETURN QUERY WITH gone AS (DELETE FROM inventory_token t WHERE t.unit = ANY (units_now) RETURNING t.*)
        SELECT after, 'inventory_token', to_jsonb(gone) FROM gone;
    WHEN 'REVIEWS' THEN
      RETURN QUERY WITH gone AS (DELETE FROM review r WHERE r.review_id = ANY (ARRAY(
          SELECT k.review_id FROM review k WHERE k.activity_id = p_activity AND k.status || '' = 'RESOLVED' LIMIT p_limit)) RETURNING r.*)
        SELECT after, 'review', to_jsonb(gone) FROM gone;
  END CASE;
END $$;

-- archive_finish: OK: nothing of it is left but its verdicts, and nothing can come any more; WAIT: a transaction from before archive_begin is still running, and may have
-- written rows of it; LEFT: rows are left, to be taken once more.
CREATE OR REPLACE FUNCTION archive_finish(p_activity text, p_actor text) RETURNS text LANGUAGE plpgsql VOLATILE
SET enable_seqscan = off AS $$
DECLARE
  r archived_activity%ROWTYPE;
BEGIN
  SELECT * INTO r FROM archived_activity WHERE activity_id = p_activity FOR UPDATE;
  IF r.removed_at IS NOT NULL THEN
    RETURN 'OK';
  ELSIF pg_snapshot_xmin(pg_current_snapshot()) <= r.begun_xid AND r.begun_at > now() - interval '1 day' THEN
    RETURN 'WAIT';
  ELSIF EXISTS (SELECT FROM orders o WHERE o.activity_id = p_activity)
        OR EXISTS (SELECT FROM inventory_token t WHERE t.unit >= r.unit_first AND t.unit < r.unit_past)
        OR EXISTS (SELECT FROM inventory_journal j WHERE j.unit >= r.unit_first AND j.unit < r.unit_past)
        OR EXISTS (SELECT FROM compensation c WHERE c.unit >= r.unit_first AND c.unit < r.unit_past) THEN
    RETURN 'LEFT';
  END IF;
  UPDATE archived_activity SET removed_at = now() WHERE activity_id = p_activity;
  INSERT INTO audit_log (actor, action, subject, note) VALUES (p_actor, 'activity.archive', p_activity, 'its rows are removed');
  RETURN 'OK';
END $$;

-- ---- what is kept for a time --------------------------------------------------------------------------------------------------------

-- archive_forget(keep, limit): removes verdicts of activities whose archiving began longer than `keep` seconds ago, up to `limit` a call, and returns them; with the last
-- ones of an activity gone, its row. No rows: nothing is that old.
CREATE OR REPLACE FUNCTION archive_forget(p_keep_s bigint, p_limit integer)
RETURNS TABLE (k_after text[], k_table text, k_row jsonb) LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  id text;
  verdicts text[];
BEGIN
  SELECT r.activity_id INTO id FROM archived_activity r
  WHERE r.forgotten_at IS NULL AND r.removed_at IS NOT NULL AND r.begun_at < now() - make_interval(secs => p_keep_s) ORDER BY r.begun_at LIMIT 1 FOR UPDATE;
  IF id IS NULL THEN
    RETURN;
  END IF;
  verdicts := ARRAY(SELECT x.reservation_id FROM consumer_inbox x WHERE x.activity_id = id AND x.outcome = 'ORDERED' LIMIT p_limit);
  IF cardinality(verdicts) = 0 THEN
    verdicts := ARRAY(SELECT x.reservation_id FROM consumer_inbox x WHERE x.activity_id = id AND x.outcome = 'RELEASED' LIMIT p_limit);
  END IF;
  IF cardinality(verdicts) > 0 THEN
    RETURN QUERY WITH gone AS (DELETE FROM consumer_inbox x WHERE x.reservation_id = ANY (verdicts) RETURNING x.*)
      SELECT '{}'::text[], 'consumer_inbox', to_jsonb(gone) FROM gone;
  ELSE
    UPDATE archived_activity r SET forgotten_at = now() WHERE r.activity_id = id;
    RETURN QUERY SELECT '{}'::text[], 'archived_activity', to_jsonb(r) FROM archived_activity r WHERE r.activity_id = id;
  END IF;
END $$;

-- archive_expire_log(days, limit): removes rows of audit_log older than so many days, at least 365, the oldest first, and returns them.
CREATE OR REPLACE FUNCTION archive_expire_log(p_days integer, p_limit integer)
RETURNS TABLE (k_after text[], k_table text, k_row jsonb) LANGUAGE sql VOLATILE AS $$
  WITH gone AS (
    DELETE FROM audit_log l WHERE l.audit_id = ANY (ARRAY(
      SELECT o.audit_id FROM (SELECT k.audit_id, k.happened_at FROM audit_log k ORDER BY k.audit_id LIMIT p_limit) o
      WHERE o.happened_at < now() - make_interval(days => greatest(p_days, 366)))) RETURNING l.*)
  SELECT '{}'::text[], 'audit_log', to_jsonb(gone) FROM gone
$$;

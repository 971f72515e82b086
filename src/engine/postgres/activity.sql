-- SPDX-License-Identifier: Apache-2.0
-- Activities: made, moved, listed. The state machine is spec/activity.def, in the table activity_transition.

-- activity_rows(id): one row per SKU of this activity, in the order they were given; NULL: of all, by number.
CREATE OR REPLACE FUNCTION activity_rows(p_activity text)
RETURNS TABLE (a_activity text, a_title text, a_number integer, a_epoch smallint, a_buckets smallint, a_state text, a_version bigint,
               a_starts bigint, a_ends bigint, a_pay_timeout integer, a_qualification boolean, a_rebuilding boolean,
               s_sku text, s_stock bigint, s_unit_first bigint, s_price bigint, s_currency text)
LANGUAGE sql STABLE AS $$
  SELECT a.activity_id, a.title, a.number, a.epoch, a.buckets, a.state, a.version,
         (extract(epoch FROM a.starts_at) * 1000)::bigint, (extract(epoch FROM a.ends_at) * 1000)::bigint, a.pay_timeout_s, a.qualification, a.rebuilding,
         s.sku_id, s.stock, s.unit_first, s.price, s.currency
  FROM unnest(CASE WHEN p_activity IS NULL THEN ARRAY(SELECT activity_id FROM activity) ELSE ARRAY[p_activity] END) i(id)
  CROSS JOIN LATERAL (SELECT k.* FROM activity k WHERE k.activity_id = i.id LIMIT 1) a
  CROSS JOIN LATERAL (SELECT k.* FROM activity_sku k WHERE k.activity_id = i.id OFFSET 0) s
  ORDER BY a.number, s.place
$$;

-- activity_numbers: which activities a process asks for, by number; see struct activities_ask. Each part is answered by an index: a working set of a few
-- activities costs the same beside thousands of retired ones.
CREATE OR REPLACE FUNCTION activity_numbers(p_live boolean, p_names text[], p_numbers integer[], p_unit bigint, p_after integer, p_limit integer)
RETURNS integer[] LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  found integer[] := '{}';
BEGIN
  IF p_live THEN
    found := ARRAY(SELECT a.number FROM activity a WHERE a.retired_at IS NULL ORDER BY a.number);
  END IF;
  IF cardinality(p_names) > 0 THEN
    found := found || ARRAY(SELECT a.number FROM activity a WHERE a.activity_id = ANY (p_names));
  END IF;
  IF cardinality(p_numbers) > 0 THEN
    found := found || ARRAY(SELECT a.number FROM activity a WHERE a.number = ANY (p_numbers));
  END IF;
  IF p_unit > 0 THEN
    found := found || ARRAY(
      SELECT a.number FROM (SELECT s.activity_id, s.unit_first + s.stock AS past FROM activity_sku s WHERE s.unit_first <= p_unit ORDER BY s.unit_first DESC LIMIT 1) s
      JOIN activity a USING (activity_id) WHERE p_unit < s.past);
  END IF;
  IF p_limit > 0 THEN
    found := found || ARRAY(SELECT a.number FROM activity a WHERE a.number > p_after ORDER BY a.number LIMIT p_limit);
  END IF;
  RETURN found;
END $$;

-- activity_catalog: those activities, one row per SKU in the order of activity_rows, each with its recorded server identities and whether it is retired.
CREATE OR REPLACE FUNCTION activity_catalog(p_live boolean, p_names text[], p_numbers integer[], p_unit bigint, p_after integer, p_limit integer)
RETURNS TABLE (v_result text, v_activity text, v_title text, v_number integer, v_epoch smallint, v_buckets smallint, v_state text, v_version bigint,
               v_starts bigint, v_ends bigint, v_pay_timeout integer, v_qualification boolean, v_rebuilding boolean,
               v_sku text, v_stock bigint, v_unit_first bigint, v_price bigint, v_currency text, v_incarnations text, v_retired boolean)
LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  numbers integer[] := activity_numbers(p_live, p_names, p_numbers, p_unit, p_after, p_limit);
BEGIN
  RETURN QUERY
    SELECT 'OK', a.activity_id, a.title, a.number, a.epoch, a.buckets, a.state, a.version,
           (extract(epoch FROM a.starts_at) * 1000)::bigint, (extract(epoch FROM a.ends_at) * 1000)::bigint, a.pay_timeout_s, a.qualification, a.rebuilding,
           s.sku_id, s.stock, s.unit_first, s.price, s.currency, i.known, a.retired_at IS NOT NULL
    FROM activity a
    CROSS JOIN LATERAL (SELECT bucket_incarnations(a.activity_id, a.epoch) AS known OFFSET 0) i
    CROSS JOIN LATERAL (SELECT k.* FROM activity_sku k WHERE k.activity_id = a.activity_id ORDER BY k.place OFFSET 0) s
    WHERE a.number = ANY (numbers)
    ORDER BY a.number, s.place;
END $$;

-- activity_retire: an activity that is over leaves the working set; see struct retire_ask. Locks: the activity's row.
CREATE OR REPLACE FUNCTION activity_retire(p_activity text, p_counted boolean, p_actor text) RETURNS text
LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
  a activity%ROWTYPE;
BEGIN
  PERFORM require_session();
  SELECT * INTO a FROM activity WHERE activity_id = p_activity FOR UPDATE;
  IF a.activity_id IS NULL THEN
    RETURN 'UNKNOWN_ACTIVITY';
  ELSIF a.retired_at IS NOT NULL THEN
    RETURN 'OK';
  ELSIF a.state IN ('WARM', 'OPEN', 'PAUSED') AND a.ends_at < now() - interval '1 day' THEN
    PERFORM activity_move(p_activity, 'CLOSE', a.version, p_actor, 'it ended more than a day ago');
    RETURN 'OK';
  ELSIF a.state <> 'CLOSED' OR NOT (p_counted OR a.updated_at < now() - interval '72 hours')
        OR EXISTS (SELECT FROM orders o WHERE o.status = 'CREATED' AND o.activity_id = p_activity) THEN
    RETURN 'UNCHANGED';
  END IF;
  UPDATE activity SET retired_at = now() WHERE activity_id = p_activity;
  INSERT INTO audit_log (actor, action, subject, note) VALUES (p_actor, 'activity.retire', p_activity, 'nothing of it is under way');
  RETURN 'OK';
END $$;

-- activity_create: the activity, its SKUs and one row per unit; number and units are given here, contiguous per SKU; units are dealt
-- to the buckets in turn. Out: OK and its rows, also where it stood with the same terms; CONFLICT where with others. SK010: an archived activity had this id;
-- SK011: every number is in use, or in quarantine (archive.sql).
CREATE OR REPLACE FUNCTION activity_create(
  p_activity text, p_title text, p_buckets smallint, p_starts bigint, p_ends bigint, p_pay_timeout integer, p_qualification boolean,
  s_sku text[], s_stock bigint[], s_price bigint[], s_currency text[], p_actor text, p_note text)
RETURNS TABLE (v_result text, v_activity text, v_title text, v_number integer, v_epoch smallint, v_buckets smallint, v_state text, v_version bigint,
               v_starts bigint, v_ends bigint, v_pay_timeout integer, v_qualification boolean, v_rebuilding boolean,
               v_sku text, v_stock bigint, v_unit_first bigint, v_price bigint, v_currency text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  base bigint;
  free_number integer;
  result text := 'OK';
BEGIN
  PERFORM require_session();
  PERFORM pg_advisory_xact_lock(hashtextextended('seckill-activity', 0));    -- numbers and units are dealt by one at a time
  IF EXISTS (SELECT FROM activity WHERE activity_id = p_activity) THEN
    IF NOT EXISTS (SELECT FROM activity a WHERE a.activity_id = p_activity AND a.title = p_title AND a.starts_at = to_timestamp(p_starts / 1000.0)
                   AND a.ends_at = to_timestamp(p_ends / 1000.0) AND a.pay_timeout_s = p_pay_timeout AND a.qualification = p_qualification
                   AND (a.epoch > 1 OR a.buckets = p_buckets))
       OR (SELECT array_agg(ROW(s.sku_id::text, s.stock, s.price, s.currency)::text ORDER BY s.place) FROM activity_sku s WHERE s.activity_id = p_activity)
          IS DISTINCT FROM
          (SELECT array_agg(ROW(s.sku, s.stock, s.price, s.currency)::text ORDER BY s.place)
           FROM unnest(s_sku, s_stock, s_price, s_currency) WITH ORDINALITY s(sku, stock, price, currency, place)) THEN
      result := 'CONFLICT';
    END IF;
  ELSE
    IF EXISTS (SELECT FROM archived_activity r WHERE r.activity_id = p_activity) THEN
      RAISE EXCEPTION 'activity %: an archived activity had this id', p_activity USING ERRCODE = 'SK010';
    END IF;
    free_number := activity_number_next();
    IF free_number IS NULL THEN
      RAISE EXCEPTION 'activity %: no number is free', p_activity USING ERRCODE = 'SK011';
    END IF;
    INSERT INTO activity (activity_id, number, title, buckets, starts_at, ends_at, pay_timeout_s, qualification)
    VALUES (p_activity, free_number, p_title, p_buckets, to_timestamp(p_starts / 1000.0), to_timestamp(p_ends / 1000.0), p_pay_timeout, p_qualification);
    base := greatest((SELECT k.unit_first + k.stock FROM activity_sku k ORDER BY k.unit_first DESC LIMIT 1), (SELECT max(unit_past) FROM archived_activity), 1);
    INSERT INTO activity_sku (activity_id, sku_id, place, stock, unit_first, price, currency)
    SELECT p_activity, s.sku, s.place, s.stock, base + sum(s.stock) OVER (ORDER BY s.place) - s.stock, s.price, s.currency
    FROM unnest(s_sku, s_stock, s_price, s_currency) WITH ORDINALITY s(sku, stock, price, currency, place);
    INSERT INTO inventory_token (unit, activity_id, sku_id, bucket)
    SELECT s.unit_first + k, s.activity_id, s.sku_id, k % p_buckets
    FROM activity_sku s, generate_series(0, s.stock - 1) k WHERE s.activity_id = p_activity;
    INSERT INTO audit_log (actor, action, subject, note, after)
    VALUES (p_actor, 'activity.create', p_activity, p_note,
            (SELECT jsonb_build_object('buckets', p_buckets, 'skus', jsonb_agg(jsonb_build_object('sku_id', s.sku_id, 'stock', s.stock, 'price', s.price)))
             FROM activity_sku s WHERE s.activity_id = p_activity));
  END IF;
  RETURN QUERY SELECT result, r.* FROM activity_rows(p_activity) r;
END $$;

-- activity_move: one step of spec/activity.def. Out: OK and the rows as they now are (standing there already is OK and changes nothing);
-- CONFLICT where no such step leads from here, or (p_version above 0) where it has left that version: a call that comes late undoes nothing;
-- no rows where there is no such activity.
DROP FUNCTION IF EXISTS activity_move(text, text, text, text);
CREATE OR REPLACE FUNCTION activity_move(p_activity text, p_event text, p_version bigint, p_actor text, p_note text)
RETURNS TABLE (v_result text, v_activity text, v_title text, v_number integer, v_epoch smallint, v_buckets smallint, v_state text, v_version bigint,
               v_starts bigint, v_ends bigint, v_pay_timeout integer, v_qualification boolean, v_rebuilding boolean,
               v_sku text, v_stock bigint, v_unit_first bigint, v_price bigint, v_currency text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  stands text;
  at bigint;
  goes text;
  result text := 'OK';
BEGIN
  PERFORM require_session();
  SELECT a.state, a.version INTO stands, at FROM activity a WHERE a.activity_id = p_activity FOR UPDATE;
  SELECT m.to_state INTO goes FROM activity_transition m WHERE m.from_state = stands AND m.event = p_event;
  IF goes IS NULL THEN
    IF NOT EXISTS (SELECT FROM activity_transition m WHERE m.to_state = stands AND m.event = p_event) THEN
      result := 'CONFLICT';
    END IF;
  ELSIF goes <> stands AND p_version > 0 AND p_version <> at THEN
    result := 'CONFLICT';
  ELSIF goes <> stands THEN
    UPDATE activity SET state = goes, version = version + 1, updated_at = now() WHERE activity_id = p_activity AND state = stands;
    INSERT INTO audit_log (actor, action, subject, note, before, after)
    VALUES (p_actor, 'activity.' || lower(p_event), p_activity, p_note, jsonb_build_object('state', stands), jsonb_build_object('state', goes));
  END IF;
  RETURN QUERY SELECT result, r.* FROM activity_rows(p_activity) r;
END $$;

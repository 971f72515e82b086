-- SPDX-License-Identifier: Apache-2.0
-- A bucket of the store may have forgotten what it said: it is told again (protocol §2).

-- bucket_incarnations(activity, epoch): of every bucket in order, blanks between, '-' where none is recorded.
CREATE OR REPLACE FUNCTION bucket_incarnations(p_activity text, p_epoch smallint) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT string_agg(coalesce(b.incarnation, '-'), ' ' ORDER BY k)
  FROM activity a CROSS JOIN generate_series(0, a.buckets - 1) k
  LEFT JOIN bucket b ON b.activity_id = a.activity_id AND b.epoch = p_epoch AND b.bucket = k
  WHERE a.activity_id = p_activity
$$;

-- heal_tell: these rows are queued again, or for the first time, and somebody waits for them. Keys are taken in order.
CREATE OR REPLACE FUNCTION heal_tell(p_activity text, p_reservations text[], p_units bigint[], p_generations integer[]) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  told bigint;
BEGIN
  INSERT INTO outbox AS b (key, kind, activity_id, reservation_id, unit, generation, heals)
  SELECT q.* FROM (
    SELECT 'STATUS:' || r.id AS key, 'STATUS', p_activity, r.id, NULL::bigint, NULL::integer, true FROM unnest(p_reservations) r(id)
    UNION ALL
    SELECT 'RETURN:' || u.unit || '-' || u.generation, 'RETURN', p_activity, NULL, u.unit, u.generation, true FROM unnest(p_units, p_generations) u(unit, generation)
  ) q
  ORDER BY q.key COLLATE "C"
  ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL, heals = true;
  GET DIAGNOSTICS told = ROW_COUNT;
  RETURN told;
END $$;

-- heal_bucket: the next slice of what this bucket must hold: the status of every verdict on a reservation made there, then the return of every unit
-- AVAILABLE there at its present generation. Whoever asks goes on where the last one stopped; another mark begins anew.
-- Out: OK, UNKNOWN_ACTIVITY or STALE_EPOCH; rows told under this mark; those of the activity not yet delivered (up to 1000); whether there is
-- more to tell; whether it is healed: then its incarnation stands recorded.
-- The verdicts are walked by the indexes that begin with the activity, at most p_limit at a time; those of one request stay together.
CREATE OR REPLACE FUNCTION heal_bucket(p_activity text, p_epoch smallint, p_bucket smallint, p_mark text, p_incarnation text, p_limit integer)
RETURNS TABLE (h_result text, h_told bigint, h_waiting bigint, h_more boolean, h_healed boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  h bucket%ROWTYPE;
  ids text[] := '{}';
  units bigint[] := '{}';
  generations integer[] := '{}';
  last_user text;
  last_request text;
  last_unit bigint;
  waits bigint := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM activity a WHERE a.activity_id = p_activity) THEN
    RETURN QUERY SELECT 'UNKNOWN_ACTIVITY', 0::bigint, 0::bigint, false, false;
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM activity a WHERE a.activity_id = p_activity AND a.epoch = p_epoch AND p_bucket < a.buckets) THEN
    RETURN QUERY SELECT 'STALE_EPOCH', 0::bigint, 0::bigint, false, false;
    RETURN;
  END IF;
  INSERT INTO bucket (activity_id, epoch, bucket) VALUES (p_activity, p_epoch, p_bucket) ON CONFLICT DO NOTHING;
  SELECT * INTO h FROM bucket b WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.bucket = p_bucket FOR UPDATE;
  IF h.mark IS DISTINCT FROM p_mark THEN
    h.mark := p_mark;
    h.step := 'ORDERED';
    h.after_user := '';
    h.after_request := '';
    h.after_unit := 0;
    h.told := 0;
    h.begun_at := now();
  END IF;

  CASE h.step
    WHEN 'ORDERED' THEN
      SELECT array_agg(s.reservation_id) FILTER (WHERE coalesce(reservation_home(s.reservation_id) = p_epoch * 32 + p_bucket
                                                                OR reservation_home(s.reservation_id) / 32 <> p_epoch, true)),
             (array_agg(s.user_id ORDER BY s.user_id DESC, s.request_id DESC))[1], (array_agg(s.request_id ORDER BY s.user_id DESC, s.request_id DESC))[1]
      INTO ids, last_user, last_request
      FROM (SELECT o.reservation_id, o.user_id, o.request_id FROM orders o
            WHERE o.activity_id = p_activity AND (o.user_id, o.request_id) > (h.after_user, h.after_request)
            ORDER BY o.user_id, o.request_id LIMIT p_limit) s;
    WHEN 'RELEASED' THEN
      SELECT s.user_id, s.request_id INTO last_user, last_request
      FROM (SELECT x.user_id, x.request_id FROM consumer_inbox x
            WHERE x.activity_id = p_activity AND x.outcome = 'RELEASED' AND (x.user_id, x.request_id) > (h.after_user, h.after_request)
            ORDER BY x.user_id, x.request_id LIMIT p_limit) s
      ORDER BY s.user_id DESC, s.request_id DESC LIMIT 1;
      SELECT array_agg(x.reservation_id) INTO ids
      FROM consumer_inbox x
      WHERE x.activity_id = p_activity AND x.outcome = 'RELEASED' AND (x.user_id, x.request_id) > (h.after_user, h.after_request)
        AND (x.user_id, x.request_id) <= (last_user, last_request)
        AND coalesce(reservation_home(x.reservation_id) = p_epoch * 32 + p_bucket OR reservation_home(x.reservation_id) / 32 <> p_epoch, true);
    WHEN 'UNITS' THEN
      SELECT array_agg(t.unit) FILTER (WHERE t.bucket = p_bucket AND t.status = 'AVAILABLE'),
             array_agg(t.generation) FILTER (WHERE t.bucket = p_bucket AND t.status = 'AVAILABLE'), max(t.unit)
      INTO units, generations, last_unit
      FROM (SELECT k.unit, k.generation, k.bucket, k.status FROM activity_sku s
            CROSS JOIN LATERAL (SELECT i.unit, i.generation, i.bucket, i.status FROM inventory_token i
                                WHERE i.unit BETWEEN greatest(s.unit_first, h.after_unit + 1) AND s.unit_first + s.stock - 1
                                ORDER BY i.unit LIMIT p_limit) k
            WHERE s.activity_id = p_activity ORDER BY k.unit LIMIT p_limit) t;
    ELSE NULL;
  END CASE;

  IF h.step IN ('ORDERED', 'RELEASED') THEN
    IF last_user IS NULL THEN
      h.step := CASE h.step WHEN 'ORDERED' THEN 'RELEASED' ELSE 'UNITS' END;
      h.after_user := '';
      h.after_request := '';
    ELSE
      h.after_user := last_user;
      h.after_request := last_request;
    END IF;
  ELSIF h.step = 'UNITS' THEN
    h.step := CASE WHEN last_unit IS NULL THEN 'WAIT' ELSE 'UNITS' END;
    h.after_unit := coalesce(last_unit, h.after_unit);
  END IF;
  IF cardinality(ids) > 0 OR cardinality(units) > 0 THEN
    h.told := h.told + heal_tell(p_activity, ids, units, generations);
  END IF;
  IF h.step <> 'HEALED' THEN
    SELECT count(*) INTO waits FROM (SELECT FROM outbox b WHERE b.activity_id = p_activity AND b.heals LIMIT 1000) undelivered;
  END IF;
  IF h.step = 'WAIT' AND waits > 0 THEN
    -- A relay that has just lost this Redis too keeps what it claimed for ten seconds (relay.c), and so does one that died: whatever was claimed more than a
    -- second and a half ago is free again. At worst it is told twice.
    UPDATE outbox SET claimed_until = NULL WHERE outbox_id IN (
      SELECT b.outbox_id FROM outbox b WHERE b.activity_id = p_activity AND b.heals AND b.claimed_until > now() AND b.claimed_until < now() + interval '8500 ms'
      ORDER BY b.outbox_id LIMIT 1000 FOR UPDATE SKIP LOCKED);
  ELSIF h.step = 'WAIT' THEN
    h.step := 'HEALED';
    h.incarnation := p_incarnation;
    h.recorded_at := now();
  END IF;
  UPDATE bucket b SET mark = h.mark, step = h.step, after_user = h.after_user, after_request = h.after_request, after_unit = h.after_unit, told = h.told,
    begun_at = h.begun_at, incarnation = h.incarnation, recorded_at = h.recorded_at
  WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.bucket = p_bucket AND (h.step <> 'HEALED' OR b.step <> 'HEALED');
  RETURN QUERY SELECT 'OK', h.told, waits, h.step IN ('ORDERED', 'RELEASED', 'UNITS'), h.step = 'HEALED';
END $$;

-- record_bucket: the first incarnation, where every unit was just handed over and counted. Only while the activity is WARM: nothing was said yet.
CREATE OR REPLACE FUNCTION record_bucket(p_activity text, p_epoch smallint, p_bucket smallint, p_incarnation text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  a activity%ROWTYPE;
BEGIN
  SELECT * INTO a FROM activity WHERE activity_id = p_activity FOR SHARE;
  IF a.activity_id IS NULL THEN
    RETURN 'UNKNOWN_ACTIVITY';
  ELSIF a.epoch <> p_epoch OR p_bucket >= a.buckets THEN
    RETURN 'STALE_EPOCH';
  ELSIF a.state <> 'WARM' THEN
    RETURN 'CONFLICT';
  END IF;
  INSERT INTO bucket AS b (activity_id, epoch, bucket, incarnation, recorded_at) VALUES (p_activity, p_epoch, p_bucket, p_incarnation, now())
  ON CONFLICT (activity_id, epoch, bucket) DO UPDATE SET incarnation = excluded.incarnation, recorded_at = excluded.recorded_at;
  RETURN 'OK';
END $$;

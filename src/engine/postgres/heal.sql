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

-- heal_pack: as heal_tell, of so many that they share rows, 128 a row. The lap and the step make the keys of one walk unlike those of any other.
CREATE OR REPLACE FUNCTION heal_pack(p_activity text, p_walk text, p_reservations text[], p_units bigint[], p_generations integer[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
  INSERT INTO outbox (key, kind, activity_id, generation, reservations, units, generations, heals)
  SELECT 'STATUSES:' || p_activity || ':' || p_walk || ':' || min(i.id), 'STATUSES', p_activity, count(*), array_agg(i.id ORDER BY i.ordinal), NULL, NULL, true
  FROM unnest(p_reservations) WITH ORDINALITY i(id, ordinal) GROUP BY (i.ordinal - 1) / 128
  UNION ALL
  SELECT 'RETURNS:' || p_activity || ':' || p_walk || ':' || min(i.unit), 'RETURNS', p_activity, count(*), NULL, array_agg(i.unit ORDER BY i.ordinal),
         array_agg(i.generation ORDER BY i.ordinal), true
  FROM unnest(p_units, p_generations) WITH ORDINALITY i(unit, generation, ordinal) GROUP BY (i.ordinal - 1) / 128
$$;

-- recovery_slice(walk, limit, members, bucket): the next slice of the walk is queued for those buckets that take part in it; homeless verdicts count for the bucket that asks.
-- The walk goes on: through the verdicts by the indexes that begin with the activity, those of one request together, then through the units, then again.
-- The caller holds the walk's row.
CREATE OR REPLACE FUNCTION recovery_slice(w recovery_walk, p_limit integer, p_members smallint[], p_bucket smallint) RETURNS recovery_walk
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  users text[];
  requests text[];
  ids text[];              -- of the slice; then those that are told
  homes integer[];
  units bigint[];
  generations integer[];
  last_user text;
  last_request text;
  last_unit bigint;
  seen bigint := 0;
BEGIN
  IF w.step = 0 THEN
    SELECT array_agg(s.user_id), array_agg(s.request_id), array_agg(s.reservation_id), count(*) INTO users, requests, ids, seen
    FROM (SELECT o.activity_id, o.user_id, o.request_id, o.reservation_id FROM orders o
          WHERE (o.activity_id, o.user_id, o.request_id) > (w.activity_id, w.after_user, w.after_request)
          ORDER BY o.activity_id, o.user_id, o.request_id LIMIT p_limit) s
    WHERE s.activity_id = w.activity_id;
    last_user := users[cardinality(users)];
    last_request := requests[cardinality(requests)];
  ELSIF w.step = 1 THEN
    SELECT s.user_id, s.request_id INTO last_user, last_request
    FROM (SELECT x.user_id, x.request_id FROM consumer_inbox x
          WHERE x.activity_id = w.activity_id AND x.outcome = 'RELEASED' AND (x.user_id, x.request_id) > (w.after_user, w.after_request)
          ORDER BY x.user_id, x.request_id LIMIT p_limit) s
    ORDER BY s.user_id DESC, s.request_id DESC LIMIT 1;
    SELECT array_agg(x.reservation_id), count(*) INTO ids, seen
    FROM consumer_inbox x
    WHERE x.activity_id = w.activity_id AND x.outcome = 'RELEASED' AND (x.user_id, x.request_id) > (w.after_user, w.after_request)
      AND (x.user_id, x.request_id) <= (last_user, last_request);
  ELSE
    SELECT array_agg(t.unit) FILTER (WHERE t.told), array_agg(t.generation) FILTER (WHERE t.told), array_agg(t.bucket::integer) FILTER (WHERE t.told), max(t.unit), count(*)
    INTO units, generations, homes, last_unit, seen
    FROM (SELECT k.unit, k.generation, k.bucket, k.status = 'AVAILABLE' AND k.bucket = ANY (p_members) AS told FROM activity_sku s
          CROSS JOIN LATERAL (SELECT i.unit, i.generation, i.bucket, i.status FROM inventory_token i
                              WHERE i.unit BETWEEN greatest(s.unit_first, w.after_unit + 1) AND s.unit_first + s.stock - 1
                              ORDER BY i.unit LIMIT p_limit) k
          WHERE s.activity_id = w.activity_id ORDER BY k.unit LIMIT p_limit) t;
  END IF;

  IF w.step < 2 THEN
    SELECT array_agg(i.id), array_agg(CASE WHEN i.home / 32 = w.epoch THEN i.home % 32 ELSE p_bucket END) INTO ids, homes
    FROM (SELECT r.id, reservation_home(r.id) AS home FROM unnest(ids) r(id)) i
    WHERE coalesce(i.home / 32 <> w.epoch OR i.home % 32 = ANY (p_members), true);
  END IF;
  IF cardinality(homes) >= 16 THEN
    PERFORM heal_pack(w.activity_id, w.lap || ':' || w.step, ids, units, generations);
  ELSIF cardinality(homes) > 0 THEN
    PERFORM heal_tell(w.activity_id, ids, units, generations);
  END IF;
  UPDATE bucket b SET told = b.told + h.count
  FROM (SELECT h.home, count(*) FROM unnest(homes) h(home) GROUP BY h.home) h
  WHERE b.activity_id = w.activity_id AND b.epoch = w.epoch AND b.bucket = h.home;

  w.visited := w.visited + seen;
  IF seen = 0 THEN
    w.step := (w.step + 1) % 3;
    w.lap := w.lap + CASE w.step WHEN 0 THEN 1 ELSE 0 END;
    w.after_user := '';
    w.after_request := '';
    w.after_unit := 0;
  ELSE
    w.after_user := coalesce(last_user, '');
    w.after_request := coalesce(last_request, '');
    w.after_unit := coalesce(last_unit, 0);
  END IF;
  RETURN w;
END $$;

-- heal_waiting: how many things of an activity's recovery are not yet delivered, of up to 1000 rows; and whether they are so many that nothing more is to be queued.
CREATE OR REPLACE FUNCTION heal_waiting(p_activity text) RETURNS TABLE (w_things bigint, w_full boolean) LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(u.things), 0)::bigint, coalesce(sum(u.things), 0) >= 4096 OR count(*) >= 1000
  FROM (SELECT CASE WHEN b.kind IN ('STATUSES', 'RETURNS') THEN b.generation ELSE 1 END AS things FROM outbox b
        WHERE b.activity_id = p_activity AND b.heals LIMIT 1000) u
$$;

-- heal_bucket: the next slice of what this bucket, and every other of its activity that is being recovered, must hold: the status of every verdict on a reservation
-- made there, and the return of every unit AVAILABLE there at its present generation. All buckets share one walk over the activity, which goes round; one that
-- comes joins where it is, and has been told everything once the walk has come by there again. Another mark joins anew.
-- Out: OK, UNKNOWN_ACTIVITY or STALE_EPOCH; rows told under this mark; what of the activity is not yet delivered (of up to 1000 rows); whether there is
-- more to tell now; whether it is healed: then its incarnation stands recorded. Where 4096 things, or 1000 rows, are undelivered nothing is queued before they are fewer: the
-- outbox stays small, and other sales have their turn.
-- Locks: the walk → buckets → outbox.
CREATE OR REPLACE FUNCTION heal_bucket(p_activity text, p_epoch smallint, p_bucket smallint, p_mark text, p_incarnation text, p_limit integer)
RETURNS TABLE (h_result text, h_told bigint, h_waiting bigint, h_more boolean, h_healed boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  w recovery_walk;
  h bucket%ROWTYPE;
  members smallint[];
  waits bigint := 0;
  full_up boolean := false;
BEGIN
  PERFORM require_session();
  IF NOT EXISTS (SELECT FROM activity a WHERE a.activity_id = p_activity) THEN
    RETURN QUERY SELECT 'UNKNOWN_ACTIVITY', 0::bigint, 0::bigint, false, false;
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM activity a WHERE a.activity_id = p_activity AND a.epoch = p_epoch AND p_bucket < a.buckets) THEN
    RETURN QUERY SELECT 'STALE_EPOCH', 0::bigint, 0::bigint, false, false;
    RETURN;
  END IF;
  INSERT INTO recovery_walk (activity_id, epoch) VALUES (p_activity, p_epoch) ON CONFLICT DO NOTHING;
  INSERT INTO bucket (activity_id, epoch, bucket) VALUES (p_activity, p_epoch, p_bucket) ON CONFLICT DO NOTHING;
  SELECT r.* INTO w FROM recovery_walk r WHERE r.activity_id = p_activity FOR UPDATE;
  SELECT b.* INTO h FROM bucket b WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.bucket = p_bucket FOR UPDATE;
  IF h.mark IS DISTINCT FROM p_mark THEN
    IF w.epoch <> p_epoch OR NOT EXISTS (SELECT FROM bucket b WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.bucket <> p_bucket AND b.step = 'WALK') THEN
      w := ROW(p_activity, p_epoch, w.lap + 1, 0, '', '', 0, w.visited)::recovery_walk;    -- nobody is on it: from the beginning
    END IF;
    UPDATE bucket b SET mark = p_mark, step = 'WALK', told = 0, begun_at = now(), from_lap = w.lap, from_step = w.step, from_user = w.after_user,
      from_request = w.after_request, from_unit = w.after_unit
    WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.bucket = p_bucket RETURNING b.* INTO h;
    UPDATE recovery_walk r SET epoch = w.epoch, lap = w.lap, step = w.step, after_user = w.after_user, after_request = w.after_request, after_unit = w.after_unit
    WHERE r.activity_id = p_activity;
    SELECT f.w_things INTO waits FROM heal_waiting(p_activity) f;
    RETURN QUERY SELECT 'OK', 0::bigint, waits, true, false;    -- no slice yet: those closed at the same moment all join first
    RETURN;
  END IF;

  IF h.step <> 'HEALED' THEN
    SELECT * INTO waits, full_up FROM heal_waiting(p_activity);
  END IF;
  IF h.step = 'WALK' AND NOT full_up THEN
    members := ARRAY(SELECT b.bucket FROM bucket b WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.step = 'WALK');
    w := recovery_slice(w, p_limit, members, p_bucket);
    UPDATE bucket b SET step = 'WAIT'
    WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.step = 'WALK'
      AND (w.lap, w.step, w.after_user, w.after_request, w.after_unit) >= (b.from_lap + 1, b.from_step, b.from_user, b.from_request, b.from_unit);
    UPDATE recovery_walk r SET epoch = w.epoch, lap = w.lap, step = w.step, after_user = w.after_user, after_request = w.after_request, after_unit = w.after_unit,
      visited = w.visited
    WHERE r.activity_id = p_activity;
    SELECT b.* INTO h FROM bucket b WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.bucket = p_bucket;
    SELECT * INTO waits, full_up FROM heal_waiting(p_activity);
  END IF;

  IF h.step <> 'HEALED' AND waits > 0 THEN
    -- A relay that has just lost this Redis too keeps what it claimed for ten seconds (relay.c), and so does one that died: whatever was claimed more than a
    -- second and a half ago is free again. At worst it is told twice.
    UPDATE outbox SET claimed_until = NULL WHERE outbox_id = ANY (ARRAY(
      SELECT b.outbox_id FROM outbox b WHERE b.activity_id = p_activity AND b.heals AND b.claimed_until > now() AND b.claimed_until < now() + interval '8500 ms'
      LIMIT 1000 FOR UPDATE SKIP LOCKED));
  ELSIF h.step = 'WAIT' THEN
    UPDATE bucket b SET step = 'HEALED', incarnation = p_incarnation, recorded_at = now()
    WHERE b.activity_id = p_activity AND b.epoch = p_epoch AND b.bucket = p_bucket;
    h.step := 'HEALED';
  END IF;
  RETURN QUERY SELECT 'OK', h.told, waits, h.step = 'WALK' AND NOT full_up, h.step = 'HEALED';
END $$;

-- record_bucket: the first incarnation, where every unit was just handed over and counted. Only while the activity is WARM: nothing was said yet.
CREATE OR REPLACE FUNCTION record_bucket(p_activity text, p_epoch smallint, p_bucket smallint, p_incarnation text) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  a activity%ROWTYPE;
BEGIN
  PERFORM require_session();
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

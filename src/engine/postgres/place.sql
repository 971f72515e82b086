-- SPDX-License-Identifier: Apache-2.0
-- place_orders: one batch of create-order messages becomes verdicts, in one transaction (protocol §3).
--
-- In: the consumer group and owner; the queue prefixes the batch takes (q_*), each moved from → to; the items (i_*), arrays of one length.
-- p_hurry: units that another transaction holds are not waited for; else for as long as lock_timeout says.
-- Out: one row per item, in order. The one row QUEUE_LOST instead: an offset row was not where the caller believed; nothing was done.
-- LOCK_TIMEOUT for an item: another transaction holds its unit. Nothing is decided of it, and the offset goes past it with the others: it is the caller's to bring again.
-- Promises: whoever inserts an inbox row first has decided; at most one order per unit and generation, reservation, request, user
-- and SKU; a released unit has its next generation and its return queued in the same transaction.
-- No plan of these may depend on statistics, which are missing or stale when a sale begins (test/contract/ledger/ledger_plans.c):
--   a look-up per item is a LATERAL subquery with LIMIT 1, or a scalar subquery: the planner cannot turn it round or hash the whole table;
--   an UPDATE joined to the items says `key = ANY (ARRAY[item.key])`: no equality from which a merge order, and so a full scan of the index, could come;
--   a condition that is the predicate of a partial index stands outside the look-up, or reads `status || ''`: else that index may be read from end to end.
-- Locks: offsets → inbox → requests → units → orders → outbox, each in order of its key.

-- place_usual: the usual batch, where nothing collides: all items of `i_new` become orders. False: something is in the way, and nothing has happened; NULL: what is in
-- the way is a row that another transaction holds.
-- It is a subtransaction: an insert that need not ask every unique index first, nor be able to take itself back, costs half; a key that is
-- taken, a unit that is not as its message says, a request that was refused before make it as if it had never been. Steps and locks are those of
-- place_carefully. Its rows bear the number of the subtransaction: nothing here may ask by it who wrote them.
CREATE OR REPLACE FUNCTION place_usual(
  p_group text,
  i_message text[], i_request text[], i_reservation text[], i_activity text[], i_sku text[], i_user text[],
  i_unit bigint[], i_generation integer[], i_epoch smallint[], i_created bigint[], i_new boolean[], i_news integer)
RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  rows integer;
BEGIN
  INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch,
                              created_at, outcome)
  SELECT i.reservation, p_group, i.message, i.activity, i.sku, i.usr, i.request, i.unit, i.generation, i.epoch,
         to_timestamp(i.created / 1000.0::float8), 'ORDERED'
  FROM unnest(i_reservation, i_message, i_activity, i_sku, i_user, i_request, i_unit, i_generation, i_epoch, i_created, i_new)
    i(reservation, message, activity, sku, usr, request, unit, generation, epoch, created, new)
  WHERE i.new ORDER BY i.reservation COLLATE "C";

  PERFORM pg_advisory_xact_lock(k.key) FROM (
    SELECT DISTINCT request_key(i.activity, i.usr, i.request) AS key FROM unnest(i_activity, i_user, i_request, i_new) i(activity, usr, request, new)
    WHERE i.new ORDER BY key) k;

  SELECT count(*) INTO rows
  FROM (SELECT * FROM unnest(i_unit, i_generation, i_activity, i_sku, i_new) i(unit, generation, activity, sku, new) WHERE i.new ORDER BY i.unit) i
  CROSS JOIN LATERAL (SELECT t.generation, t.status, t.activity_id, t.sku_id FROM inventory_token t WHERE t.unit = i.unit LIMIT 1 FOR UPDATE) t
  WHERE t.generation = i.generation AND t.status = 'AVAILABLE' AND t.activity_id = i.activity AND t.sku_id = i.sku;
  IF rows <> i_news THEN
    RAISE EXCEPTION 'a unit is not as its message says' USING ERRCODE = 'SK001';
  END IF;

  INSERT INTO orders (order_id, request_id, reservation_id, activity_id, sku_id, user_id, unit, generation, amount, currency, pay_deadline)
  SELECT order_name(i.reservation), i.request, i.reservation, i.activity, i.sku, i.usr, i.unit, i.generation, s.price, s.currency,
         now() + make_interval(secs => a.pay_timeout_s)
  FROM unnest(i_reservation, i_activity, i_sku, i_user, i_request, i_unit, i_generation, i_new)
    i(reservation, activity, sku, usr, request, unit, generation, new)
  CROSS JOIN LATERAL (SELECT k.price, k.currency FROM activity_sku k WHERE k.activity_id = i.activity AND k.sku_id = i.sku LIMIT 1) s
  CROSS JOIN LATERAL (SELECT k.pay_timeout_s FROM activity k WHERE k.activity_id = i.activity LIMIT 1) a
  WHERE i.new
    AND (SELECT x.outcome FROM consumer_inbox x WHERE x.activity_id = i.activity AND x.user_id = i.usr AND x.request_id = i.request
         AND x.outcome = 'RELEASED' LIMIT 1) IS NULL
  ORDER BY i.activity COLLATE "C", i.usr COLLATE "C", i.sku COLLATE "C";
  GET DIAGNOSTICS rows = ROW_COUNT;
  IF rows <> i_news THEN
    RAISE EXCEPTION 'a request was refused before' USING ERRCODE = 'SK001';
  END IF;

  UPDATE inventory_token t SET status = 'CONSUMED', reservation_id = p.id, consumed_at = now(), updated_at = now()
  FROM unnest(i_unit, i_generation, i_reservation, i_new) p(unit, generation, id, new)
  WHERE p.new AND t.unit = ANY (ARRAY[p.unit]) AND t.generation = p.generation AND t.status = 'AVAILABLE';
  GET DIAGNOSTICS rows = ROW_COUNT;
  IF rows <> i_news THEN
    RAISE EXCEPTION 'two items name one unit' USING ERRCODE = 'SK001';
  END IF;
  INSERT INTO inventory_journal (unit, generation, change, delta, reservation_id)
  SELECT p.unit, p.generation, 'CONSUMED', -1, p.id FROM unnest(i_unit, i_generation, i_reservation, i_new) p(unit, generation, id, new) WHERE p.new;
  RETURN true;
EXCEPTION
  WHEN unique_violation OR SQLSTATE 'SK001' THEN RETURN false;
  WHEN lock_not_available THEN RETURN NULL;
END $$;

-- units_hold(…): locks the units of those items that are fresh, in unit order, and says of each its place in the batch, its generation and whether it is AVAILABLE. Those that
-- another transaction holds are waited for, or (p_hurry) left out.
CREATE OR REPLACE FUNCTION units_hold(i_unit bigint[], i_activity text[], i_sku text[], is_fresh boolean[], p_hurry boolean)
RETURNS TABLE (h_ordinal bigint, h_generation integer, h_available boolean) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF p_hurry THEN
    RETURN QUERY
      SELECT i.ordinal, t.generation, t.status = 'AVAILABLE'
      FROM (SELECT * FROM unnest(i_unit, i_activity, i_sku, is_fresh) WITH ORDINALITY i(unit, activity, sku, fresh, ordinal) WHERE i.fresh ORDER BY i.unit) i
      CROSS JOIN LATERAL (SELECT t.generation, t.status, t.activity_id, t.sku_id FROM inventory_token t WHERE t.unit = i.unit LIMIT 1 FOR UPDATE SKIP LOCKED) t
      WHERE t.activity_id = i.activity AND t.sku_id = i.sku;
  ELSE
    RETURN QUERY
      SELECT i.ordinal, t.generation, t.status = 'AVAILABLE'
      FROM (SELECT * FROM unnest(i_unit, i_activity, i_sku, is_fresh) WITH ORDINALITY i(unit, activity, sku, fresh, ordinal) WHERE i.fresh ORDER BY i.unit) i
      CROSS JOIN LATERAL (SELECT t.generation, t.status, t.activity_id, t.sku_id FROM inventory_token t WHERE t.unit = i.unit LIMIT 1 FOR UPDATE) t
      WHERE t.activity_id = i.activity AND t.sku_id = i.sku;
  END IF;
END $$;

-- place_carefully: the same for any batch, step by step (2 to 8 of protocol §6), with a verdict for each item whatever it met; or LOCK_TIMEOUT, where its unit is held.
DROP FUNCTION IF EXISTS place_carefully(text, text[], text[], text[], text[], text[], text[], bigint[], integer[], smallint[], bigint[]);
CREATE OR REPLACE FUNCTION place_carefully(
  p_group text,
  i_message text[], i_request text[], i_reservation text[], i_activity text[], i_sku text[], i_user text[],
  i_unit bigint[], i_generation integer[], i_epoch smallint[], i_created bigint[], p_hurry boolean)
RETURNS TABLE (v_outcome text, v_why text, v_fresh boolean, v_order text, v_superseded_by text, v_regressed boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  n integer := cardinality(i_reservation);
  rows integer;
  place integer;
  undecided text[] := '{}';      -- reservations whose unit another transaction holds
  fresh integer;                 -- how many were inserted by us
  is_fresh boolean[];            -- per ordinal, like the next two
  u_generation integer[];        -- of the item's unit as locked; NULL: no such unit of that SKU
  u_available boolean[];
  held_at integer[];
  held_generation integer[];
  held_available boolean[];
  placed_id text[];              -- orders inserted by us
  placed_unit bigint[];
  placed_generation integer[];
  released_id text[];
  regressed boolean := false;
BEGIN
  -- 2. the verdicts: who inserts first has decided
  INSERT INTO consumer_inbox (reservation_id, consumer_group, message_id, activity_id, sku_id, user_id, request_id, unit, generation, epoch,
                              created_at, outcome)
  SELECT i.reservation, p_group, i.message, i.activity, i.sku, i.usr, i.request, i.unit, i.generation, i.epoch,
         to_timestamp(i.created / 1000.0), 'ORDERED'
  FROM unnest(i_reservation, i_message, i_activity, i_sku, i_user, i_request, i_unit, i_generation, i_epoch, i_created)
    WITH ORDINALITY i(reservation, message, activity, sku, usr, request, unit, generation, epoch, created, ordinal)
  ORDER BY i.reservation COLLATE "C", i.ordinal
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS fresh = ROW_COUNT;
  IF fresh = n THEN
    is_fresh := array_fill(true, ARRAY[n]);
  ELSE
    SELECT array_agg(i.turn = 1 AND i.ours IS TRUE ORDER BY i.ordinal) INTO is_fresh FROM (
      SELECT i.ordinal, row_number() OVER (PARTITION BY i.reservation, i.message ORDER BY i.ordinal) AS turn,
             (SELECT x.xmin = pg_current_xact_id()::xid AND x.message_id = i.message FROM consumer_inbox x WHERE x.reservation_id = i.reservation) AS ours
      FROM unnest(i_reservation, i_message) WITH ORDINALITY i(reservation, message, ordinal)) i;
  END IF;

  IF fresh > 0 THEN
    -- One request is decided by one transaction at a time: else two reservations of it, one being released and one being placed at this
    -- moment, would not see each other, and who asks by request would hear RELEASED and then ORDERED.
    PERFORM pg_advisory_xact_lock(k.key) FROM (
      SELECT DISTINCT request_key(i.activity, i.usr, i.request) AS key FROM unnest(i_activity, i_user, i_request, is_fresh) i(activity, usr, request, fresh)
      WHERE i.fresh ORDER BY key) k;

    -- 3. the units of fresh items, locked in unit order
    BEGIN
      SELECT array_agg(h_ordinal), array_agg(h_generation), array_agg(h_available) INTO held_at, held_generation, held_available
      FROM units_hold(i_unit, i_activity, i_sku, is_fresh, p_hurry);
    EXCEPTION WHEN lock_not_available THEN
      p_hurry := true;
      SELECT array_agg(h_ordinal), array_agg(h_generation), array_agg(h_available) INTO held_at, held_generation, held_available
      FROM units_hold(i_unit, i_activity, i_sku, is_fresh, true);
    END;
    u_generation := array_fill(NULL::integer, ARRAY[n]);
    u_available := array_fill(NULL::boolean, ARRAY[n]);
    FOR k IN 1 .. coalesce(cardinality(held_at), 0) LOOP
      place := held_at[k];
      u_generation[place] := held_generation[k];
      u_available[place] := held_available[k];
    END LOOP;
    IF p_hurry AND coalesce(cardinality(held_at), 0) < fresh THEN    -- those whose unit is there, and not ours now: as if they had not come
      undecided := ARRAY(
        SELECT i.reservation FROM unnest(i_reservation, i_unit, i_activity, i_sku, is_fresh, u_generation) i(reservation, unit, activity, sku, fresh, held)
        WHERE i.fresh AND i.held IS NULL
          AND (SELECT t.unit FROM inventory_token t WHERE t.unit = i.unit AND t.activity_id || '' = i.activity AND t.sku_id || '' = i.sku) IS NOT NULL);
      DELETE FROM consumer_inbox WHERE reservation_id = ANY (undecided);
      SELECT array_agg(i.fresh AND NOT i.reservation = ANY (undecided) ORDER BY i.ordinal) INTO is_fresh
      FROM unnest(i_reservation, is_fresh) WITH ORDINALITY i(reservation, fresh, ordinal);
      fresh := fresh - cardinality(undecided);
    END IF;

    -- 4. orders: the first item of each unit that matches it, the first of each request, unless the request was refused before
    WITH item AS (
      SELECT i.*, i.available AND i.generation = i.held AS matches,
             row_number() OVER (PARTITION BY i.activity COLLATE "C", i.usr COLLATE "C", i.request COLLATE "C" ORDER BY i.ordinal) AS request_turn,
             row_number() OVER (PARTITION BY i.unit, i.available AND i.generation = i.held ORDER BY i.ordinal) AS unit_turn
      FROM unnest(i_reservation, i_activity, i_sku, i_user, i_request, i_unit, i_generation, is_fresh, u_generation, u_available)
        WITH ORDINALITY i(reservation, activity, sku, usr, request, unit, generation, fresh, held, available, ordinal)
      WHERE i.fresh),
    placed AS (
      INSERT INTO orders (order_id, request_id, reservation_id, activity_id, sku_id, user_id, unit, generation, amount, currency, pay_deadline)
      SELECT order_name(i.reservation), i.request, i.reservation, i.activity, i.sku, i.usr, i.unit, i.generation, s.price, s.currency,
             now() + make_interval(secs => a.pay_timeout_s)
      FROM item i
      CROSS JOIN LATERAL (SELECT k.price, k.currency FROM activity_sku k WHERE k.activity_id = i.activity AND k.sku_id = i.sku LIMIT 1) s
      CROSS JOIN LATERAL (SELECT k.pay_timeout_s FROM activity k WHERE k.activity_id = i.activity LIMIT 1) a
      WHERE i.matches AND i.request_turn = 1 AND i.unit_turn = 1
        AND (SELECT x.outcome FROM consumer_inbox x WHERE x.activity_id = i.activity AND x.user_id = i.usr AND x.request_id = i.request
             AND x.outcome = 'RELEASED' LIMIT 1) IS NULL
      ORDER BY i.activity COLLATE "C", i.usr COLLATE "C", i.sku COLLATE "C", i.ordinal
      ON CONFLICT DO NOTHING RETURNING reservation_id, unit, generation)
    SELECT array_agg(reservation_id), array_agg(unit), array_agg(generation)
    INTO placed_id, placed_unit, placed_generation FROM placed;

    -- 5. their units
    IF placed_id IS NOT NULL THEN
      UPDATE inventory_token t SET status = 'CONSUMED', reservation_id = p.id, consumed_at = now(), updated_at = now()
      FROM unnest(placed_unit, placed_generation, placed_id) p(unit, generation, id)
      WHERE t.unit = ANY (ARRAY[p.unit]) AND t.generation = p.generation AND t.status = 'AVAILABLE';
      GET DIAGNOSTICS rows = ROW_COUNT;
      IF rows <> cardinality(placed_id) THEN
        RAISE EXCEPTION 'place_orders: % orders but % units', cardinality(placed_id), rows USING ERRCODE = 'assert_failure';
      END IF;
      INSERT INTO inventory_journal (unit, generation, change, delta, reservation_id)
      SELECT p.unit, p.generation, 'CONSUMED', -1, p.id FROM unnest(placed_unit, placed_generation, placed_id) p(unit, generation, id);
    END IF;
  END IF;

  -- 6. fresh − placed: released, each with its own reason
  IF fresh > coalesce(cardinality(placed_id), 0) THEN
    SELECT bool_or(i.generation > i.held) INTO regressed
    FROM unnest(i_generation, u_generation, is_fresh) i(generation, held, fresh) WHERE i.fresh;
    WITH released AS (
      SELECT i.reservation,
             CASE WHEN i.held IS NULL THEN 'TOKEN_FOREIGN'
                  WHEN i.request_turn > 1 OR same_request.reservation_id IS NOT NULL OR replay.reservation_id IS NOT NULL THEN 'REQUEST_REPLAY'
                  WHEN same_user.reservation_id IS NOT NULL THEN 'DUPLICATE_USER'
                  WHEN i.generation = i.held AND (NOT i.available OR (SELECT bool_or(h.generation = i.generation OR h.status <> 'CANCELED')
                       FROM orders h WHERE h.unit = i.unit)) THEN 'TOKEN_CONFLICT'
                  ELSE 'STALE_GENERATION' END AS reason,
             CASE WHEN i.held IS NOT NULL
                  THEN coalesce(same_request.reservation_id, same_user.reservation_id, replay.superseded_by) END AS superseded_by
      FROM (SELECT i.*, row_number() OVER (PARTITION BY i.activity, i.usr, i.request ORDER BY i.ordinal) AS request_turn
            FROM unnest(i_reservation, i_activity, i_sku, i_user, i_request, i_unit, i_generation, is_fresh, u_generation, u_available)
              WITH ORDINALITY i(reservation, activity, sku, usr, request, unit, generation, fresh, held, available, ordinal)
            WHERE i.fresh) i
      LEFT JOIN LATERAL (SELECT o.reservation_id FROM orders o WHERE o.reservation_id = i.reservation LIMIT 1) mine ON true
      LEFT JOIN LATERAL (SELECT o.reservation_id FROM activity_sku s    -- as look asks for a request
                         CROSS JOIN LATERAL (SELECT k.reservation_id, k.request_id FROM orders k
                                             WHERE k.activity_id = s.activity_id AND k.sku_id = s.sku_id AND k.user_id = i.usr LIMIT 1) o
                         WHERE s.activity_id = i.activity AND o.request_id = i.request LIMIT 1) same_request ON true
      LEFT JOIN LATERAL (SELECT o.reservation_id FROM orders o WHERE o.activity_id = i.activity AND o.sku_id = i.sku AND o.user_id = i.usr
                         LIMIT 1) same_user ON true
      LEFT JOIN LATERAL (SELECT x.reservation_id, x.superseded_by FROM consumer_inbox x WHERE x.activity_id = i.activity AND x.user_id = i.usr
                         AND x.request_id = i.request AND x.outcome = 'RELEASED' ORDER BY x.received_at, x.reservation_id LIMIT 1) replay ON true
      WHERE mine.reservation_id IS NULL),
    written AS (
      UPDATE consumer_inbox x SET outcome = 'RELEASED', reason = r.reason, superseded_by = r.superseded_by
      FROM released r WHERE x.reservation_id = ANY (ARRAY[r.reservation]) RETURNING x.reservation_id)
    SELECT array_agg(reservation_id) INTO released_id FROM written;
    IF coalesce(cardinality(released_id), 0) + coalesce(cardinality(placed_id), 0) <> fresh THEN
      RAISE EXCEPTION 'place_orders: % fresh, % placed, % released', fresh, cardinality(placed_id), cardinality(released_id)
        USING ERRCODE = 'assert_failure';
    END IF;
    PERFORM units_return(released_id);
  END IF;

  -- 7. what others must hear; items that were decided before are told again
  PERFORM outbox_tell(ARRAY(SELECT unnest(i_reservation) EXCEPT SELECT unnest(placed_id)), placed_id, released_id);

  -- 8. one verdict per ordinal
  IF EXISTS (SELECT FROM unnest(i_reservation, i_message) i(reservation, message)
             WHERE (SELECT x.outcome FROM consumer_inbox x WHERE x.reservation_id = i.reservation) IS NULL
               AND (SELECT x.outcome FROM consumer_inbox x WHERE x.consumer_group = p_group AND x.message_id = i.message) IS NULL)
     AND cardinality(undecided) = 0 THEN
    RAISE EXCEPTION 'place_orders: an item has no verdict' USING ERRCODE = 'assert_failure';
  END IF;
  RETURN QUERY
    SELECT coalesce(x.outcome, CASE WHEN cardinality(undecided) > 0 AND (SELECT y.outcome FROM consumer_inbox y WHERE y.consumer_group = p_group AND y.message_id = i.message) IS NULL
                                    THEN 'LOCK_TIMEOUT' ELSE 'MESSAGE_ID_REUSED' END), x.reason, i.fresh, CASE x.outcome WHEN 'ORDERED' THEN order_name(x.reservation_id) END,
           x.superseded_by, coalesce(regressed, false)
    FROM unnest(i_reservation, i_message, is_fresh) WITH ORDINALITY i(reservation, message, fresh, ordinal)
    LEFT JOIN LATERAL (SELECT k.* FROM consumer_inbox k WHERE k.reservation_id = i.reservation LIMIT 1) x ON true
    ORDER BY i.ordinal;
END $$;

DROP FUNCTION IF EXISTS place_orders(text, text, text[], text[], integer[], bigint[], bigint[], text[], text[], text[], text[], text[], text[], text[], bigint[], integer[],
  smallint[], bigint[]);
CREATE OR REPLACE FUNCTION place_orders(
  p_group text, p_owner text,
  q_broker text[], q_topic text[], q_number integer[], q_from bigint[], q_to bigint[], q_identity text[],
  i_message text[], i_request text[], i_reservation text[], i_activity text[], i_sku text[], i_user text[],
  i_unit bigint[], i_generation integer[], i_epoch smallint[], i_created bigint[], p_hurry boolean)
RETURNS TABLE (v_outcome text, v_why text, v_fresh boolean, v_order text, v_superseded_by text, v_regressed boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  n integer := cardinality(i_reservation);
  rows integer;
  news integer;
  usual boolean := false;
  is_new boolean[];    -- per ordinal: no verdict of it stands, and it is the first of its reservation in the batch
BEGIN
  PERFORM require_session();
  -- 1. the offsets, all or nothing
  IF cardinality(q_topic) > 0 THEN
    SELECT count(*) INTO rows FROM (
      SELECT o.next, q.come_from FROM consumer_offset o
      JOIN unnest(q_broker, q_topic, q_number, q_from) q(broker, topic, number, come_from)
        ON o.broker = q.broker AND o.topic = q.topic AND o.queue = q.number
      WHERE o.consumer_group = p_group
      ORDER BY o.broker, o.topic, o.queue FOR UPDATE OF o) held
    WHERE held.next = held.come_from;
    IF rows <> cardinality(q_topic) THEN
      RETURN QUERY SELECT 'QUEUE_LOST', NULL::text, false, NULL::text, NULL::text, false;
      RETURN;
    END IF;
    UPDATE consumer_offset o
    SET next = q.go_to, identity = q.identity, updated_at = now(),
        leased_until = CASE WHEN o.owner = p_owner THEN now() + interval '3 s' ELSE o.leased_until END
    FROM unnest(q_broker, q_topic, q_number, q_to, q_identity) q(broker, topic, number, go_to, identity)
    WHERE o.consumer_group = p_group AND o.broker = q.broker AND o.topic = q.topic AND o.queue = q.number;
  END IF;
  IF n = 0 THEN
    RETURN;
  END IF;

  SELECT array_agg(i.new ORDER BY i.ordinal), count(*) FILTER (WHERE i.new) INTO is_new, news FROM (
    SELECT i.ordinal, row_number() OVER (PARTITION BY i.reservation ORDER BY i.ordinal) = 1
           AND (SELECT x.outcome FROM consumer_inbox x WHERE x.reservation_id = i.reservation) IS NULL AS new
    FROM unnest(i_reservation) WITH ORDINALITY i(reservation, ordinal)) i;
  IF news > 0 AND NOT p_hurry THEN
    usual := place_usual(p_group, i_message, i_request, i_reservation, i_activity, i_sku, i_user, i_unit, i_generation, i_epoch, i_created, is_new, news);
  END IF;
  IF usual IS NOT TRUE THEN    -- what has been waited for once is not waited for again
    RETURN QUERY SELECT * FROM place_carefully(p_group, i_message, i_request, i_reservation, i_activity, i_sku, i_user, i_unit, i_generation, i_epoch,
                                               i_created, p_hurry OR usual IS NULL);
    PERFORM orders_free(i_reservation, i_activity);
  ELSIF news = n THEN
    PERFORM orders_tell(i_reservation, i_activity);
    PERFORM orders_free(i_reservation, i_activity);
    RETURN QUERY SELECT 'ORDERED', NULL::text, true, order_name(i.id), NULL::text, false FROM unnest(i_reservation) i(id);
  ELSE    -- what was decided before is told again
    PERFORM orders_tell(ARRAY(SELECT i.id FROM unnest(i_reservation, is_new) i(id, new) WHERE i.new),
                        ARRAY(SELECT i.activity FROM unnest(i_activity, is_new) i(activity, new) WHERE i.new));
    PERFORM orders_free(i_reservation, i_activity);
    PERFORM outbox_tell(ARRAY(SELECT i.id FROM unnest(i_reservation) i(id) EXCEPT SELECT i.id FROM unnest(i_reservation, is_new) i(id, new) WHERE i.new),
                        NULL, NULL);
    RETURN QUERY
      SELECT x.outcome, x.reason, i.new, CASE x.outcome WHEN 'ORDERED' THEN order_name(x.reservation_id) END, x.superseded_by, false
      FROM unnest(i_reservation, is_new) WITH ORDINALITY i(reservation, new, ordinal)
      CROSS JOIN LATERAL (SELECT k.* FROM consumer_inbox k WHERE k.reservation_id = i.reservation LIMIT 1) x
      ORDER BY i.ordinal;
  END IF;
END $$;

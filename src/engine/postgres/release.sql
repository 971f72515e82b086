-- SPDX-License-Identifier: Apache-2.0
-- release_reservations: the ledger decides that no order will come of these reservations, unless it has already decided otherwise.
--
-- In: the reservations with their units (unit 0: none known) and why. Out: one row per item, as of place_orders: RELEASED by this
-- call, or the verdict that stood, which is told to the store again. Any message of them that arrives later meets the verdict.
CREATE OR REPLACE FUNCTION release_reservations(
  i_request text[], i_reservation text[], i_activity text[], i_sku text[], i_user text[],
  i_unit bigint[], i_generation integer[], i_epoch smallint[], i_created bigint[], i_why text[])
RETURNS TABLE (v_outcome text, v_why text, v_fresh boolean, v_order text, v_superseded_by text, v_regressed boolean)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  fresh_id text[];
  regressed boolean := false;
BEGIN
  PERFORM require_session();
  WITH fresh AS (
    INSERT INTO consumer_inbox (reservation_id, consumer_group, activity_id, sku_id, user_id, request_id, unit, generation, epoch, created_at,
                                outcome, reason)
    SELECT i.reservation, 'seckill-decision', i.activity, i.sku, i.usr, i.request, i.unit, i.generation, i.epoch,
           to_timestamp(i.created / 1000.0), 'RELEASED', i.why
    FROM unnest(i_reservation, i_activity, i_sku, i_user, i_request, i_unit, i_generation, i_epoch, i_created, i_why)
      WITH ORDINALITY i(reservation, activity, sku, usr, request, unit, generation, epoch, created, why, ordinal)
    ORDER BY i.reservation COLLATE "C", i.ordinal
    ON CONFLICT (reservation_id) DO NOTHING RETURNING reservation_id)
  SELECT array_agg(reservation_id) INTO fresh_id FROM fresh;

  IF fresh_id IS NOT NULL THEN
    PERFORM pg_advisory_xact_lock(k.key) FROM (
      SELECT DISTINCT request_key(x.activity_id, x.user_id, x.request_id) AS key FROM consumer_inbox x WHERE x.reservation_id = ANY (fresh_id)
      ORDER BY key) k;
    SELECT coalesce(bool_or(x.generation > t.generation AND t.activity_id = x.activity_id AND t.sku_id = x.sku_id), false) INTO regressed
    FROM (SELECT * FROM consumer_inbox x WHERE x.reservation_id = ANY (fresh_id) ORDER BY x.unit) x
    CROSS JOIN LATERAL (SELECT k.generation, k.activity_id, k.sku_id FROM inventory_token k WHERE k.unit = x.unit LIMIT 1 FOR UPDATE) t;
    PERFORM units_return(fresh_id);
  END IF;
  PERFORM outbox_tell(ARRAY(SELECT DISTINCT unnest(i_reservation)), NULL, fresh_id);

  RETURN QUERY
    SELECT x.outcome, x.reason, i.turn = 1 AND x.reservation_id = ANY (fresh_id) IS TRUE,
           CASE x.outcome WHEN 'ORDERED' THEN order_name(x.reservation_id) END, x.superseded_by, regressed
    FROM (SELECT reservation, ordinal, row_number() OVER (PARTITION BY reservation ORDER BY ordinal) AS turn
          FROM unnest(i_reservation) WITH ORDINALITY i(reservation, ordinal)) i
    CROSS JOIN LATERAL (SELECT k.* FROM consumer_inbox k WHERE k.reservation_id = i.reservation LIMIT 1) x
    ORDER BY i.ordinal;
END $$;

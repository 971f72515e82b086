-- SPDX-License-Identifier: Apache-2.0
-- repair_units: what a count could not attribute is mended by its cause (protocol §7). In: units of one activity, each once, at the generation that
-- was looked at; `missing` 1: nobody claims it; 0: a copy of it should not be. Out: OK or UNCHANGED for each, in order.
-- A missing unit comes back under a new generation, so that a message which still names the old one is refused by place_orders.
CREATE OR REPLACE FUNCTION repair_units(p_activity text, r_unit bigint[], r_generation integer[], r_missing smallint[]) RETURNS TABLE (r_outcome text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  raised bigint[];
  told bigint[];
BEGIN
  PERFORM require_session();
  PERFORM FROM inventory_token t WHERE t.unit = ANY (r_unit) ORDER BY t.unit FOR UPDATE;

  WITH up AS (
    UPDATE inventory_token t SET generation = t.generation + 1, updated_at = now()
    FROM unnest(r_unit, r_generation, r_missing) r(unit, generation, missing)
    WHERE r.missing = 1 AND t.unit = ANY (ARRAY[r.unit]) AND t.generation = r.generation AND t.activity_id = p_activity AND t.status = 'AVAILABLE'
      AND t.generation < 2147483647 AND (SELECT b.key FROM outbox b WHERE b.key = 'RETURN:' || r.unit || '-' || r.generation) IS NULL
    RETURNING t.unit)
  SELECT array_agg(unit) INTO raised FROM up;
  SELECT array_agg(t.unit) INTO told
  FROM inventory_token t
  WHERE t.unit = ANY (ARRAY(SELECT r.unit FROM unnest(r_unit, r_missing) r(unit, missing) WHERE r.missing = 0)) AND t.activity_id = p_activity;

  INSERT INTO inventory_journal (unit, generation, change, delta, reason)
  SELECT t.unit, t.generation, 'RETURNED', 0, 'UNATTRIBUTED' FROM inventory_token t WHERE t.unit = ANY (raised);
  INSERT INTO audit_log (actor, action, subject, note)
  SELECT 'janitor', 'unit.return', t.inventory_token_id, 'nobody claimed it' FROM inventory_token t WHERE t.unit = ANY (raised) ORDER BY t.unit;

  INSERT INTO outbox AS b (key, kind, activity_id, reservation_id, unit, generation)
  SELECT q.* FROM (
    SELECT 'RETURN:' || t.unit || '-' || t.generation AS key, 'RETURN', t.activity_id, NULL::text, t.unit, t.generation
    FROM inventory_token t WHERE t.unit = ANY (raised || told) AND t.status = 'AVAILABLE'
    UNION ALL
    SELECT 'STATUS:' || t.reservation_id, 'STATUS', t.activity_id, t.reservation_id, NULL, NULL
    FROM inventory_token t WHERE t.unit = ANY (told) AND t.status = 'CONSUMED'
  ) q ORDER BY q.key COLLATE "C"
  ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL;

  RETURN QUERY SELECT CASE WHEN r.unit = ANY (raised || told) THEN 'OK' ELSE 'UNCHANGED' END
               FROM unnest(r_unit) WITH ORDINALITY r(unit, n) ORDER BY r.n;
END $$;

-- SPDX-License-Identifier: Apache-2.0
-- park_message: what can never be taken goes before a person: a review row, the dead-letter topic, and the queue's offset, at once.
--
-- In: group, owner; the queue prefix of exactly this message (q_topic NULL: none); key and body as they came; what could be read of
-- it (i_reservation NULL: nothing); why. Out: OK, or QUEUE_LOST and nothing done. Parking the same twice is parking it once.
CREATE OR REPLACE FUNCTION park_message(
  p_group text, p_owner text,
  q_broker text, q_topic text, q_number integer, q_from bigint, q_to bigint, q_identity text,
  p_key text, p_body bytea, p_why text,
  i_message text, i_request text, i_reservation text, i_activity text, i_sku text, i_user text,
  i_unit bigint, i_generation integer, i_epoch smallint, i_created bigint)
RETURNS text LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  name text := encode(sha256(CASE WHEN i_reservation IS NULL THEN 'message:'::bytea || convert_to(p_key || ':', 'UTF8') || p_body
                                  ELSE convert_to('reservation:' || i_reservation, 'UTF8') END || convert_to(':' || p_why, 'UTF8')), 'hex');
BEGIN
  PERFORM require_session();
  IF q_topic IS NOT NULL THEN
    UPDATE consumer_offset o
    SET next = q_to, identity = q_identity, updated_at = now(),
        leased_until = CASE WHEN o.owner = p_owner THEN now() + interval '3 s' ELSE o.leased_until END
    WHERE o.consumer_group = p_group AND o.broker = q_broker AND o.topic = q_topic AND o.queue = q_number AND o.next = q_from;
    IF NOT FOUND THEN
      RETURN 'QUEUE_LOST';
    END IF;
  END IF;
  INSERT INTO review (review_id, kind, reason, consumer_group, message_key, body, reservation_id, message_id, activity_id, sku_id, user_id,
                      request_id, unit, generation, epoch, created_at)
  VALUES (name, CASE WHEN i_reservation IS NULL THEN 'MESSAGE' ELSE 'RESERVATION' END, p_why, p_group, p_key, p_body, i_reservation, i_message,
          i_activity, i_sku, i_user, i_request, i_unit, i_generation, i_epoch, to_timestamp(i_created / 1000.0))
  ON CONFLICT (review_id) DO NOTHING;
  IF NOT FOUND THEN
    RETURN 'OK';
  END IF;
  INSERT INTO outbox AS b (key, kind, activity_id, reservation_id, subject)
  SELECT q.key, q.kind, q.activity, q.reservation, q.subject
  FROM (VALUES ('DEAD_LETTER:' || name, 'DEAD_LETTER', NULL, i_reservation, name),
               ('STATUS:' || i_reservation, 'STATUS', i_activity, i_reservation, NULL)) q(key, kind, activity, reservation, subject)
  WHERE q.kind = 'DEAD_LETTER' OR EXISTS (SELECT FROM activity a WHERE a.activity_id = i_activity)
  ORDER BY q.key COLLATE "C"
  ON CONFLICT (key) DO UPDATE SET version = b.version + 1, claimed_until = NULL;
  RETURN 'OK';
END $$;

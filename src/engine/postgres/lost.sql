-- SPDX-License-Identifier: Apache-2.0
-- What may still be unread, and reservations that neither store knows (docs/protocol.md, section 14). One clock: this database's.

-- messages_unread_since: whether a message that was stored by then may still be unread. The broker keeps messages for 72 hours.
CREATE OR REPLACE FUNCTION messages_unread_since(p_group text, p_since timestamptz) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT p_since > now() - interval '72 hours'
         AND coalesce((SELECT bool_or(o.caught_up_at IS NULL OR o.caught_up_at < p_since) FROM consumer_offset o WHERE o.consumer_group = p_group), true)
$$;

-- backlog. In: the consumer group; an activity, or ''. Out: b_read_ms: messages stored so many milliseconds ago or longer are all decided or parked, -1 where that
-- is not known; b_unread: a bucket of the activity has been recovered, and a message that was stored before may still be unread. A consumer
-- finds a new queue within 35 s, so each queue must have been caught up a minute after the recovery began. b_numbers_free: with '', how many activities can still be created.
DROP FUNCTION IF EXISTS backlog(text, text);
CREATE OR REPLACE FUNCTION backlog(p_group text, p_activity text) RETURNS TABLE (b_read_ms bigint, b_unread boolean, b_numbers_free integer) LANGUAGE sql STABLE AS $$
  SELECT (SELECT CASE WHEN count(*) = 0 OR count(o.caught_up_at) < count(*) THEN -1
                      ELSE greatest(0, extract(epoch FROM now() - min(o.caught_up_at)) * 1000)::bigint END
          FROM consumer_offset o WHERE o.consumer_group = p_group),
         coalesce((SELECT messages_unread_since(p_group, max(b.begun_at) + interval '60 s') FROM bucket b WHERE b.activity_id = p_activity HAVING max(b.begun_at) IS NOT NULL), false),
         CASE WHEN p_activity = '' THEN activity_numbers_free() ELSE 0 END
$$;

-- release_lost: a reservation that neither Redis nor this database knows is RELEASED(LOST).
-- In: the consumer group; the reservation with what its row must name; how long it must have been asked for. Out: OK, a verdict stands; UNCHANGED, not yet: it was first
-- asked for less than so long ago, a message of it may still be unread, or the user has had eight of them in this activity.
-- Promise: at most eight rows of a user and activity, whatever ids are asked for. Locks: the user's questions, then those of release_reservations.
CREATE OR REPLACE FUNCTION release_lost(p_group text, p_reservation text, p_activity text, p_sku text, p_user text, p_epoch smallint, p_created bigint, p_after_ms bigint)
RETURNS text LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  asked timestamptz;
BEGIN
  PERFORM require_session();
  IF EXISTS (SELECT FROM consumer_inbox x WHERE x.reservation_id = p_reservation) THEN
    RETURN 'OK';
  END IF;
  IF reservation_archived(p_reservation) THEN
    RETURN 'NOT_FOUND';    -- the activity number was used again: it is of the old one
  END IF;
  SELECT q.first_asked_at INTO asked FROM lost_question q WHERE q.activity_id = p_activity AND q.user_id = p_user AND q.reservation_id = p_reservation;
  IF asked IS NULL THEN
    PERFORM pg_advisory_xact_lock(hashtextextended('seckill-lost:' || p_activity || ':' || p_user, 0));    -- two questions at once would both count before either writes
    IF (SELECT count(*) FROM (SELECT FROM lost_question q WHERE q.activity_id = p_activity AND q.user_id = p_user LIMIT 8) a)
       + (SELECT count(*) FROM (SELECT FROM consumer_inbox x WHERE x.activity_id = p_activity AND x.user_id = p_user AND x.outcome = 'RELEASED' AND x.reason = 'LOST' LIMIT 8) b) < 8 THEN
      INSERT INTO lost_question (activity_id, user_id, reservation_id) VALUES (p_activity, p_user, p_reservation) ON CONFLICT DO NOTHING;
      DELETE FROM lost_question WHERE (activity_id, user_id, reservation_id) IN (
        SELECT q.activity_id, q.user_id, q.reservation_id FROM lost_question q WHERE q.first_asked_at < now() - interval '1 day'
        ORDER BY q.first_asked_at LIMIT 16 FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN 'UNCHANGED';
  END IF;
  IF asked > now() - p_after_ms * interval '1 ms' OR messages_unread_since(p_group, asked) THEN
    RETURN 'UNCHANGED';
  END IF;
  PERFORM FROM release_reservations(ARRAY[p_reservation], ARRAY[p_reservation], ARRAY[p_activity], ARRAY[p_sku], ARRAY[p_user], ARRAY[0::bigint], ARRAY[0],
                                    ARRAY[p_epoch], ARRAY[p_created], ARRAY['LOST']);
  DELETE FROM lost_question q WHERE q.activity_id = p_activity AND q.user_id = p_user AND q.reservation_id = p_reservation;
  RETURN 'OK';
END $$;

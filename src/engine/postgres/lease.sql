-- SPDX-License-Identifier: Apache-2.0
-- lease_queues: who reads which queue, for 3 s by this clock. A lease only saves work: the offset CAS of place_orders is what protects.
--
-- In: the group, the owner, the queues it sees and where each begins if never seen. Out: of each queue it holds now: its ordinal in the ask,
-- the next offset, the identity of the message before it, and this clock in milliseconds. q_caught_up: by this clock, when each queue was caught up, 0 where that is
-- not known; it stays true whoever has the lease. A live owner gets at most its fair share: ceil(queues / live owners).
DROP FUNCTION IF EXISTS lease_queues(text, text, text[], text[], integer[], bigint[]);
CREATE OR REPLACE FUNCTION lease_queues(p_group text, p_owner text, q_broker text[], q_topic text[], q_number integer[], q_start bigint[], q_caught_up bigint[])
RETURNS TABLE (l_queue integer, l_next bigint, l_identity text, l_now bigint) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  share integer;
BEGIN
  PERFORM require_session();
  PERFORM pg_advisory_xact_lock(hashtextextended('seckill-lease:' || p_group, 0));    -- two askers at once would both count before either writes
  DELETE FROM consumer_member WHERE consumer_group = p_group AND seen_until < now();
  INSERT INTO consumer_member VALUES (p_group, p_owner, now() + interval '3 s')
  ON CONFLICT (consumer_group, owner) DO UPDATE SET seen_until = excluded.seen_until;
  INSERT INTO consumer_offset (consumer_group, broker, topic, queue, next)
  SELECT p_group, q.broker, q.topic, q.number, q.start FROM unnest(q_broker, q_topic, q_number, q_start) q(broker, topic, number, start)
  ORDER BY q.broker COLLATE "C", q.topic COLLATE "C", q.number
  ON CONFLICT DO NOTHING;
  PERFORM FROM consumer_offset o WHERE o.consumer_group = p_group ORDER BY o.broker, o.topic, o.queue FOR UPDATE;

  SELECT ceil(cardinality(q_topic)::numeric / count(*)) INTO share FROM (
    SELECT owner FROM consumer_member WHERE consumer_group = p_group
    UNION SELECT owner FROM consumer_offset WHERE consumer_group = p_group AND owner IS NOT NULL AND leased_until >= now()) live;

  -- Its own first, then what is free; what it holds beyond its share it gives up.
  UPDATE consumer_offset o
  SET owner = CASE WHEN w.turn <= share THEN p_owner END, leased_until = CASE WHEN w.turn <= share THEN now() + interval '3 s' END
  FROM (SELECT c.broker, c.topic, c.queue,
               row_number() OVER (ORDER BY c.owner IS NOT DISTINCT FROM p_owner AND c.leased_until >= now() DESC, c.broker, c.topic, c.queue) AS turn
        FROM consumer_offset c JOIN unnest(q_broker, q_topic, q_number) q(broker, topic, number)
          ON c.broker = q.broker AND c.topic = q.topic AND c.queue = q.number
        WHERE c.consumer_group = p_group AND (c.owner IS NULL OR c.owner = p_owner OR c.leased_until < now())) w
  WHERE o.consumer_group = p_group AND o.broker = w.broker AND o.topic = w.topic AND o.queue = w.queue;

  UPDATE consumer_offset o SET caught_up_at = greatest(o.caught_up_at, to_timestamp(q.caught_up / 1000.0))
  FROM unnest(q_broker, q_topic, q_number, q_caught_up) q(broker, topic, number, caught_up)
  WHERE q.caught_up > 0 AND o.consumer_group = p_group AND o.broker = q.broker AND o.topic = q.topic AND o.queue = q.number;

  RETURN QUERY
    SELECT q.ordinal::integer - 1, o.next, o.identity, (extract(epoch FROM clock_timestamp()) * 1000)::bigint
    FROM unnest(q_broker, q_topic, q_number) WITH ORDINALITY q(broker, topic, number, ordinal)
    JOIN consumer_offset o ON o.consumer_group = p_group AND o.broker = q.broker AND o.topic = q.topic AND o.queue = q.number
    WHERE o.owner = p_owner AND o.leased_until >= now()
    ORDER BY q.ordinal;
END $$;

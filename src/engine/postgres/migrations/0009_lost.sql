-- SPDX-License-Identifier: Apache-2.0
-- What may still lie unread in the broker, and since when a reservation that nobody knows is being asked for (docs/protocol.md, section 14).

-- Every message that the broker had stored in this queue by then is decided or parked. By this database's clock; NULL: not known yet.
ALTER TABLE consumer_offset ADD COLUMN caught_up_at timestamptz;

-- A few rows of a user and activity (lost.sql), gone once decided or a day old.
CREATE TABLE lost_question (
  activity_id    text COLLATE "C" NOT NULL,
  user_id        text COLLATE "C" NOT NULL,
  reservation_id text COLLATE "C" NOT NULL,
  first_asked_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (activity_id, user_id, reservation_id)
);
CREATE INDEX lost_question_age ON lost_question (first_asked_at);

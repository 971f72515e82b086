-- SPDX-License-Identifier: Apache-2.0
-- What the ledger knows of the stores that keep the buckets: which life of which server holds all that it ever said, and how far a bucket is that is
-- being told again what it may have forgotten (protocol §2).

CREATE TABLE bucket (
  activity_id   text COLLATE "C" NOT NULL REFERENCES activity,
  epoch         smallint NOT NULL,
  bucket        smallint NOT NULL,
  incarnation   text COLLATE "C",                        -- NULL: never counted whole
  recorded_at   timestamptz,
  mark          text COLLATE "C",                        -- of the closing that is being healed, or was last
  step          text COLLATE "C" NOT NULL DEFAULT 'HEALED' CHECK (step IN ('ORDERED', 'RELEASED', 'UNITS', 'WAIT', 'HEALED')),
  after_user    text COLLATE "C" NOT NULL DEFAULT '',    -- how far ORDERED and RELEASED are
  after_request text COLLATE "C" NOT NULL DEFAULT '',
  after_unit    bigint NOT NULL DEFAULT 0,               -- how far UNITS is
  told          bigint NOT NULL DEFAULT 0,               -- rows queued under this mark
  begun_at      timestamptz,
  PRIMARY KEY (activity_id, epoch, bucket)
) WITH (fillfactor = 50);

-- Rows that a healing waits for. A row keeps its mark when it is renewed.
ALTER TABLE outbox ADD COLUMN heals boolean;
CREATE INDEX outbox_heals ON outbox (activity_id) WHERE heals;

-- epoch * 32 + bucket in which a reservation was made, out of its name (protocol §1): bits 54 to 63 of 128, which are written as 26 letters of five
-- bits after two zero ones. NULL: it is no such name.
CREATE FUNCTION reservation_home(reservation_id text) RETURNS integer
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN reservation_id ~ '^rsv_[0-7][0-9A-HJKMNP-TV-Z]{25}$' THEN
    (((strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(reservation_id, 16, 1)) - 1) & 15) << 6)
    | ((strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(reservation_id, 17, 1)) - 1) << 1)
    | ((strpos('0123456789ABCDEFGHJKMNPQRSTVWXYZ', substr(reservation_id, 18, 1)) - 1) >> 4) END;

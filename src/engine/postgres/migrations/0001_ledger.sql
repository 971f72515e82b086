-- SPDX-License-Identifier: Apache-2.0
-- The ledger's tables. Every promise that can be a constraint is one, so that no statement from anywhere can break it.
-- Ids are texts compared byte by byte (COLLATE "C"). inventory_token_id is derived from (unit, generation) wherever it stands.

CREATE FUNCTION token_id(unit bigint, generation integer) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN 'token_' || lpad(unit::text, greatest(6, length(unit::text)), '0') || '-' || generation::text;

-- Not STRICT, these two: only so are they written into the expressions that use them, which saves ten microseconds a call.
-- ord_X of rsv_X: one id gives all the names (protocol §1).
CREATE FUNCTION order_name(reservation_id text) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN 'ord_' || CASE WHEN starts_with(reservation_id, 'rsv_') THEN substr(reservation_id, 5) ELSE reservation_id END;

-- ---- what spec/*.def says: filled by the generated spec.sql --------------------------------------------------------------

CREATE TABLE activity_state (state text COLLATE "C" PRIMARY KEY, sells boolean NOT NULL, meaning text NOT NULL);
CREATE TABLE activity_transition (
  from_state text COLLATE "C" NOT NULL REFERENCES activity_state,
  event      text COLLATE "C" NOT NULL,
  to_state   text COLLATE "C" NOT NULL REFERENCES activity_state,
  mover      text NOT NULL,
  PRIMARY KEY (from_state, event)
);
CREATE TABLE order_state (state text COLLATE "C" PRIMARY KEY, holds_stock boolean NOT NULL, terminal boolean NOT NULL, meaning text NOT NULL);
CREATE TABLE order_transition (
  from_state text COLLATE "C" NOT NULL REFERENCES order_state,
  event      text COLLATE "C" NOT NULL,
  to_state   text COLLATE "C" NOT NULL REFERENCES order_state,
  mover      text NOT NULL,
  PRIMARY KEY (from_state, event)
);
CREATE UNIQUE INDEX order_transition_step ON order_transition (from_state, to_state);
CREATE TABLE reservation_state (state text COLLATE "C" PRIMARY KEY, rank integer NOT NULL, terminal boolean NOT NULL, meaning text NOT NULL);
CREATE TABLE reservation_transition (
  from_state text COLLATE "C" NOT NULL REFERENCES reservation_state,
  event      text COLLATE "C" NOT NULL,
  to_state   text COLLATE "C" NOT NULL REFERENCES reservation_state,
  mover      text NOT NULL,
  PRIMARY KEY (from_state, event)
);
CREATE TABLE reason (word text COLLATE "C" PRIMARY KEY, fate text NOT NULL, meaning text NOT NULL);

-- ---- activities and stock -------------------------------------------------------------------------------------------------

CREATE TABLE activity (
  activity_id   text COLLATE "C" PRIMARY KEY CHECK (activity_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  number        integer NOT NULL UNIQUE CHECK (number BETWEEN 1 AND 4095),
  title         text NOT NULL,
  epoch         smallint NOT NULL DEFAULT 1 CHECK (epoch BETWEEN 1 AND 31),
  buckets       smallint NOT NULL CHECK (buckets BETWEEN 1 AND 32),
  state         text COLLATE "C" NOT NULL DEFAULT 'DRAFT',
  version       bigint NOT NULL DEFAULT 1,
  starts_at     timestamptz NOT NULL,
  ends_at       timestamptz NOT NULL,
  pay_timeout_s integer NOT NULL CHECK (pay_timeout_s > 0),
  qualification boolean NOT NULL,
  rebuilding    boolean NOT NULL DEFAULT false,
  created_at    timestamptz NOT NULL DEFAULT now(),
  updated_at    timestamptz NOT NULL DEFAULT now(),
  CHECK (ends_at > starts_at)
);

CREATE TABLE activity_sku (
  activity_id text COLLATE "C" NOT NULL REFERENCES activity,
  sku_id      text COLLATE "C" NOT NULL CHECK (sku_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  place       integer NOT NULL,                                   -- order in which the SKUs were given
  stock       bigint NOT NULL CHECK (stock > 0),                  -- S0
  unit_first  bigint NOT NULL UNIQUE CHECK (unit_first > 0),      -- its units are unit_first … unit_first + stock - 1
  price       bigint NOT NULL CHECK (price >= 0),                 -- minor units
  currency    text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
  PRIMARY KEY (activity_id, sku_id)
);

-- One row per unit, S0 rows for ever. No index but the key, so that raising a generation and consuming are HOT updates.
CREATE TABLE inventory_token (
  unit               bigint PRIMARY KEY CHECK (unit > 0),
  activity_id        text COLLATE "C" NOT NULL,
  sku_id             text COLLATE "C" NOT NULL,
  bucket             smallint NOT NULL CHECK (bucket BETWEEN 0 AND 31),      -- home in the present epoch
  generation         integer NOT NULL DEFAULT 1 CHECK (generation > 0),
  inventory_token_id text GENERATED ALWAYS AS (token_id(unit, generation)) STORED,
  status             text COLLATE "C" NOT NULL DEFAULT 'AVAILABLE' CHECK (status IN ('AVAILABLE', 'CONSUMED')),
  reservation_id     text COLLATE "C",
  consumed_at        timestamptz,
  updated_at         timestamptz NOT NULL DEFAULT now(),
  CHECK ((status = 'CONSUMED') = (reservation_id IS NOT NULL)),
  FOREIGN KEY (activity_id, sku_id) REFERENCES activity_sku
) WITH (fillfactor = 70);

CREATE FUNCTION inventory_token_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'unit %: generation % may not become %, nor the unit another', OLD.unit, OLD.generation, NEW.generation
    USING ERRCODE = 'check_violation', CONSTRAINT = 'inventory_token_forward';
END $$;
-- A unit leaves an order only by raising its generation (a token id is never reused), and never goes back.
CREATE TRIGGER inventory_token_forward BEFORE UPDATE ON inventory_token FOR EACH ROW
  WHEN (NEW.generation < OLD.generation OR NEW.unit <> OLD.unit OR NEW.activity_id <> OLD.activity_id OR NEW.sku_id <> OLD.sku_id
        OR (OLD.status = 'CONSUMED' AND NEW.status = 'AVAILABLE' AND NEW.generation = OLD.generation)
        OR (OLD.status = 'CONSUMED' AND NEW.status = 'CONSUMED' AND NEW.reservation_id <> OLD.reservation_id))
  EXECUTE FUNCTION inventory_token_guard();

CREATE VIEW sku_inventory AS
  SELECT s.activity_id, s.sku_id, s.stock AS total,
         count(t.unit) FILTER (WHERE t.status = 'AVAILABLE') AS available,
         count(t.unit) FILTER (WHERE t.status = 'CONSUMED') AS consumed
  FROM activity_sku s LEFT JOIN inventory_token t
    ON t.unit BETWEEN s.unit_first AND s.unit_first + s.stock - 1 AND t.activity_id = s.activity_id AND t.sku_id = s.sku_id
  GROUP BY s.activity_id, s.sku_id, s.stock;

CREATE TABLE stock_transfer (
  tid         text COLLATE "C" PRIMARY KEY,              -- epoch-source-number within the activity, prefixed by it
  activity_id text COLLATE "C" NOT NULL REFERENCES activity,
  sku_id      text COLLATE "C" NOT NULL,
  epoch       smallint NOT NULL,
  source      smallint NOT NULL,
  target      smallint NOT NULL,
  units       bigint[] NOT NULL,
  generations integer[] NOT NULL,
  created_at  timestamptz NOT NULL DEFAULT now(),
  CHECK (cardinality(units) = cardinality(generations)),
  FOREIGN KEY (activity_id, sku_id) REFERENCES activity_sku
);

-- ---- verdicts and orders ----------------------------------------------------------------------------------------------------

-- The inbox row is the verdict: whoever inserts it first has decided.
CREATE TABLE consumer_inbox (
  reservation_id text COLLATE "C" PRIMARY KEY CHECK (octet_length(reservation_id) BETWEEN 1 AND 64),
  consumer_group text COLLATE "C" NOT NULL,
  message_id     text COLLATE "C",                       -- none where the verdict came without a message
  activity_id    text COLLATE "C" NOT NULL,
  sku_id         text COLLATE "C" NOT NULL,
  user_id        text COLLATE "C" NOT NULL,
  request_id     text COLLATE "C" NOT NULL,
  unit           bigint NOT NULL,                        -- 0: none known
  generation     integer NOT NULL,
  epoch          smallint NOT NULL,
  created_at     timestamptz,                            -- of the reservation, as the message says
  received_at    timestamptz NOT NULL DEFAULT now(),
  outcome        text COLLATE "C" NOT NULL CHECK (outcome IN ('ORDERED', 'RELEASED')),
  reason         text COLLATE "C",
  superseded_by  text COLLATE "C",                       -- reservation_id of the order that stands instead
  raised         integer,                                -- the generation this verdict raised its unit to, where it did
  UNIQUE (consumer_group, message_id),
  CHECK ((outcome = 'RELEASED') = (reason IS NOT NULL)),
  CHECK (outcome = 'RELEASED' OR message_id IS NOT NULL),
  CHECK (octet_length(user_id) BETWEEN 1 AND 64 AND octet_length(request_id) BETWEEN 1 AND 64 AND octet_length(activity_id) BETWEEN 1 AND 64
         AND octet_length(sku_id) BETWEEN 1 AND 64 AND octet_length(message_id) BETWEEN 1 AND 64 AND unit >= 0 AND generation >= 0)
) WITH (fillfactor = 95);
CREATE INDEX consumer_inbox_released ON consumer_inbox (activity_id, user_id, request_id) WHERE outcome = 'RELEASED';

CREATE TABLE orders (
  order_id           text COLLATE "C" PRIMARY KEY,
  request_id         text COLLATE "C" NOT NULL,
  reservation_id     text COLLATE "C" NOT NULL CONSTRAINT uq_orders_reservation UNIQUE,
  activity_id        text COLLATE "C" NOT NULL,
  sku_id             text COLLATE "C" NOT NULL,
  user_id            text COLLATE "C" NOT NULL,
  unit               bigint NOT NULL,
  generation         integer NOT NULL,
  inventory_token_id text GENERATED ALWAYS AS (token_id(unit, generation)) STORED,
  status             text COLLATE "C" NOT NULL DEFAULT 'CREATED',
  amount             bigint NOT NULL CHECK (amount >= 0),
  currency           text NOT NULL,
  payment_id         text COLLATE "C",
  created_at         timestamptz NOT NULL DEFAULT now(),
  updated_at         timestamptz NOT NULL DEFAULT now(),
  pay_deadline       timestamptz NOT NULL,
  paid_at            timestamptz,
  canceled_at        timestamptz,
  raised             integer,                            -- the generation its cancel raised the unit to
  version            integer NOT NULL DEFAULT 0,
  CONSTRAINT uq_orders_activity_user_request UNIQUE (activity_id, user_id, request_id),
  CONSTRAINT uq_orders_activity_sku_user UNIQUE (activity_id, sku_id, user_id),
  CONSTRAINT uq_orders_token UNIQUE (unit, generation),
  CHECK ((status = 'PAID') = (paid_at IS NOT NULL)),
  CHECK ((status = 'CANCELED') = (canceled_at IS NOT NULL))
) WITH (fillfactor = 90);
-- A state that spec/order.def may get one day holds stock until somebody proves the contrary.
CREATE UNIQUE INDEX uq_orders_unit_held ON orders (unit) WHERE status <> 'CANCELED';

CREATE FUNCTION orders_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    RAISE EXCEPTION 'order %: begins as CREATED, not %', NEW.order_id, NEW.status
      USING ERRCODE = 'check_violation', CONSTRAINT = 'order_transition';
  END IF;
  IF NEW.reservation_id <> OLD.reservation_id OR NEW.order_id <> OLD.order_id OR NEW.unit <> OLD.unit OR NEW.generation <> OLD.generation
     OR NEW.activity_id <> OLD.activity_id OR NEW.sku_id <> OLD.sku_id OR NEW.user_id <> OLD.user_id OR NEW.request_id <> OLD.request_id
     OR NEW.amount <> OLD.amount OR NEW.currency <> OLD.currency THEN
    RAISE EXCEPTION 'order %: what it is about never changes', OLD.order_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'order_identity';
  END IF;
  IF NEW.status <> OLD.status
     AND NOT EXISTS (SELECT FROM order_transition WHERE from_state = OLD.status AND to_state = NEW.status) THEN
    RAISE EXCEPTION 'order %: no move leads from % to %', OLD.order_id, OLD.status, NEW.status
      USING ERRCODE = 'check_violation', CONSTRAINT = 'order_transition';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER orders_begin BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.status <> 'CREATED') EXECUTE FUNCTION orders_guard();
CREATE TRIGGER orders_move BEFORE UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION orders_guard();

-- A verdict is final once its transaction has ended: only the transaction that inserted the row may still change it.
CREATE FUNCTION consumer_inbox_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.xmin <> pg_current_xact_id()::xid THEN
    RAISE EXCEPTION 'reservation %: its verdict is final', OLD.reservation_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'consumer_inbox_final';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER consumer_inbox_final BEFORE UPDATE ON consumer_inbox FOR EACH ROW EXECUTE FUNCTION consumer_inbox_final();

CREATE FUNCTION consumer_inbox_unordered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM orders o WHERE o.reservation_id = NEW.reservation_id) THEN
    RAISE EXCEPTION 'reservation %: an order of it exists', NEW.reservation_id
      USING ERRCODE = 'check_violation', CONSTRAINT = 'consumer_inbox_unordered';
  END IF;
  RETURN NULL;
END $$;
-- AFTER: a row that meets a standing verdict is never inserted and must not be judged.
CREATE TRIGGER consumer_inbox_unordered AFTER INSERT OR UPDATE ON consumer_inbox FOR EACH ROW
  WHEN (NEW.outcome = 'RELEASED') EXECUTE FUNCTION consumer_inbox_unordered();

-- Every change of a unit's hold, in the unit's own order of generations (库存流水). The sum of delta is never above 0 for a unit.
CREATE TABLE inventory_journal (
  unit           bigint NOT NULL,
  generation     integer NOT NULL,           -- CONSUMED: the one consumed; else the one raised to
  change         text COLLATE "C" NOT NULL CHECK (change IN ('CONSUMED', 'RETURNED', 'FREED', 'RAISED')),
  delta          smallint NOT NULL CHECK (delta = CASE change WHEN 'CONSUMED' THEN -1 WHEN 'FREED' THEN 1 ELSE 0 END),
  reservation_id text COLLATE "C",
  reason         text COLLATE "C",
  happened_at    timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (unit, generation, change)
);

CREATE TABLE compensation (
  compensation_id   text COLLATE "C" PRIMARY KEY,        -- hash(reservation_id + compensation_type + schema_version), mission §10.5
  reservation_id    text COLLATE "C" NOT NULL,
  compensation_type text COLLATE "C" NOT NULL,
  schema_version    integer NOT NULL,
  unit              bigint NOT NULL,
  generation        integer NOT NULL,                    -- raised to
  status            text COLLATE "C" NOT NULL DEFAULT 'RELEASE_PENDING' CHECK (status IN ('RELEASE_PENDING', 'RELEASED')),
  created_at        timestamptz NOT NULL DEFAULT now(),
  done_at           timestamptz,
  UNIQUE (unit, generation),
  CHECK ((status = 'RELEASED') = (done_at IS NOT NULL))
);

CREATE FUNCTION compensation_name(reservation_id text, compensation_type text, schema_version integer) RETURNS text
  LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN encode(sha256(convert_to(reservation_id || ':' || compensation_type || ':' || schema_version::text, 'UTF8')), 'hex');

-- ---- queues -----------------------------------------------------------------------------------------------------------------

CREATE TABLE consumer_offset (
  consumer_group text COLLATE "C" NOT NULL,
  broker         text COLLATE "C" NOT NULL,
  topic          text COLLATE "C" NOT NULL,
  queue          integer NOT NULL,
  next           bigint NOT NULL CHECK (next >= 0),      -- first offset not yet decided
  identity       text COLLATE "C" NOT NULL DEFAULT '',   -- UNIQ_KEY of the message at next - 1
  owner          text COLLATE "C",
  leased_until   timestamptz,
  updated_at     timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (consumer_group, broker, topic, queue)
) WITH (fillfactor = 10);
CREATE TABLE consumer_member (
  consumer_group text COLLATE "C" NOT NULL,
  owner          text COLLATE "C" NOT NULL,
  seen_until     timestamptz NOT NULL,
  PRIMARY KEY (consumer_group, owner)
) WITH (fillfactor = 10);

-- ---- what others must hear ------------------------------------------------------------------------------------------------------

-- One row per destination; drained by state. What a row says is read when it is claimed: STATUS the verdict of the reservation, RETURN
-- epoch and home of the unit.
CREATE TABLE outbox (
  outbox_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  key            text COLLATE "C" NOT NULL UNIQUE,       -- (reservation) | (unit, generation) | (event, order) | (review), and the kind
  kind           text COLLATE "C" NOT NULL CHECK (kind IN ('STATUS', 'RETURN', 'EVENT', 'DEAD_LETTER')),
  version        integer NOT NULL DEFAULT 1,
  claimed_until  timestamptz,
  created_at     timestamptz NOT NULL DEFAULT now(),
  activity_id    text COLLATE "C",
  reservation_id text COLLATE "C",
  unit           bigint,
  generation     integer,
  subject        text COLLATE "C",                       -- EVENT: its name; DEAD_LETTER: the review_id
  CHECK (CASE kind WHEN 'STATUS' THEN reservation_id IS NOT NULL AND activity_id IS NOT NULL
                   WHEN 'RETURN' THEN unit IS NOT NULL AND generation IS NOT NULL AND activity_id IS NOT NULL
                   WHEN 'EVENT' THEN reservation_id IS NOT NULL AND subject IS NOT NULL
                   ELSE subject IS NOT NULL END)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- ---- money (the tables are here so that orders may be judged by them) ------------------------------------------------------------

CREATE TABLE payment_record (
  payment_id    text COLLATE "C" PRIMARY KEY,
  order_id      text COLLATE "C" NOT NULL,
  result        text COLLATE "C" NOT NULL CHECK (result IN ('SUCCESS', 'FAILED')),
  amount        bigint NOT NULL,
  currency      text NOT NULL,
  channel       text NOT NULL,
  occurred_at   timestamptz NOT NULL,
  received_at   timestamptz NOT NULL DEFAULT now(),
  disposition   text COLLATE "C" NOT NULL,               -- PAYMENT_APPLIED and its kin
  refund_status text COLLATE "C" NOT NULL DEFAULT 'NONE' CHECK (refund_status IN ('NONE', 'REQUESTED', 'DONE')),
  version       integer NOT NULL DEFAULT 0
);
CREATE INDEX payment_record_order ON payment_record (order_id);

-- ---- people ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE review (
  review_id      text COLLATE "C" PRIMARY KEY,           -- derived, so that parking twice is parking once
  kind           text COLLATE "C" NOT NULL CHECK (kind IN ('RESERVATION', 'MESSAGE', 'PAYMENT')),
  reason         text COLLATE "C" NOT NULL,
  status         text COLLATE "C" NOT NULL DEFAULT 'OPEN' CHECK (status IN ('OPEN', 'RESOLVED')),
  consumer_group text COLLATE "C",
  message_key    text,
  body           bytea NOT NULL,                         -- the message as it came
  reservation_id text COLLATE "C",
  message_id     text COLLATE "C",
  activity_id    text COLLATE "C",
  sku_id         text COLLATE "C",
  user_id        text COLLATE "C",
  request_id     text COLLATE "C",
  unit           bigint,
  generation     integer,
  epoch          smallint,
  created_at     timestamptz,
  opened_at      timestamptz NOT NULL DEFAULT now(),
  resolved_at    timestamptz,
  decision       text COLLATE "C" CHECK (decision IN ('RELEASE', 'RETRY', 'DISMISS')),
  actor          text,
  note           text,
  CHECK ((status = 'RESOLVED') = (decision IS NOT NULL AND resolved_at IS NOT NULL)),
  CHECK (kind <> 'RESERVATION' OR reservation_id IS NOT NULL)
);
CREATE INDEX review_reservation ON review (reservation_id);
CREATE INDEX review_request ON review (activity_id, user_id, request_id) WHERE status = 'OPEN';

CREATE TABLE audit_log (
  audit_id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  happened_at timestamptz NOT NULL DEFAULT now(),
  actor       text NOT NULL,
  action      text COLLATE "C" NOT NULL,
  subject     text COLLATE "C" NOT NULL,
  note        text NOT NULL,
  before      jsonb,
  after       jsonb
);
CREATE FUNCTION audit_log_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'audit_log is only ever added to' USING ERRCODE = 'check_violation', CONSTRAINT = 'audit_log_append';
END $$;
CREATE TRIGGER audit_log_append BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_guard();

-- SPDX-License-Identifier: Apache-2.0
-- What money needs beside the tables of 0001: every callback that was heard, when a refund was asked for and done, reviews of payments,
-- the order of deadlines.

-- One row per webhook-id, for ever: the same callback is told its first answer again, whatever has happened since.
CREATE TABLE payment_webhook (
  webhook_id  text COLLATE "C" PRIMARY KEY CHECK (octet_length(webhook_id) BETWEEN 1 AND 255),
  body_hash   bytea NOT NULL CHECK (octet_length(body_hash) = 32),      -- SHA-256 of the body as it came
  payment_id  text COLLATE "C" NOT NULL,
  order_id    text COLLATE "C" NOT NULL,
  result      text COLLATE "C" NOT NULL CHECK (result IN ('SUCCESS', 'FAILED')),
  amount      bigint NOT NULL,
  currency    text NOT NULL,
  verdict     text COLLATE "C" NOT NULL,
  why         text COLLATE "C",
  received_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX payment_webhook_payment ON payment_webhook (payment_id);

ALTER TABLE payment_record
  ADD COLUMN refund_asked_at timestamptz,
  ADD COLUMN refunded_at     timestamptz,
  ADD CONSTRAINT payment_record_refund CHECK (refund_status = 'NONE' OR result = 'SUCCESS'),
  ADD CONSTRAINT payment_record_id CHECK (octet_length(payment_id) BETWEEN 1 AND 64 AND octet_length(order_id) BETWEEN 1 AND 64);

CREATE FUNCTION payment_record_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'payment %: % % may not become % %, nor what it is about another', OLD.payment_id, OLD.result, OLD.refund_status, NEW.result, NEW.refund_status
    USING ERRCODE = 'check_violation', CONSTRAINT = 'payment_record_forward';
END $$;
-- A payment that succeeded has succeeded for ever; a refund goes NONE → REQUESTED → DONE, once.
CREATE TRIGGER payment_record_forward BEFORE UPDATE ON payment_record FOR EACH ROW
  WHEN (NEW.payment_id <> OLD.payment_id OR NEW.order_id <> OLD.order_id OR NEW.amount <> OLD.amount OR NEW.currency <> OLD.currency
        OR (OLD.result = 'SUCCESS' AND NEW.result <> 'SUCCESS')
        OR NOT (NEW.refund_status = OLD.refund_status OR (OLD.refund_status = 'NONE' AND NEW.refund_status = 'REQUESTED')
                OR (OLD.refund_status = 'REQUESTED' AND NEW.refund_status = 'DONE')))
  EXECUTE FUNCTION payment_record_guard();

ALTER TABLE orders ADD CONSTRAINT orders_paid_by CHECK (status <> 'PAID' OR payment_id IS NOT NULL);
-- What the sweep reads: unpaid orders by their deadline.
CREATE INDEX orders_due ON orders (pay_deadline) WHERE status = 'CREATED';

ALTER TABLE review
  ADD COLUMN payment_id  text COLLATE "C",
  ADD COLUMN order_id    text COLLATE "C",
  ADD COLUMN result      text COLLATE "C",
  ADD COLUMN amount      bigint,
  ADD COLUMN currency    text,
  ADD COLUMN channel     text,
  ADD COLUMN occurred_at timestamptz,
  ADD CONSTRAINT review_payment_named CHECK (kind <> 'PAYMENT' OR (payment_id IS NOT NULL AND order_id IS NOT NULL AND result IS NOT NULL
                                                                    AND amount IS NOT NULL AND currency IS NOT NULL));
CREATE INDEX review_payment ON review (payment_id) WHERE payment_id IS NOT NULL;
CREATE INDEX review_open ON review (opened_at) WHERE status = 'OPEN';

-- A refund on its way to whoever moves the money: one row per payment.
ALTER TABLE outbox DROP CONSTRAINT outbox_kind_check;
ALTER TABLE outbox ADD CONSTRAINT outbox_kind_check CHECK (kind IN ('STATUS', 'RETURN', 'EVENT', 'DEAD_LETTER', 'REFUND'));

-- SPDX-License-Identifier: Apache-2.0
-- Payments: a payment that failed fixes no amount; money under a reused payment_id has a record of its own; callbacks are keyed by (channel, webhook-id);
-- callbacks that cannot be understood and refunds that the channel refuses are reviews; a free order is PAID without a payment.

-- The id that the channel gave, where the record needed another name because that one was taken (payment_reuse_name in pay.sql).
ALTER TABLE payment_record
  ADD COLUMN given_id       text COLLATE "C" CHECK (octet_length(given_id) BETWEEN 1 AND 64),
  ADD COLUMN refund_tries   integer NOT NULL DEFAULT 0,      -- answers of the channel that were not DONE, since the refund was requested last
  ADD COLUMN refund_refused integer NOT NULL DEFAULT 0;      -- those of them that refused it
CREATE INDEX payment_record_given ON payment_record (given_id) WHERE given_id IS NOT NULL;

DROP TRIGGER payment_record_forward ON payment_record;
-- A payment that succeeded has succeeded for ever, for what it was; a refund goes NONE → REQUESTED → DONE, once. One that failed fixes only its order.
CREATE TRIGGER payment_record_forward BEFORE UPDATE ON payment_record FOR EACH ROW
  WHEN (NEW.payment_id <> OLD.payment_id OR NEW.given_id IS DISTINCT FROM OLD.given_id OR NEW.order_id <> OLD.order_id
        OR (OLD.result = 'SUCCESS' AND (NEW.result <> 'SUCCESS' OR NEW.amount <> OLD.amount OR NEW.currency <> OLD.currency))
        OR NOT (NEW.refund_status = OLD.refund_status OR (OLD.refund_status = 'NONE' AND NEW.refund_status = 'REQUESTED')
                OR (OLD.refund_status = 'REQUESTED' AND NEW.refund_status = 'DONE')))
  EXECUTE FUNCTION payment_record_guard();

ALTER TABLE payment_webhook ADD COLUMN channel text COLLATE "C" NOT NULL DEFAULT '';
UPDATE payment_webhook w SET channel = p.channel FROM payment_record p WHERE p.payment_id = w.payment_id;
ALTER TABLE payment_webhook DROP CONSTRAINT payment_webhook_pkey;
ALTER TABLE payment_webhook ADD PRIMARY KEY (webhook_id, channel);

ALTER TABLE orders DROP CONSTRAINT orders_paid_by;
ALTER TABLE orders ADD CONSTRAINT orders_paid_by CHECK (status <> 'PAID' OR payment_id IS NOT NULL OR amount = 0);

ALTER TABLE review DROP CONSTRAINT review_kind_check;
ALTER TABLE review ADD CONSTRAINT review_kind_check CHECK (kind IN ('RESERVATION', 'MESSAGE', 'PAYMENT', 'CALLBACK'));
ALTER TABLE review DROP CONSTRAINT review_decision_check;
ALTER TABLE review ADD CONSTRAINT review_decision_check CHECK (decision IN ('RELEASE', 'RETRY', 'DISMISS', 'APPLY', 'REFUND'));

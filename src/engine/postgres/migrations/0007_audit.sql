-- SPDX-License-Identifier: Apache-2.0
-- An audit of one activity reads the rows of that activity through an index, and never those of others.

-- Verdicts ORDERED of an activity. RELEASED ones have consumer_inbox_released; orders, units, journal and payments are found by the keys they have.
CREATE INDEX consumer_inbox_ordered ON consumer_inbox (activity_id) WHERE outcome = 'ORDERED';

-- A write that proves that this database commits: read-only servers, full disks and absent synchronous standbys show here. One of 64 rows per process.
CREATE TABLE readiness_probe (
  slot      smallint PRIMARY KEY CHECK (slot BETWEEN 0 AND 63),
  probed_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 10);

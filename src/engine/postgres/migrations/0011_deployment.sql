-- SPDX-License-Identifier: Apache-2.0
-- The identity of this deployment: made once, in exactly one row. Every store, broker and message of it carries the same (docs/protocol.md §13).
-- A copy of the database has the identity of its original: give it another one before anything runs on it.
CREATE TABLE deployment (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  identity text COLLATE "C" NOT NULL CHECK (identity ~ '^[0-9a-f]{32}$'),
  made_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO deployment (identity) VALUES (replace(gen_random_uuid()::text, '-', ''));

-- Keyed fingerprints of the keys in use, never the keys: a process with others is refused at its start.
CREATE TABLE deployment_key (
  purpose text COLLATE "C" NOT NULL,
  fingerprint text COLLATE "C" NOT NULL CHECK (fingerprint ~ '^[0-9a-f]{32}$'),
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (purpose, fingerprint)
);

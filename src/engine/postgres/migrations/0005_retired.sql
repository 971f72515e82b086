-- SPDX-License-Identifier: Apache-2.0
-- An activity that is over leaves the working set of every process: retired_at is set once, by activity_retire.

ALTER TABLE activity
  ADD COLUMN retired_at timestamptz,
  ADD CHECK (retired_at IS NULL OR state = 'CLOSED');
CREATE INDEX activity_live ON activity (number) WHERE retired_at IS NULL;

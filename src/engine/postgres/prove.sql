-- SPDX-License-Identifier: Apache-2.0
-- prove_commit: one row of readiness_probe is written, so that the commit proves what an order's commit needs: a server that may be written to, room on
-- its disk, the standbys that it waits for.
-- In: which of the 64 rows; a process keeps to one, so that processes do not wait for each other. Locks: that row.
CREATE OR REPLACE FUNCTION prove_commit(p_slot smallint) RETURNS void LANGUAGE sql VOLATILE AS $$
  SELECT require_session();
  INSERT INTO readiness_probe (slot) VALUES (p_slot) ON CONFLICT (slot) DO UPDATE SET probed_at = now()
$$;

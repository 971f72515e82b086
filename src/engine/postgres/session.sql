-- SPDX-License-Identifier: Apache-2.0
-- What a session must be before it may write, and whose database this is.

-- require_session(): raises SK001 unless this transaction is READ COMMITTED and its commit waits for disk and standby. Every function that writes
-- calls it first: place_orders and its like decide by reading what others have just committed, so another isolation gives one request two verdicts. A
-- pooler in transaction mode may hand us a session that nobody has set up.
CREATE OR REPLACE FUNCTION require_session() RETURNS void LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
    RAISE EXCEPTION 'this transaction is % with synchronous_commit %; it must be read committed with on (a pooler must be in session mode)',
      current_setting('transaction_isolation'), current_setting('synchronous_commit') USING ERRCODE = 'SK001';
  END IF;
END $$;

-- admit_keys(purposes, fingerprints): true where of each purpose at least one of these keys is in use here already, or none ever was; those not known yet
-- are recorded. Keys are changed by two keys at once, so a process of before and one of after the change share one.
CREATE OR REPLACE FUNCTION admit_keys(k_purpose text[], k_fingerprint text[]) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  PERFORM require_session();
  PERFORM FROM deployment FOR UPDATE;    -- two first processes at once
  IF EXISTS (SELECT FROM unnest(k_purpose, k_fingerprint) k(purpose, fingerprint) GROUP BY k.purpose
             HAVING EXISTS (SELECT FROM deployment_key d WHERE d.purpose = k.purpose)
                AND NOT EXISTS (SELECT FROM deployment_key d WHERE d.purpose = k.purpose AND d.fingerprint = ANY (array_agg(k.fingerprint)))) THEN
    RETURN false;
  END IF;
  INSERT INTO deployment_key (purpose, fingerprint) SELECT k.purpose, k.fingerprint FROM unnest(k_purpose, k_fingerprint) k(purpose, fingerprint)
  ON CONFLICT DO NOTHING;
  RETURN true;
END $$;

-- SPDX-License-Identifier: Apache-2.0
-- What is only ever added to cannot be emptied either: a row trigger does not see TRUNCATE.

CREATE TRIGGER audit_log_keep BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_guard();

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Any one role is killed in the middle of a rush. The supervisor starts it again and says so; everybody who heard QUEUED hears
# ORDERED or RELEASED; all units are sold; the audit finds nothing.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
stock=6000 users=12000
sale_start SECKILL_LOG_LEVEL=info

at_kill=0    # sold, as read last
under_way() { at_kill=$(sold "kill_$1"); ((at_kill > 0)); }
for role in access order relay janitor admin; do
  sale_activity "kill_$role" $stock
  before=$(role_pid "$role")
  sale rush --activity "kill_$role" --sku "sku_kill_$role" --users $users >"$live/$role.out" 2>&1 &
  rush=$!
  expect "$role: the rush is under way" soon 30 under_way "$role"
  kill -9 "$before"
  expect "$role: it is killed while units are left or undecided" test "$at_kill" -lt $stock
  if wait "$rush"; then ok "$role: everybody is told the truth in the end"; else
    not_ok "$role: the rush ends with code $?"
    sed 's/^/    /' "$live/$role.out"
  fi
  same "$role: the proof" "$(tail -n 1 "$live/$role.out")" "proof: sold=$stock oversell=0 duplicates=0 drift=0"
  expect "$role: it runs again" soon 10 role_pid "$role"
  refuse "$role: as another process" test "$(role_pid "$role")" = "$before"
  expect "$role: its death was told" grep -q "$role (process $before) was killed by signal 9" "$live/run.out"
done
expect 'the audit of all finds nothing' sale audit
expect 'it stops in good order' sale_stop

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A part that is away. The reader: RocketMQ's own admin tool sees us, our topics and our consumer group, and how much is unread meanwhile. Redis: refused at once,
# nothing is taken. PostgreSQL: QUEUED goes on and drains later. The broker: a bounded attempt, QUEUED, and the janitor brings the message when it is back.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
sale_start SECKILL_LOG_LEVEL=info
sale_activity lag 40

# Other users of this machine read nothing of a run: no key, no data, no socket.
same 'nothing in a run is open to other users' "$(find "$live/run/" ! -type d ! -type l -perm /077 | head -n 5)" ''
if ((EUID == 0)); then
  other() { setpriv --reuid=nobody --regid="$(id -g nobody)" --clear-groups -- "$@"; }
  refuse 'another user cannot list a run' other ls "$live/run"
  refuse 'another user cannot read its keys' other cat "$live/run/env"
  refuse 'another user does not reach Redis' other redis-cli -s "${SECKILL_REDIS_URL#unix:}" ping
  refuse 'another user does not reach PostgreSQL' other psql -X -Atc 'select 1' "$SECKILL_POSTGRES_URL"
fi
refuse 'a run has no development key' grep -q development-only "$live/run/env"
expect 'a run makes its own keys' test "$(grep -cE '^export SECKILL_(IDS_KEYS|IDS_USER_KEY|QUALIFICATION_KEYS|PAYMENT_WEBHOOK_KEYS)=' "$live/run/env")" = 4

topics=$(stack mqadmin topicList 2>/dev/null)
for topic in seckill-create-order seckill-order-timeout seckill-order-event seckill-dead-letter; do
  expect "the tool knows $topic" grep -qx "$topic" <<<"$topics"
done
progress() { stack mqadmin consumerProgress -g seckill-order 2>/dev/null; }
# What it said last stays in $said: each question is a Java of its own.
unread_is() { said=$(progress); [[ $(sed -n 's/.*Consume Diff Total: *\([0-9]*\).*/\1/p' <<<"$said") == "$1" ]]; }
lag_sold() { (($(sold lag) == $1)); }

for i in {1..25}; do buy lag "l$i" "l$i"; done
same 'the last of 25 is QUEUED' "$code" 202
expect 'all 25 are ordered' soon 60 lag_sold 25
expect 'nothing is unread then' soon 60 unread_is 0
expect 'the tool knows the group and what it reads' grep -q seckill-create-order <<<"$said"

role_kill order STOP
for i in {26..35}; do buy lag "l$i" "l$i"; done
expect 'with the reader stopped ten are unread' soon 30 unread_is 10
same 'and none of them is ordered' "$(sold lag)" 25
role_kill order CONT
expect 'with the reader back there are 35 orders' soon 60 lag_sold 35
expect 'and nothing is unread' soon 60 unread_is 0
expect 'the audit finds nothing' sale audit lag --patience 30

# Any local user may write to the broker: what comes from no program of ours becomes no order, and waits for an operator.
stack mqadmin sendMessage -t seckill-create-order -p '{"schema_version":1}' >/dev/null 2>&1
foreign_parked() { [[ $(stack psql -Atc "select count(*) from seckill.review where reason = 'MESSAGE_FOREIGN'") == 1 ]]; }
expect 'a message that names no deployment is parked' soon 30 foreign_parked
same 'no order comes of it' "$(sold lag)" 35

# A Redis of another deployment is refused, and taken again when it is ours.
identity=$(stack psql -Atc 'select identity from seckill.deployment')
same 'Redis bears the identity of the deployment' "$(stack redis-cli get seckill:deployment)" "$identity"
stack redis-cli set seckill:deployment ffffffffffffffffffffffffffffffff >/dev/null
stack redis-cli client kill type normal skipme yes >/dev/null
refused() { buy lag uf rf; [[ $code == 503 ]]; }
expect 'a Redis of another deployment is refused' soon 15 refused
same 'and nothing was written there' "$(stack redis-cli get seckill:deployment)" ffffffffffffffffffffffffffffffff
stack redis-cli set seckill:deployment "$identity" >/dev/null
taken() { buy lag uf rf; [[ $code == 20? ]]; }
expect 'ours is used again' soon 30 taken

# A process with other keys would make ids that the others take for forged ones.
refuse 'a process with other ids.keys does not start' env SECKILL_IDS_KEYS=another-key-of-16-bytes SECKILL_HTTP_LISTEN=127.0.0.1:0 \
  timeout 20 "$seckill" serve --roles access 2>"$live/said"
expect 'and says why' grep -q 'ids.keys or ids.user_key are not those' "$live/said"

sale_activity down 30
within() { (($(now_ms) - $2 <= $1)); }

buy down u0 r0
same 'all well: 202' "$code" 202
expect 'and ORDERED' verdict u0 "$(field reservation_id)"

stack down redis
began=$(now_ms)
buy down u1 r1
expect 'without Redis the answer comes at once' within 1500 "$began"
same 'it is 503' "$code" 503
same 'DEPENDENCY_DOWN' "$(field code)" DEPENDENCY_DOWN
same 'to be tried again' "$(field retryable)" true
stack up redis 2>/dev/null
# UNCERTAIN until the bucket, which may have forgotten, is healed and open again.
again() { buy down u1 r1; [[ $(field code) == QUEUED || $(field code) == ORDERED ]]; }
expect 'with Redis back the same request is taken' soon 15 again
expect 'and ordered' verdict u1 "$(field reservation_id)"
same 'once' "$(stack psql -Atc "select count(*) from seckill.orders where user_id = 'u1'")" 1

stack down postgres
buy down u2 r2
same 'without PostgreSQL: 202' "$code" 202
for i in {1..5}; do buy down "p$i" "p$i"; done
same 'and for others' "$code" 202
body=$(api "/v1/requests/r2?activity_id=down&user_id=u2") || true
refuse 'nobody is told that it is decided' grep -qE '"status":"(ORDERED|RELEASED)"' <<<"$body"
stack up postgres 2>/dev/null
# So soon after a Redis that came back, an answer that no ledger confirms is UNCERTAIN and names no reservation: asked again, it does.
named() { buy down "$1" "$2"; [[ -n $(field reservation_id) ]]; }
expect 'with PostgreSQL back the same request has its reservation' soon 30 named u2 r2
expect 'and it is ordered' verdict u2 "$(field reservation_id)" 60
all_sold() { (($(sold down) == $1)); }
expect 'and the others, too' soon 30 all_sold 8

stack kill broker
began=$(now_ms)
buy down u3 r3
expect 'without the broker the answer still comes' within 2500 "$began"
same 'it is 202' "$code" 202
expect 'it names a reservation, at once or asked again' soon 30 named u3 r3
third=$(field reservation_id)
soon 30 named u3 r3 || true
same 'the same request is the same reservation' "$(field reservation_id)" "$third"
printed() { grep -q "$1" "$live/run.out"; }
status_good() { "$root/tools/run" status >/dev/null 2>&1; }
expect 'who watches reads that it has ended, and how to go on' soon 10 printed 'broker has ended.*tools/stack up'
refuse 'and the status is not good' status_good
stack up broker 2>/dev/null
expect 'and that it is there again' soon 10 printed 'broker is there again'
expect 'and the status is' status_good
expect 'with the broker back the janitor brings it' verdict u3 "$third" 90
same 'as an order' "$(field status)" ORDERED
expect 'and new ones go as before' soon 30 named u4 r4    # QUEUED, or ORDERED already
expect 'to an order' verdict u4 "$(field reservation_id)"
same 'ten orders in all' "$(sold down)" 10
expect 'the audit finds nothing' sale audit down --patience 30
expect 'it stops in good order' sale_stop
refuse 'the shell says nothing of processes that it ended' grep -qE 'Killed|watch_servers' "$live/run.out"

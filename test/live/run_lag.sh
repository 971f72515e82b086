#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RocketMQ's own admin tool sees us: our topics, our consumer group, and how much is unread, while nobody reads and afterwards.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
sale_start SECKILL_PROCESSES='access relay janitor admin'
sale_activity lag 40

topics=$(stack mqadmin topicList 2>/dev/null)
for topic in seckill-create-order seckill-order-timeout seckill-order-event seckill-dead-letter; do
  expect "the tool knows $topic" grep -qx "$topic" <<<"$topics"
done
progress() { stack mqadmin consumerProgress -g seckill-order 2>/dev/null; }
unread() { progress | sed -n 's/.*Consume Diff Total: *\([0-9]*\).*/\1/p'; }
unread_is() { [[ $(unread) == "$1" ]]; }

for i in {1..25}; do buy lag "u$i" "r$i"; done
same 'the last of 25 is QUEUED' "$code" 202
# The group has no offset where nothing was ever read, so one life of the reader comes first.
expect 'it stops in good order' sale_stop
sale_start SECKILL_LOG_LEVEL=info
lag_sold() { (($(sold lag) == $1)); }
expect 'a reader brings 25 orders' soon 60 lag_sold 25
expect 'nothing is unread then' soon 60 unread_is 0
expect 'the tool knows the group' grep -q seckill-create-order <(progress)
sale_stop
sale_start SECKILL_PROCESSES='access relay janitor admin'
for i in {26..35}; do buy lag "u$i" "r$i"; done
expect 'with the reader away ten are unread' soon 30 unread_is 10
sale_stop
sale_start SECKILL_LOG_LEVEL=info
expect 'with the reader back there are 35 orders' soon 60 lag_sold 35
expect 'and nothing is unread' soon 60 unread_is 0
expect 'the audit finds nothing' sale audit lag --patience 30

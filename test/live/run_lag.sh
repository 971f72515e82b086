#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# RocketMQ's own admin tool sees us: our topics, our consumer group, and how much is unread, while nobody reads and afterwards.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
sale_start SECKILL_LOG_LEVEL=info
sale_activity lag 40

topics=$(stack mqadmin topicList 2>/dev/null)
for topic in seckill-create-order seckill-order-timeout seckill-order-event seckill-dead-letter; do
  expect "the tool knows $topic" grep -qx "$topic" <<<"$topics"
done
progress() { stack mqadmin consumerProgress -g seckill-order 2>/dev/null; }
# What it said last stays in $said: each question is a Java of its own.
unread_is() { said=$(progress); [[ $(sed -n 's/.*Consume Diff Total: *\([0-9]*\).*/\1/p' <<<"$said") == "$1" ]]; }
lag_sold() { (($(sold lag) == $1)); }

for i in {1..25}; do buy lag "u$i" "r$i"; done
same 'the last of 25 is QUEUED' "$code" 202
expect 'all 25 are ordered' soon 60 lag_sold 25
expect 'nothing is unread then' soon 60 unread_is 0
expect 'the tool knows the group and what it reads' grep -q seckill-create-order <<<"$said"

role_kill order STOP
for i in {26..35}; do buy lag "u$i" "r$i"; done
expect 'with the reader stopped ten are unread' soon 30 unread_is 10
same 'and none of them is ordered' "$(sold lag)" 25
role_kill order CONT
expect 'with the reader back there are 35 orders' soon 60 lag_sold 35
expect 'and nothing is unread' soon 60 unread_is 0
expect 'the audit finds nothing' sale audit lag --patience 30
expect 'it stops in good order' sale_stop

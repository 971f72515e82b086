#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A port that somebody holds is left to him: the next block of free ones is taken. Two stacks that come up at once share none.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
live_dir

# A stranger on the port above the broker's usual one, where replicas would connect: the whole block must move.
port_pick 10911 -2 1
block=$picked_port
python3 -c 'import socket, sys, time
s = socket.socket(); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); time.sleep(600)' $((block + 1)) &
stranger=$!
at_end_kill "$stranger"
expect 'the stranger listens' soon 5 port_taken $((block + 1))

for name in a b; do
  stack_in "$live/$name"
  "$root/tools/stack" up "$live/$name" rocketmq >"$live/$name.out" 2>&1 &
  eval "job_$name=$!"
done
# shellcheck disable=SC2154  # set by the loop
{ expect 'the first stack is up' wait "$job_a"; expect 'the second stack is up' wait "$job_b"; }
sed 's/^/    /' "$live"/?.out

ports() {
  local broker
  broker=$(<"$live/$1/run/broker.port")
  printf '%s\n' $((broker - 2)) "$broker" $((broker + 1)) "$(<"$live/$1/run/namesrv.port")"
}
same 'eight ports, none twice' "$( { ports a; ports b; } | sort -u | wc -l)" 8
refuse 'none of them is the stranger'"'"'s' grep -qx $((block + 1)) <(ports a; ports b)
expect 'the stranger still listens' kill -0 "$stranger"
expect 'its port is still taken' port_taken $((block + 1))

# The same ports the next time, so that what was told to clients stays true.
before=$(ports a)
"$root/tools/stack" kill "$live/a"
expect 'the first stack comes up again' "$root/tools/stack" up "$live/a" rocketmq
same 'on the ports it had' "$(ports a)" "$before"
"$root/tools/stack" kill "$live/a" namesrv
expect 'the name server alone comes up again' "$root/tools/stack" up "$live/a" namesrv
same 'where its broker looks for it' "$(ports a)" "$before"
# A question of ours: RocketMQ's own tool takes seconds of two processors for it, and it is asked many times.
is_known() {
  PYTHONPATH=$root/test/live PYTHONDONTWRITEBYTECODE=1 python3 -c 'import sys, broker; print(broker.Broker(int(sys.argv[1])).cluster())' "$(<"$live/a/run/namesrv.port")" |
    grep -q "127.0.0.1:$(<"$live/a/run/broker.port")"
}
expect 'the broker is known to its own name server' soon 60 is_known

# The sale in memory moves to free ports as well, unless an address was chosen.
python3 -c 'import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 8480)); s.listen(); time.sleep(600)' 2>/dev/null &
at_end_kill $!
expect 'the usual port is taken' soon 10 port_taken 8480
"$seckill" demo >"$live/demo.out" 2>&1 &
demo=$!
at_end_kill "$demo"
demo_url() { sed -n 's/^ *public *\(http:[^ ]*\).*/\1/p' "$live/demo.out"; }
demo_sells() { curl -fsS -m 2 -o /dev/null "$(demo_url)/v1/activities/act_demo"; }
expect 'the demo sells all the same' soon 20 demo_sells
refuse 'not at the usual port' grep -q ':8480 ' "$live/demo.out"
kill -TERM "$demo"
expect 'it drains' wait "$demo"
# Demos that start at once look for free ports at the same moment, and one may bind what another has chosen: each of them sells.
demos=()
for name in 1 2 3 4 5 6 7 8; do
  "$seckill" demo >"$live/demo$name.out" 2>&1 &
  demos+=($!)
  at_end_kill $!
done
all_demos_sell() {
  local name url
  for name in 1 2 3 4 5 6 7 8; do
    url=$(sed -n 's/^ *public *\(http:[^ ]*\).*/\1/p' "$live/demo$name.out")
    [[ -n $url ]] && curl -fsS -m 2 -o /dev/null "$url/v1/activities/act_demo" || return 1
  done
}
expect 'eight demos that start at once all sell' soon 20 all_demos_sell
kill -TERM "${demos[@]}"
refuse 'an address that was chosen is kept: it is refused' "$seckill" demo --http-listen 127.0.0.1:8480 >"$live/demo.out" 2>&1
expect 'with the address and the reason' grep -q '127.0.0.1:8480.*in use' "$live/demo.out"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The supervisor starts again what dies and says of what; drains on a first word and kills on a second; its children drain when it
# is killed itself.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
live_dir
mkdir "$live/state" "$live/logs"

cat >"$live/patient.sh" <<'S'
#!/bin/sh
trap 'echo draining; sleep 0.3; echo drained; exit 0' TERM
echo born
while :; do sleep 0.05; done
S
cat >"$live/stubborn.sh" <<'S'
#!/bin/sh
trap 'echo no' TERM
echo deaf
while :; do sleep 0.05; done
S
chmod 755 "$live"/*.sh
begin() {
  "$seckill" supervise --state "$live/state" --logs "$live/logs" "$@" "$live/file" 2>"$live/said" &
  supervisor=$!
  at_end_kill "$supervisor"
}
child() { pid_of "$live/state/$1.pid"; }
alive() { soon 5 child "$1" && child "$1"; }    # a child may speak before its pid file is there
starts() { grep -c born "$live/logs/$1.log"; }
born_again() { (($(starts patient) >= $1)); }
told() { grep -q -- "$1" "$live/said"; }

printf '# two processes\npatient  %q\nfailing  echo "cannot find it" >&2; sleep 0.2; exit 4\n' "$live/patient.sh" >"$live/file"
sed -i 's/^failing  \(.*\)/failing  sh -c '"'"'\1'"'"'/' "$live/file"
begin
expect 'a process is started' soon 5 born_again 1
first=$(alive patient)
kill -9 "$first"
expect 'killed, it is started again' soon 5 born_again 2
refuse 'as another process' test "$(child patient)" = "$first"
expect 'the death is told' soon 2 told "patient (process $first) was killed by signal 9 .*; started again in 0.1 s"
expect 'what fails is told with its code' soon 2 told 'failing (process .*) ended with code 4 (a part it needs does not answer)'
expect 'and with its last words' told '    cannot find it'
expect 'it is tried more and more slowly' soon 5 told 'started again in 0.8 s'
expect 'a log keeps what was told' grep -q 'was killed by signal 9' "$live/logs/supervisor.log"
kill -TERM "$supervisor"
expect 'asked to stop, it ends well' wait "$supervisor"
expect 'when its processes have drained' grep -q drained "$live/logs/patient.log"
expect 'no pid file is left' test -z "$(ls "$live/state")"

printf 'stubborn %q\n' "$live/stubborn.sh" >"$live/file"
begin --grace 600
expect 'a stubborn process is started' soon 5 grep -q deaf "$live/logs/stubborn.log"
stubborn=$(alive stubborn)
kill -TERM "$supervisor"
expect 'it does not go at the first word' soon 5 grep -q no "$live/logs/stubborn.log"
expect 'nor is it killed for that' kill -0 "$stubborn"
kill -TERM "$supervisor"
expect 'at the second word all end' wait "$supervisor"
refuse 'the stubborn one, too' birth_of "$stubborn"

printf 'patient  %q\n' "$live/patient.sh" >"$live/file"
: >"$live/logs/patient.log"
begin
expect 'a process is started once more' soon 5 born_again 1
orphan=$(alive patient)
kill -9 "$supervisor"
{ wait "$supervisor" || true; } 2>/dev/null
gone() { ! birth_of "$orphan"; }
expect 'its supervisor killed, it goes by itself' soon 5 gone
expect 'having drained' grep -q drained "$live/logs/patient.log"

# To the brim: 64 processes, and no line more; what fails at once is started again 0.1, 0.2, 0.4 ... 5 s later, and never more slowly.
: >"$live/file"
for i in {1..63}; do printf 'p%d sleep 60\n' "$i" >>"$live/file"; done
printf 'failing false\n' >>"$live/file"
rm -f "$live"/state/*
begin
running() { (($(find "$live/state" -name 'p*.pid' | wc -l) == 63)); }
expect '64 processes are started' soon 20 running
expect 'what fails at once is tried every 5 s in the end' soon 30 told 'failing .*started again in 5.0 s'
refuse 'and never more seldom' grep -Eq 'again in (5\.[1-9]|[6-9]|[0-9]{2,})' "$live/said"
kill -TERM "$supervisor"
expect 'they end together' wait "$supervisor"
echo 'one_more sleep 60' >>"$live/file"
refuse 'a table of 65 is refused' "$seckill" supervise --state "$live/state" --logs "$live/logs" "$live/file" 2>"$live/said"
expect 'and it says why' told '64 lines at most'

printf 'patient  true\npatient  true\n' >"$live/file"
refuse 'one name twice is refused' "$seckill" supervise --state "$live/state" --logs "$live/logs" "$live/file"
printf 'alone\n' >"$live/file"
refuse 'so is a name without a command' "$seckill" supervise --state "$live/state" --logs "$live/logs" "$live/file"

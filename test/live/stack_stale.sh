#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A pid file that a crash has left names nobody, or somebody else by now: he is never signalled. What was acknowledged is still there.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
live_dir
mine() { "$root/tools/stack" "$1" "$live/s" "${@:2}"; }
stack_in "$live/s"

expect 'Redis and PostgreSQL come up' mine up redis postgres
same 'Redis takes a key' "$(mine redis-cli set kept yes)" OK
expect 'PostgreSQL takes a row' mine psql -qc 'create table kept as select 1 as one'
same 'no port for PostgreSQL' "$(mine psql -Atc 'show listen_addresses')" ''
same 'every commit is on disk' "$(mine psql -Atc "select string_agg(setting, ' ') from pg_settings where name in ('fsync', 'synchronous_commit')")" 'on on'
same 'so is every write of Redis' "$(mine redis-cli config get appendfsync | tail -1)" always
same 'Redis never drops a key to make room' "$(mine redis-cli config get maxmemory-policy | tail -1)" noeviction

mine kill
expect 'nothing runs after a kill' test -z "$(mine status | grep ' up ')"
# The number in Redis's pid file now belongs to a stranger, of another birth.
sleep 600 &
stranger=$!
at_end_kill "$stranger"
printf '%s 1 /usr/bin/redis-server\n' "$stranger" >"$live/s/run/redis.pid"
expect 'status says the process is not ours' grep -q 'redis *died' <(mine status)
mine down
expect 'down leaves the stranger alone' kill -0 "$stranger"
printf '%s %s /usr/bin/redis-server\n' "$stranger" "$(birth_of "$stranger")" >"$live/s/run/redis.pid"
mine down
mine kill
expect 'so do down and kill where only the program differs' kill -0 "$stranger"

expect 'both come up after the kill' mine up redis postgres
same 'the key is there' "$(mine redis-cli get kept)" yes
same 'the row is there' "$(mine psql -Atc 'select one from kept')" 1
expect 'up again changes nothing' mine up redis postgres
expect 'down stops them' mine down
expect 'down again is harmless' mine down

mkdir "$live/foreign"
echo precious >"$live/foreign/file"
refuse 'a directory with foreign files is not used' "$root/tools/stack" up "$live/foreign" redis
refuse 'nor reset' "$root/tools/stack" reset "$live/foreign"
same 'its file is whole' "$(cat "$live/foreign/file")" precious
mine reset
expect 'reset leaves nothing' test ! -e "$live/s"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Places that PostgreSQL and unix sockets do not like: a path longer than a socket's name may be, a parent that only root may enter,
# names with blanks, a disk too full.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
live_dir

deep="$live/closed/a name with blanks/$(printf 'x%.0s' {1..100})"
mkdir -p "$live/closed"
chmod 700 "$live/closed"
stack_in "$deep"
expect 'up in a long path below a closed directory' "$root/tools/stack" up "$deep" redis postgres
eval "$("$root/tools/stack" env "$deep")"
socket=${SECKILL_REDIS_URL#unix:}
expect 'the socket has a short name' test "${#socket}" -le 107
same 'Redis answers at the address told' "$(redis-cli -s "$socket" ping)" PONG
same 'PostgreSQL answers at the address told' "$(psql -X -Atc 'select current_database()' "$SECKILL_POSTGRES_URL")" seckill
same 'only its owner enters the directory of the sockets' "$(stat -c %a "${socket%/*}")" 700
data=$(readlink -f "$deep/postgres") sockets=${socket%/*}
expect 'up again finds its data' "$root/tools/stack" up "$deep" redis postgres
"$root/tools/stack" reset "$deep"
expect 'reset leaves nothing, wherever it was' test ! -e "$deep" -a ! -e "$data" -a ! -e "$sockets"

# A Java in the locale C cannot open a path with letters beyond ASCII, unless it is told another one.
other=$live/büro
stack_in "$other"
expect 'the name server is up in a path with other letters, in the locale C' env LC_ALL=C "$root/tools/stack" up "$other" namesrv
expect 'it logs below that path' test -e "$other/log/namesrv.log"
"$root/tools/stack" reset "$other"
head -c 17000000 /dev/zero >"$live/grown.log"
log_rotate "$live/grown.log"
expect 'a log that has grown is put aside' test -e "$live/grown.log.1" -a ! -e "$live/grown.log"
echo short >"$live/grown.log"
log_rotate "$live/grown.log"
expect 'a short one stays' test -e "$live/grown.log"

# df tells of a disk that is nearly full: 95 %, and then 300 MB.
mkdir "$live/bin"
full() { printf '#!/bin/sh\necho head\necho "/dev/x 1000000 %s %s 1%% /"\n' "$1" "$2" >"$live/bin/df"; chmod 755 "$live/bin/df"; }
full 95000000 5000000
refuse 'a disk 95 % full is refused' env PATH="$live/bin:$PATH" "$root/tools/stack" up "$live/full" redis 2>"$live/said"
expect 'with the number' grep -q '95 % used' "$live/said"
full 100000 307200
refuse 'so are 300 MB' env PATH="$live/bin:$PATH" "$root/tools/stack" up "$live/full" redis 2>"$live/said"
expect 'with the number, too' grep -q '300 MB free' "$live/said"
expect 'and nothing was started' test ! -e "$live/full/run/redis.pid"

# A second run in the same directory is refused before it touches anything.
mkdir -p "$live/run"
echo 'mine' >"$live/run/.seckill"
exec 7>"$live/run/lock"
flock 7
refuse 'a second run is refused' env SECKILL_RUN="$live/run" "$root/tools/run" 2>"$live/said" 7>&-
expect 'and told why' grep -q 'under way here already' "$live/said"
exec 7>&-

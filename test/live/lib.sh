# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# shellcheck disable=SC2119  # functions with optional arguments
# lib.sh: what the live tests share. Sourced first by each; such a test is a shell script that says `ok - what` or `not ok - what`
# for everything it has looked at, and leaves nothing behind.
#
#   live_dir                  a fresh directory, gone at the end with all that runs in it; its path is in $live
#   expect WHAT COMMAND...    ok if the command succeeds
#   refuse WHAT COMMAND...    ok if it fails
#   keep_logs DIR             for whoever asks afterwards why
#   same WHAT GOT WANTED      ok if both are the same text
#   at_end COMMAND...         done when the script leaves; at_end_kill PID
#   soon SECONDS COMMAND...   as await
#
#   sale_start [NAME=VALUE...]   `make run` in $live/run on free ports, until it is open; its settings and addresses are exported
#   sale_stop                    as Ctrl-C would
#   sale VERB ARG...             the binary, against it
#   stack VERB ARG...            tools/stack on its directory: stack down redis, stack kill broker, stack psql -Atc '...'
#   role_pid NAME                the process of a role; role_kill NAME [SIGNAL]
#   sale_activity ID STOCK [SKU]       an open activity with SKU sku_ID, and one unit of another
#   buy ACTIVITY USER REQUEST [SKU]    POST /v1/reservations; the body is in $body, the HTTP status in $code
#   field NAME                         a member of $body
#   verdict USER RESERVATION [SECONDS] waits for it; the reservation is in $body
#   sold ACTIVITY                      how many orders PostgreSQL holds
#   api PATH [CURL ARG...]       asks the public listener, api_admin the other; prints the body, ends with curl's code
#
# SECKILL_BUILD is where the binary was built (build, where not set).
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tools/lib.sh
. "$root/tools/lib.sh"
build=${SECKILL_BUILD:-$root/build}
seckill=$build/seckill
failures=0 live='' sale_pid='' cleaners=()

ok() { printf 'ok - %s\n' "$*"; }
not_ok() { printf 'not ok - %s\n' "$*"; failures=$((failures + 1)); }
expect() {
  local what=$1
  shift
  if "$@"; then ok "$what"; else not_ok "$what"; fi
}
refuse() {
  local what=$1
  shift
  if "$@"; then not_ok "$what"; else ok "$what"; fi
}
same() { if [[ $2 == "$3" ]]; then ok "$1"; else not_ok "$1: got \"$2\", wanted \"$3\""; fi; }
soon() { await $(($1 * ${SECKILL_TEST_PATIENCE:-1})) "${@:2}"; }

# at_end COMMAND...: done when the script leaves, the last first.
at_end() { cleaners+=("$(printf '%q ' "$@")"); }
at_end_kill() { at_end eval "kill -9 $1 2>/dev/null"; }
live_end() {
  local code=$? i
  trap - EXIT
  set +e
  [[ $code == 0 ]] || printf 'not ok - the script ended early (code %d)\n' "$code"
  if [[ -n $sale_pid ]]; then sale_stop; fi
  for ((i = ${#cleaners[@]} - 1; i >= 0; i--)); do eval "${cleaners[i]}"; done
  ((code)) || ((failures == 0)) || code=1
  exit "$code"
}
trap live_end EXIT
trap 'exit 143' TERM INT HUP

# built FILE...: ends the script where what it wants to run was not built.
built() {
  local name
  for name; do
    [[ -x $build/$name ]] || die "there is no $build/$name: tools/build $build --buildtype=release -Dtests=true makes it; SECKILL_BUILD says where one lies"
  done
}
live_dir() {
  live=$(mktemp -d /tmp/seckill-live.XXXXXX)
  chmod 711 "$live"
  at_end rm -rf "$live"
}
# stack_in DIR: remembers to take it down, data and all.
stack_in() {
  at_end "$root/tools/stack" reset "$1"
  at_end keep_logs "$1/log"
}
# keep_logs DIR: what servers and roles have said goes where whoever runs the tests wants it (SECKILL_TEST_KEEP); there it is thrown away where all went well.
keep_logs() {
  [[ -z ${SECKILL_TEST_KEEP:-} || ! -d $1 ]] || cp -r "$1" "$SECKILL_TEST_KEEP/$(basename "$(dirname "$1")")"
}

# --- a whole sale

sale_start() {
  [[ -n $live ]] || live_dir
  local first=no
  [[ -d $live/run ]] || first=yes
  export SECKILL_RUN=$live/run SECKILL_BIN=$seckill
  if [[ $first == yes ]]; then at_end sale_reset; fi
  env "$@" setsid "$root/tools/run" </dev/null >"$live/run.out" 2>&1 &
  sale_pid=$!
  soon 120 sale_came_up || true
  [[ -s $live/run/env ]] || { sed 's/^/    /' "$live/run.out"; not_ok 'the sale opens'; exit 1; }
  # shellcheck source=/dev/null
  . "$live/run/env"
}
sale_came_up() { [[ -s $live/run/env ]] || ! kill -0 "$sale_pid" 2>/dev/null; }    # or will not
sale_stop() {
  kill -TERM "$sale_pid" 2>/dev/null
  wait "$sale_pid"
  sale_code=$?
  sale_pid=
  return "$sale_code"
}
sale_reset() {
  keep_logs "$live/run/log"
  SECKILL_RUN=$live/run "$root/tools/run" reset
}
sale() { "$seckill" "$@"; }
stack() {
  local verb=$1
  shift
  "$root/tools/stack" "$verb" "$live/run" "$@"
}
role_pid() { pid_of "$live/run/supervisor/$1.pid"; }
role_kill() { kill "-${2:-KILL}" "$(role_pid "$1")"; }
api() { curl -sS -m 30 "$SECKILL_HTTP_URL$1" "${@:2}"; }
api_admin() { curl -sS -m 30 "$SECKILL_ADMIN_URL$1" "${@:2}"; }
# api_code PATH [CURL ARG...]: the HTTP status alone.
api_code() { curl -sS -m 30 -o /dev/null -w '%{http_code}' "$SECKILL_HTTP_URL$1" "${@:2}"; }

sale_activity() {
  local skus="{\"sku_id\":\"sku_$1\",\"stock\":$2,\"price\":100,\"currency\":\"CNY\"}"
  [[ -z ${3:-} ]] || skus+=",{\"sku_id\":\"$3\",\"stock\":1,\"price\":100,\"currency\":\"CNY\"}"
  printf '{"activity_id":"%s","starts_at":"2020-01-01T00:00:00Z","ends_at":"2099-01-01T00:00:00Z","skus":[%s]}' "$1" "$skus" |
    sale activity create --file - >/dev/null
  sale activity warm "$1" >/dev/null
  sale activity open "$1" >/dev/null
  soon 15 sale_known "$1" || { not_ok "the public API knows $1"; exit 1; }
}
# Every access process learns of an activity in its own time; fresh connections meet different ones.
sale_known() {
  local i
  for i in {1..20}; do [[ $(api_code "/v1/activities/$1") == 200 ]] || return 1; done
}
body='' code=''
buy() {
  local answer
  answer=$(curl -sS -m 30 -w '\n%{http_code}' -H 'Content-Type: application/json' "$SECKILL_HTTP_URL/v1/reservations" \
    -d "{\"activity_id\":\"$1\",\"sku_id\":\"${4:-sku_$1}\",\"request_id\":\"$3\",\"user_id\":\"$2\"}") || answer=$'\n000'
  body=${answer%$'\n'*} code=${answer##*$'\n'}
}
# A member of the answer in $body: a text without its quotes, anything else as it stands, nothing where there is none.
field() {
  local member="\"$1\":(\"([^\"]*)\"|[^,}]*)"
  [[ ! $body =~ $member ]] || echo "${BASH_REMATCH[2]:-${BASH_REMATCH[1]//\"/}}"
}
# Waits for the verdict of a reservation; its status goes into $body.
verdict() {
  local end=$(($(now_ms) + ${3:-30} * 1000))
  while (($(now_ms) < end)); do
    body=$(api "/v1/reservations/$2?user_id=$1&wait=2s" 2>/dev/null) || body=
    case $(field status) in ORDERED | RELEASED) return 0 ;; esac
    sleep 0.1
  done
  return 1
}
sold() { stack psql -Atc "select count(*) from seckill.orders where activity_id = '$1'"; }

# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034,SC2154  # it sets what others read, and reads what others set
# target.sh: an adapter for a comparing script, which measures several services one after the other on one Redis, PostgreSQL and RocketMQ.
#
# The script sets BENCH_DIR (a directory), BENCH_REDIS, BENCH_PG, BENCH_NAMESRV (addresses), LOAD_ACTIVITY, LOAD_SKU, sources this file, and has
# functions of its own: spawn NAME COMMAND... (a process in the background), stop_spawned, await_port PORT, sql ARG... (psql), die WORDS. It empties
# the stores between two measurements, except for our topic. In return this file says where we answer, what can be measured, which statement
# tells all orders, and how to build, fill, start and end us. It builds with -O3, as a release is built.
#
# BENCH_THREADS  event loops of the access role (1)
# BENCH_BUILD    a build directory that is there already (then nothing is built)
TARGET_PORT=18083
TARGET_MEASURES="soldout reserve orders rush"
TARGET_OUTBOX="SELECT count(*) FROM seckill.outbox"
TARGET_ORDERS="SELECT o.activity_id, o.sku_id, o.user_id, o.inventory_token_id, o.reservation_id, x.created_at AS reserved_at, o.created_at,
                      pg_xact_commit_timestamp(o.xmin) AS committed_at
               FROM seckill.orders o JOIN seckill.consumer_inbox x USING (reservation_id)"

ours=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
ours_build=${BENCH_BUILD:-$BENCH_DIR/seckill}
ours_admin=127.0.0.1:18084 ours_health=127.0.0.1:18085
export SECKILL_REDIS_URL=redis://$BENCH_REDIS SECKILL_POSTGRES_URL=$BENCH_PG SECKILL_ROCKETMQ_NAMESRV=$BENCH_NAMESRV
export SECKILL_HTTP_LISTEN=127.0.0.1:$TARGET_PORT SECKILL_ADMIN_LISTEN=$ours_admin SECKILL_ADMIN_URL=http://$ours_admin
export SECKILL_ACCESS_THREADS=${BENCH_THREADS:-1}

target_build() {
  [[ -z ${BENCH_BUILD:-} ]] || return 0
  "$ours/tools/build" "$ours_build" --buildtype=release -Dtests=false || die 'the build failed'
}

ours_topic_empty() {
  local lib pid out=$BENCH_DIR/log/seckill-topic.log
  lib=$("$ours/tools/jars")
  (exec java -Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Duser.home="$BENCH_DIR/run" -cp "$lib/*" org.apache.rocketmq.tools.command.MQAdminStartup \
    deleteTopic -n "$BENCH_NAMESRV" -c DefaultCluster -t seckill-create-order) </dev/null >"$out" 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null && ! grep -q 'from NameServer success' "$out"; do sleep 0.05; done
  kill -9 $pid 2>/dev/null || true    # its work is done; it would linger for seconds
  wait $pid 2>/dev/null || true
}

# An activity has its SKUs from the beginning, so the first call makes all that may be asked for; the later ones find theirs.
target_init() { # ACTIVITY SKU TOKENS
  local skus sku pid
  if [[ $(sql -c "SELECT to_regclass('seckill.activity') IS NOT NULL") == t ]] && [[ $(sql -c 'SELECT count(*) FROM seckill.activity') != 0 ]]; then
    return 0
  fi
  ours_topic_empty
  "$ours_build/seckill" migrate >>"$BENCH_DIR/log/seckill-migrate.log" 2>&1 || die 'migrate failed'
  skus="{\"sku_id\":\"$2\",\"stock\":$3,\"price\":100,\"currency\":\"CNY\"}"
  for sku in sku_warm:500 sku_other:3; do
    skus+=",{\"sku_id\":\"${sku%:*}\",\"stock\":${sku#*:},\"price\":100,\"currency\":\"CNY\"}"
  done
  "$ours_build/seckill" serve --roles admin </dev/null >>"$BENCH_DIR/log/seckill-admin.log" 2>&1 &
  pid=$!
  await_port "${ours_admin##*:}"
  {
    printf '{"activity_id":"%s","starts_at":"2020-01-01T00:00:00Z","ends_at":"2099-01-01T00:00:00Z","skus":[%s]}' "$1" "$skus" |
      "$ours_build/seckill" activity create --file - &&
      "$ours_build/seckill" activity warm "$1" && "$ours_build/seckill" activity open "$1"
  } >>"$BENCH_DIR/log/seckill-admin.log" 2>&1 || { kill $pid; die 'the activity could not be made'; }
  kill $pid
  wait $pid || true
}

target_start() {
  case $1 in
    access)
      SECKILL_HEALTH_LISTEN=$ours_health spawn seckill-access "$ours_build/seckill" serve --roles access
      await_port $TARGET_PORT
      for _ in {1..100}; do
        ! curl -fs -o /dev/null "http://127.0.0.1:$TARGET_PORT/v1/activities/$LOAD_ACTIVITY" || return 0
        sleep 0.05
      done
      die 'the public API does not know the activity'
      ;;
    order) spawn seckill-order "$ours_build/seckill" serve --roles order,relay,janitor ;;
  esac
}
target_stop() { stop_spawned; }

target_reserved() {
  redis-cli -p "${BENCH_REDIS##*:}" --raw eval 'local n, c = 0, "0"
    repeat local r = redis.call("SCAN", c, "MATCH", "sk:*:users", "COUNT", 1000); c = r[1]
      for _, key in ipairs(r[2]) do n = n + redis.call("HLEN", key) - 1 end until c == "0"
    return n' 0
}
# Every message has been confirmed once as many are as there are reservations.
target_settled() {
  local confirmed
  confirmed=$(curl -fs "http://$ours_health/metrics" | sed -n 's/^seckill_published_total{code="OK"} //p')
  ((${confirmed:-0} >= $(target_reserved)))
}

#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# words.sh SECKILL: what the program says and leaves behind when it is called wrong, and one whole sale in memory.
set -u
seckill=$1 bad=0
expect() {    # expect CODE PATTERN WORD...: the exit code, and a line that matches on either output
    code=$1 pattern=$2
    shift 2
    said=$("$seckill" "$@" 2>&1 </dev/null)
    got=$?
    if [ "$got" != "$code" ] || ! printf '%s\n' "$said" | grep -q -e "$pattern"; then
        echo "not ok - seckill $*: exit $got (expected $code), expected a line like: $pattern"
        printf '%s\n' "$said" | head -n 5
        bad=1
    else
        echo "ok - seckill $*"
    fi
}
expect 2 'Usage: seckill VERB'
expect 2 'did you mean "serve"?' sevre
expect 0 'Usage: seckill serve' help serve
expect 0 'Usage: seckill serve' serve --help
expect 2 'did you mean "audit"?' help audti
expect 2 'did you mean --redis-url?' check-config --redis-ulr x
expect 3 'access.threads: "900" from flag --access-threads' check-config --access-threads 900
# Standard output that cannot be written is no success; nor is one that was closed before the start.
for out in '>/dev/full' '>&-'; do
    if eval "\"\$seckill\" version $out 2>/dev/null"; then
        echo "not ok - seckill version $out: exit 0"
        bad=1
    else
        echo "ok - seckill version $out"
    fi
done
expect 5 'auth.mode' serve --http-listen 0.0.0.0:8480
expect 3 'no-such-file' serve --config /no-such-file
# What serve would refuse, check-config refuses with the same words.
refused() {    # refused PATTERN WORD...
    refusal=$1
    shift
    for verb in check-config serve; do
        expect 3 "$refusal" "$verb" "$@"
    done
}
refused 'payment.channel_url: the value from flag' --payment-channel-url ftp://127.0.0.1:8490
refused 'http.listen: "shop.example:8480" from flag' --http-listen shop.example:8480
refused 'admin.listen: "127.1:8481" from flag' --admin-listen 127.1:8481
refused 'health.listen: "somewhere:1" from flag' --health-listen somewhere:1
refused 'health.listen: "127.0.0.1:8480" from flag' --health-listen 127.0.0.1:8480
refused 'redis.url: the value from flag' --redis-url http://h
refused 'rocketmq.namesrv: "h" from flag' --rocketmq-namesrv h
refused 'postgres.url: the value from flag' --postgres-url no=such=word
refused 'roles: "access,cook" from flag' --roles access,cook
refused 'auth.jwt_keys: the value from flag' --auth-jwt-keys x:short
expect 0 'redis.url  *redis://:\*\*\*@h  *flag' check-config --redis-url redis://:geheim@h
expect 3 'http.idle_ms: "30000" from flag --http-idle-ms' check-config --http-idle-ms 30000
expect 3 'http.idle_ms: "-1" from flag --http-idle-ms' check-config --http-idle-ms -1 -o json
expect 0 '"version":' version -o json
expect 0 'together, for each of access.threads  *[1-9][0-9.]* MiB' check-config
expect 0 'complete -o default -F _seckill' completion bash
expect 0 '^#redis.url: ' config print
expect 2 'do what?' activity
expect 2 'did you mean "create"' activity craete
expect 4 'nobody listens' activity list --admin-listen 127.0.0.1:1
expect 4 'nobody listens' buy --http-listen 127.0.0.1:1
expect 4 'nobody listens' rush --http-listen 127.0.0.1:1
expect 3 'redis.url' audit --redis-url nonsense
expect 4 'nothing is proved' audit --redis-url unix:/nonexistent --postgres-url 'host=/nonexistent'
expect 2 'it needs a scenario file' load
expect 3 'No such file' load /no-such-file
crowd=$(mktemp)
echo 'generator: {connections: 100000, processes: 2}' >"$crowd"
expect 3 '50000 for each of 2 processes; 18,000 are the most' load "$crowd"
expect 5 'to loopback addresses only' load "$crowd" --http-listen 10.0.0.1:80 --auth-mode jwt --auth-jwt-keys k:sixteen-bytes-at-least --ids-keys sixteen-bytes-at-least \
    --ids-user-key sixteen-bytes-at-least --qualification-keys k:sixteen-bytes-at-least --payment-webhook-keys whsec_c2l4dGVlbi1ieXRlcy1hdC1sZWFzdC4uLi4= --admin-tokens sixteen-bytes-at-least
rm -f "$crowd"
expect 2 'expected a number' load load.yaml --scale fast
expect 2 'expected an id: 1 to 64' buy --user 'a b'
expect 2 'which --user' token issue
expect 2 'prefix begins ids' rush --prefix 'a b'
expect 2 'is no id' audit 'a b'
expect 2 'is no id' explain ''
for verb in serve demo migrate buy rush check-config version; do
    expect 2 'takes no argument "stray"' $verb stray
done
expect 2 'takes no argument "stray"' activity show act_demo stray
expect 2 'takes no argument "stray"' audit act_demo stray
expect 2 'takes no argument "stray"' help buy stray
expect 0 '^[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*$' token issue --user u
expect 0 '^{"sold":500,"oversell":0,"duplicates":0,"drift":0,.*"contradictions":0,' demo --once --users 3000 --stock 500 -o json
expect 0 '"SOLD_OUT":' demo --once --users 300 --stock 50 -o json
expect 0 '^{"sold":40,' demo --once --users 40 --stock 50 -o json
expect 0 '585,000 → 600,000' plan
expect 0 '入口设计容量  *390,000' plan --lang zh
expect 0 '= 34 × 3' plan --set peak=500000,capacity.access=9000 --set skus=1 --explain access_total
expect 0 '^{"inputs":' plan -o json
expect 0 '^<!doctype html>' plan --html -
expect 2 'did you mean sale.peak?' plan --set peek=3
expect 2 'did you mean access_total?' plan --explain acces_total
page=$(mktemp)
echo kept >"$page"
expect 2 'say one of the two' plan --explain access_total --html "$page"
[ "$(cat "$page")" = kept ] || { echo 'not ok - a page that stood there is kept'; bad=1; }
rm -f "$page"
expect 3 'No such file' plan /no-such-file
expect 3 'No such file' plan --capacity /no-such-file
expect 2 'expected one of en|zh' plan --lang fr
expect 4 '127.0.0.1:1: nobody listens' plan --check --at 127.0.0.1:1
expect 0 'is kept. \[default: \.\]$' help supervise
expect 0 '--users N .*How many different users' help rush
expect 0 'seckill help settings' help rush
expect 0 'SECKILL_REDIS_URL, default redis://127.0.0.1:6379' help settings
if "$seckill" help rush | grep -q -e --redis-in-flight; then echo 'not ok - help of a verb lists the settings only by a pointer'; bad=1; fi
expect 3 'demo.activity: "a b"' buy --demo-activity 'a b'
expect 2 'expected one of SUCCESS|FAILED' pay x --result MAYBE
expect 2 'expected a currency' pay x --currency yen
expect 3 'says nothing' load /dev/null
expect 3 'says nothing' plan /dev/null
list=$(mktemp)
echo '- a' >"$list"
expect 3 'a list is not expected here' check-config --config "$list"
rm -f "$list"
saved=$(mktemp) && trap 'rm -f "$saved"' EXIT
expect 0 'ident  *[0-9.]* ns' bench --samples 5 --save "$saved"
expect 0 'http_parse .*ratio [0-9.]* \(same\|faster\|slower\)' bench --samples 5 --against "$saved"
expect 2 'No such file\|unable to open' bench --samples 5 --against /no-such-file
exit "$bad"

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The README's commands are run as they stand there, in its order and on its one sale, each block in a shell of its own at the checkout's root.
# Three words are replaced, so that a sale somebody runs in this checkout is left alone: `.run/` and `build/seckill` by the test's own, and `make`
# alone (the build) by nothing.
# The Chinese page must have the same commands.
# shellcheck source=test/live/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
live_dir
run=$live/run
export SECKILL_RUN=$run SECKILL_BIN=$seckill

# blocks FILE: each sh block, its lines joined by newlines, ended by a NUL.
blocks() { awk '/^```sh$/ { inside = 1; text = ""; next } /^```$/ && inside { inside = 0; printf "%s%c", text, 0; next } inside { text = text $0 "\n" }' "$1"; }
same 'both READMEs have the same commands' "$(blocks "$root/README.zh.md" | tr '\0' '\n')" "$(blocks "$root/README.md" | tr '\0' '\n')"

said() { grep -q -- "$1" "$live/out"; }
block() { # TEXT: runs it; what it says is in $live/out
  local text=$1
  text=${text//.run\//$run/}
  text=${text//build\/seckill/$seckill}
  (cd "$root" && bash -euo pipefail -c "$(grep -vx make <<<"$text")") >"$live/out" 2>&1 || { sed 's/^/    /' "$live/out"; return 1; }
}

# beside_run ARG...: the binary with the settings of the run, in a shell of its own.
# shellcheck disable=SC2016  # expanded in there
beside_run() { bash -c '. "$1/env" && exec "${@:2}"' _ "$run" "$seckill" "$@"; }

mapfile -d '' -t all < <(blocks "$root/README.md")
ran=0
for text in "${all[@]}"; do
  first=${text%%$'\n'*}
  case $first in
    'make run')
      (cd "$root" && exec make run) >"$live/run.log" 2>&1 &
      sale_pid=$!
      expect 'make run: up' await 240 grep -q '^up in' "$live/run.log" ;;
    'make buy PAY=1')
      expect 'make buy PAY=1' block "$text"
      expect 'make buy PAY=1: QUEUED, then ORDERED, then PAID' eval 'said QUEUED && said ORDERED && said "is PAID"' ;;
    'make rush')
      expect 'make rush' block "$text"
      expect 'make rush: the proof' grep -qx 'proof: sold=9998 oversell=0 duplicates=0 drift=0' "$live/out"
      expect 'make rush: what was sold before it' grep -qx 'this rush  sold 9998 units; 2 were sold before it, 10000 are sold now' "$live/out"
      # Of a sale that is sold out a rush gets nothing, and its proof says so; a buyer and a later start are told how to go on.
      expect 'a rush of a sold-out sale' block 'make rush USERS=300'
      expect 'a rush of a sold-out sale: its proof claims nothing' grep -qx 'proof: sold=0 oversell=0 duplicates=0 drift=0' "$live/out"
      expect 'a rush of a sold-out sale: how to go on' said 'make sale. opens a new demo sale'
      beside_run buy >"$live/out" 2>&1 || true
      expect 'a buyer of a sold-out sale: how to go on' eval 'said SOLD_OUT && said "make sale"'
      beside_run activity create --demo >"$live/out" 2>&1 || true
      expect 'the state of a sold-out sale is shown' said 'act_demo: sku_demo, 10,000 units, open, all of them sold: make sale opens a new sale' ;;
    'make status')
      expect "$(tr '\n' ' ' <<<"$text")" block "$text"
      wait "$sale_pid" || true
      sale_pid='' ;;
    apt-get*)
      # As root the line is run as it stands; else what it brings must be there already.
      if ((EUID == 0)); then expect 'make and git are installed' block "$text"; fi
      expect 'make and git are there' eval 'command -v make >/dev/null && command -v git >/dev/null' ;;
    'make sale')
      expect 'make sale' block "$text"
      same 'make sale: a new sale is open' "$(grep -o 'act_demo_2: sku_demo, 10,000 units, open' "$live/out")" 'act_demo_2: sku_demo, 10,000 units, open'
      beside_run buy -o json >"$live/out" 2>&1 || true
      expect 'make sale: buy uses it' said '"activity_id":"act_demo_2"' ;;
    make)
      expect 'the demo' block "$text"
      expect 'the demo: 10,000 sold, zeros elsewhere' said '{"sold":10000,"oversell":0,"duplicates":0,"drift":0,' ;;
    '. .run/env')
      expect 'by hand' block "$text"
      expect 'by hand: alice finds her reservation by its request' grep -Eq '"status":"(RESERVED|PUBLISHED|PROCESSING|ORDERED)"' "$live/out"
      expect 'by hand: every rule holds' said 'every rule holds' ;;
    '. .run/env    # money and back')
      expect 'money and back' block "$text"
      expect 'money and back: cancelled, paid too late' said PAYMENT_AFTER_CANCEL
      # It waits a second for the refund, which is little beside other programs: what comes after the wait is asked until it is there.
      order=$(sed -n 's/.*"order_id":"\(ord_[^"]*\)".*/\1/p' "$live/out" | head -n 1)
      after=". .run/env"$'\n'"order=$order"$'\n'"${text#*$'\n'sleep 1$'\n'}"
      given_back() { said '"status":"DONE"' && said 'on sale again' && said 'given back' && return; block "$after"; return 1; }
      expect 'money and back: given back' soon 30 given_back ;;
    *) not_ok "the README has a block that this test does not know: $first" ;;
  esac
  ran=$((ran + 1))
done
same 'every block was run' "$ran" "${#all[@]}"

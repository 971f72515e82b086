# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# lib.sh: what the shell tools share: talking, waiting, free ports, and processes that are ours for certain. Sourced, never run.
#
# A process is known by three facts: its number, the tick of its birth, and the program it runs. A pid file holds all three, and a
# signal is sent only where all three still hold: a number alone may belong to a stranger by now.

tool=${0##*/}

say() { printf '%s: %s\n' "$tool" "$*" >&2; }
die() { say "$*"; exit 1; }

# Milliseconds of the machine's own clock; never goes back.
now_ms() {
  local up
  read -r up _ </proc/uptime
  up=${up/./}
  echo $((10#$up * 10))
}
# "3.4 s" since a now_ms.
took() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

# await SECONDS COMMAND...: asks twenty times a second until it says yes; 1 when the time is up.
await() {
  local end=$(($(now_ms) + $1 * 1000))
  shift
  until "$@" >/dev/null 2>&1; do
    (($(now_ms) < end)) || return 1
    sleep 0.05
  done
}

# --- processes

birth_of() {
  local stat=''
  { read -r -d '' stat <"/proc/$1/stat"; } 2>/dev/null || true    # it ends without a zero
  [[ -n $stat ]] || return 1
  # shellcheck disable=SC2086  # the fields after the name, which may hold anything, are plain words
  set -- ${stat##*) }
  [[ $1 != Z && $1 != X ]] || return 1
  echo "${20}"
}
program_of() {
  local exe
  exe=$(readlink "/proc/$1/exe" 2>/dev/null) || return 1
  echo "${exe% (deleted)}"
}

# pid_write FILE PID: written at once after the start, when the program may not be there yet (-), and again when it answers.
pid_write() {
  local birth
  birth=$(birth_of "$2") || return 1
  printf '%s %s %s\n' "$2" "$birth" "${3:-$(program_of "$2" || echo -)}" >"$1.new" && mv "$1.new" "$1"
}

# pid_of FILE: prints the number if that very process lives.
pid_of() {
  local pid birth program
  [[ -s $1 ]] || return 1
  read -r pid birth program <"$1" || return 1
  [[ $pid =~ ^[0-9]+$ && $(birth_of "$pid") == "$birth" ]] || return 1
  [[ $program == - || $(program_of "$pid") == "$program" ]] || return 1
  echo "$pid"
}
pid_alive() { pid_of "$1" >/dev/null; }
pid_gone() { ! pid_of "$1" >/dev/null; }

# pid_stop FILE SIGNAL SECONDS: asks, waits; 1 if it still lives. The file goes with the process.
pid_stop() {
  local pid
  if pid=$(pid_of "$1"); then
    kill "-$2" "$pid" 2>/dev/null || true
    await "$3" pid_gone "$1" || return 1
  fi
  rm -f "$1"
}

# --- ports

# port_taken PORT: somebody listens there, or holds the number as the near end of a connection. What a server that died has left of its connections
# (FIN_WAIT, CLOSING, LAST_ACK, TIME_WAIT) is in nobody's way: else a server killed under load would come back elsewhere.
port_taken() {
  local hex
  printf -v hex '%04X' "$1"
  if awk -v port=":$hex" 'FNR > 1 && substr($2, length($2) - 4) == port && $4 !~ /^0[4569B]$/ { found = 1; exit } END { exit !found }' \
    /proc/net/tcp /proc/net/tcp6 2>/dev/null; then
    return 0
  fi
  (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

# port_pick FIRST OFFSET...: sets picked_port to the first port from FIRST upward which is free, and so is each port + OFFSET.
# Two tools that look at the same moment would find the same port, so a port found is also claimed: a lock that lives as long as
# the calling process and whatever it starts.
port_pick() {
  local first=$1 port offset
  local -a wanted
  shift
  for ((port = first; port < first + 2000 && port < 65000; port++)); do
    wanted=()
    for offset in 0 "$@"; do
      port_taken $((port + offset)) && continue 2
      wanted+=($((port + offset)))
    done
    port_claim "${wanted[@]}" || continue
    # shellcheck disable=SC2034  # the answer
    picked_port=$port
    return 0
  done
  die "no free port from $first to $((first + 1999))"
}
# port_hand_over: the claims are with what was started since the pick, and no longer with us and with what we start next.
port_hand_over() {
  local fd
  for fd in "${claimed_fds[@]}"; do exec {fd}>&-; done
  claimed_fds=()
}
# port_claim PORT...: all of them, or none.
claimed_fds=()
port_claim() {
  local dir=/tmp/.seckill-ports-$EUID fd port
  local -a held=()
  [[ -d $dir ]] || mkdir -m 700 "$dir" 2>/dev/null || true
  [[ -O $dir ]] || die "$dir is not mine"
  for port; do
    exec {fd}>"$dir/$port"
    held+=("$fd")
    flock -n "$fd" && continue
    for fd in "${held[@]}"; do exec {fd}>&-; done
    return 1
  done
  claimed_fds+=("${held[@]}")
}

# log_rotate FILE: a log of more than 16 MB becomes FILE.1 before a server or a role starts to append to it.
log_rotate() {
  if [[ -f $1 && $(stat -c %s "$1") -gt 16777216 ]]; then mv -f "$1" "$1.1"; fi
}

# --- a directory of ours: only what carries the mark is ever deleted

mark_make() {
  [[ -e $1/.seckill ]] && return
  if [[ -d $1 && -n $(ls -A "$1") ]]; then die "$1 holds files that are not ours; give an empty or a new directory"; fi
  mkdir -p "$1"
  echo 'Made by seckill. Whatever carries this mark is deleted by a reset.' >"$1/.seckill"
}
mark_check() { [[ -f $1/.seckill && -O $1/.seckill ]] || die "$1 does not carry our mark (.seckill): left alone"; }

# --- disks

# disk_check DIR: stops where a nearly full disk would break the broker (it refuses sends above 90 %) or a database.
disk_check() {
  local used free
  read -r used free < <(df -Pk "$1" | awk 'END { printf "%d %d\n", int($3 * 100 / ($3 + $4) + 0.999), $4 / 1024 }')
  ((used <= 88)) || die "the disk of $1 is $used % used; at most 88 % will do (RocketMQ refuses messages above 90 %): make room or use another directory"
  ((free >= 1024)) || die "the disk of $1 has $free MB free; 1024 MB are needed: make room or use another directory"
}

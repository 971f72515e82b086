#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# log_keys.sh SOURCES: no line of the log has a key twice: between log_event and log_end none is given again, and none that every line has.
set -u
# shellcheck disable=SC2016
twice=$(find "$1" -name '*.c' | sort | xargs awk '
    /log_event\(/ { split("", seen); seen["ts"] = seen["level"] = seen["role"] = seen["event"] = seen["cut"] = 1 }
    match($0, /log_(str|text|i64|bool)\(&?[a-z_]+, "[^"]*"/) {
        key = substr($0, RSTART, RLENGTH)
        sub(/^[^"]*"/, "", key)
        sub(/"$/, "", key)
        if (key in seen)
            print FILENAME ":" FNR ": " key
        seen[key] = 1
        lines++
    }
    END { if (lines < 60) print "only " lines + 0 " members of lines were found" }')
[ -z "$twice" ] && exit 0
printf 'not ok - a key of a log line is there twice:\n%s\n' "$twice"
exit 1

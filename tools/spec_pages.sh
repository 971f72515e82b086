#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# spec_pages.sh write|compare SPEC_PRINT DIRECTORY: refreshes the printed reference pages, or says which of them are old (exit 1).
set -u
how=$1 print=$2 directory=$3 old=0
page_file=$(mktemp) || exit 1
trap 'rm -f "$page_file"' EXIT
for page in $("$print"); do
    "$print" "$page" >"$page_file" || exit 1
    case $how in
    write) cp "$page_file" "$directory/$page" && chmod 644 "$directory/$page" || exit 1 ;;
    compare) diff -u "$directory/$page" "$page_file" || old=1 ;;
    *) echo "usage: $0 write|compare SPEC_PRINT DIRECTORY" >&2; exit 2 ;;
    esac
done
[ "$old" = 0 ] || echo "reference pages are old: run \`ninja -C build docs\` and commit" >&2
exit "$old"

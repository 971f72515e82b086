#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bounds.sh ROOT: each row of spec/bound.def names a test that exists, or several with commas between: a cmocka test, or a shell test of test/live.
set -u
cd "$1" || exit 1
bad=0
rows=$(grep -c '^BOUND(' spec/bound.def)
named=$(sed -n 's/^BOUND(.*, "\([A-Za-z_, ]*[A-Za-z_]\)")$/\1/p' spec/bound.def)
for test in $(echo "$named" | tr ',' ' '); do
    [ -e "test/live/$test.sh" ] || grep -rqF "static void $test(void **state)" test || { echo "not ok - $test is named by spec/bound.def and is no test"; bad=1; }
done
[ "$(echo "$named" | grep -c .)" = "$rows" ] || { echo "not ok - a row of spec/bound.def names no test"; bad=1; }
[ "$bad" = 1 ] || echo "ok - $rows bounds, each filled by a test"
exit "$bad"

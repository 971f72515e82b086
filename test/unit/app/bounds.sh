#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bounds.sh ROOT: each row of spec/bound.def names a test that exists; those without one are listed here, so that they do not grow in silence.
set -u
cd "$1" || exit 1
bad=0 open=0
tests=$(sed -n 's/^BOUND(.*, "\([A-Za-z_]*\)")$/\1/p' spec/bound.def)
rows=$(grep -c '^BOUND(' spec/bound.def)
for test in $tests; do
    if ! grep -rqF "static void $test(void **state)" test; then
        echo "not ok - $test is named by spec/bound.def and is no test"
        bad=1
    fi
done
[ "$(grep -c '^BOUND(.*, "[A-Za-z_]*")$' spec/bound.def)" = "$rows" ] || { echo "not ok - a row of spec/bound.def names no test and does not say so"; bad=1; }
open=$(grep -c '^BOUND(.*, "")$' spec/bound.def)
if [ "$open" -gt 8 ]; then
    echo "not ok - $open bounds are filled by no test; there were 8"
    bad=1
fi
[ "$bad" = 1 ] || echo "ok - $rows bounds, $open of them not filled by a test"
exit "$bad"

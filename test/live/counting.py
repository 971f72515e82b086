# SPDX-License-Identifier: Apache-2.0
"""What tools/run_tests.py makes of a program's words: how many passed, which failed, and why in its own words."""
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))

import run_tests
from sale import right, same, tell

CMOCKA = """[==========] tests: Running 2 test(s).
[ RUN      ] one
[       OK ] one
[ RUN      ] two
[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- two.c:7: error: Failure!
[  FAILED  ] two
[==========] tests: 2 test(s) run.
[  PASSED  ] 1 test(s).
[  FAILED  ] tests: 1 test(s), listed below:
[  FAILED  ] two
"""
STORIES = "    said by the way\nok - it opens (1.0 s)\n    not in 30 s: it is sold\nnot ok - it sells\nok - it closes (2.0 s)\n"


def judged(text, code):
    result = run_tests.Result({"name": "a", "suite": ["seckill:unit"]})
    run_tests.judge(result, code, text, set())
    return result


def both_kinds(_):
    """cmocka's words and those of stories: each failure once, with what was said right before it"""
    one = judged(CMOCKA, 1)
    same("cmocka", (one.passed, one.failed, one.why), (1, 1, ["failed: two\n      [  ERROR   ] --- 0x1 != 0x2\n      [   LINE   ] --- two.c:7: error: Failure!"]))
    two = judged(STORIES, 1)
    same("stories", (two.passed, two.failed, two.why), (2, 1, ["failed: it sells\n      not in 30 s: it is sold"]))
    right("no more than so many lines", len(judged("x\n" * 99 + "not ok - a\n", 1).why[0].splitlines()) == 1 + run_tests.REASON_LINES)


def nothing_is_forgiven(_):
    """A death, a skip, an end in time that came not, and a program that tests nothing are failures"""
    same("died", judged("ok - a (1 s)\n", -11).why, ["was killed by SIGSEGV"])
    same("no end", judged("ok - a (1 s)\n", None).why, ["ran out of time"])
    same("skipped", judged("", run_tests.SKIPPED).why, ["skipped as a whole"])
    same("nothing", judged("[==========] tests: Running 0 test(s).\n", 0).why, ["tested nothing"])
    same("a code alone", judged("ok - a (1 s)\n", 3).why, ["ended with code 3"])
    same("silence and a good code", (judged("", 0).passed, judged("", 0).failed), (1, 0))


if __name__ == "__main__":
    sys.exit(tell(None, [both_kinds, nothing_is_forgiven]))

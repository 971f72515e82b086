# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that Meson knows and counts what they say.

Meson counts programs; a program here holds many tests, so its words are read: cmocka's lines, or `ok - ...` and `not ok - ...` of a
shell test, or nothing but the exit code. A program that dies adds one failure to what it had said. One that ends well and has
tested nothing has failed. A skip is a failure unless test/may_skip names it with a reason: under `make test` everything is there.

Progress goes to standard error; the table of suites and the last line, `N passed, N failed`, to standard output.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import acceptance

SKIPPED = 77
GOOD = re.compile(r"^(?:\[       OK \] |ok - )(.*)", re.M)
BAD = re.compile(r"^(?:\[  FAILED  \] (?!\d+ test\(s\)|tests: )|not ok - )(\S.*)", re.M)
MISSED = re.compile(r"^\[  SKIPPED \] (?!\d+ test\(s\)|tests: )(\S.*)", re.M)
BORDER = re.compile(r"^(?:\[ RUN      \]|\[       OK \]|\[  FAILED  \]|\[==========\]|ok - |not ok - )")    # what stands between one test's words and the next's
SPEAKS = re.compile(r"^(?:\[==========\]|ok - |not ok - )", re.M)
TAIL_LINES = 40
REASON_LINES = 6
screen = threading.Lock()


class Result:
    def __init__(self, test):
        self.name = test["name"]
        self.suite = ",".join(s.split(":")[-1] for s in test["suite"]) or "other"
        self.passed = self.failed = 0
        self.good = []
        self.seconds = 0.0
        self.why = []


def may_skip():
    path = pathlib.Path("test/may_skip")
    lines = path.read_text().splitlines() if path.exists() else []
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def execute(test, log, build, kept):
    """The exit code, None where time ran out. The program gets a session of its own, so that whatever it started goes with it. `kept` is where a live test
    leaves what its servers have said."""
    env = dict(os.environ, SECKILL_TEST_KEEP=str(kept), **test["env"])
    with open(log, "wb") as out:
        process = subprocess.Popen(test["cmd"], cwd=test["workdir"] or build, env=env, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.wait(timeout=(test["timeout"] or 3600) * float(os.environ.get("SECKILL_TEST_PATIENCE", "1")))
        except subprocess.TimeoutExpired:
            # A polite word first: a shell test then takes its servers down.
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            return None


def reason(text, match):
    """What the program said right before the words that a test failed, one line to each of its own."""
    said = []
    for line in reversed(text[:match.start()].splitlines()):
        if BORDER.match(line) or len(said) == REASON_LINES:
            break
        said.insert(0, f"\n      {line.strip()}")
    return "".join(said)


def judge(result, code, text, forgiven):
    bad = {match[1]: reason(text, match) for match in reversed(list(BAD.finditer(text)))}    # cmocka names them again at the end
    missed = sorted(set(MISSED.findall(text)))
    result.good = GOOD.findall(text)
    result.passed, result.failed = len(result.good), len(bad)
    result.why += [f"failed: {name}{said}" for name, said in sorted(bad.items())]
    for name in missed:
        if f"{result.name}:{name}" not in forgiven:
            result.failed += 1
            result.why.append(f"skipped: {name}")
    if code == SKIPPED:
        if result.name not in forgiven:
            result.failed += 1
            result.why.append("skipped as a whole")
    elif code is None:
        result.failed += 1
        result.why.append("ran out of time")
    elif code < 0:
        result.failed += 1
        result.why.append(f"was killed by {signal.Signals(-code).name}")
    elif code != 0 and not result.failed:
        result.failed += 1
        result.why.append(f"ended with code {code}")
    elif code == 0 and not SPEAKS.search(text):
        result.passed = 1
    elif code == 0 and not result.passed and not missed:
        result.failed += 1
        result.why.append("tested nothing")


def run(test, build, logs, forgiven):
    result = Result(test)
    log = logs / (re.sub(r"[^A-Za-z0-9_.-]+", "-", result.name) + ".txt")
    kept = log.with_suffix(".servers").resolve()    # the test works elsewhere
    shutil.rmtree(kept, ignore_errors=True)
    kept.mkdir()
    began = time.monotonic()
    code = execute(test, log, build, kept)
    result.seconds = time.monotonic() - began
    text = log.read_text(errors="replace")
    judge(result, code, text, forgiven)
    if not result.failed or not any(kept.iterdir()):
        shutil.rmtree(kept)
    with screen:
        print(f"{'✗' if result.failed else '✓'} {result.suite:<12} {result.name:<32} {result.passed:>4} passed "
              f"{result.failed:>3} failed {result.seconds:>7.1f} s", file=sys.stderr)
        if result.failed:
            for why in result.why:
                print(f"    {why}", file=sys.stderr)
            print("".join(f"    | {line}\n" for line in text.splitlines()[-TAIL_LINES:]), end="", file=sys.stderr)
            print(f"    all of it: {log}" + (f", and what its servers said: {kept}" if kept.exists() else ""), file=sys.stderr, flush=True)
    return result


def findings(logs):
    """What a sanitizer had to say of any process, also of those that a test had started: one failure for each different finding."""
    first = {}
    for path in sorted(logs.glob("sanitizer.*")):
        text = path.read_text(errors="replace")
        lines = [line.strip() for line in text.splitlines()]
        what = [line for line in lines if re.search(r"ERROR: |WARNING: |runtime error: ", line)][:1]
        where = [re.sub(r"^#\d+ 0x[0-9a-f]+ ", "", line) for line in lines if re.match(r"#\d+ .*/(src|test|tools)/", line)][:1]
        if what or text.strip():
            first.setdefault(" ".join([re.sub(r"==\d+==|0x[0-9a-f]+|\(pid=\d+\)", "", w) for w in what + where]) or "something", (path, text))
    for what, (path, text) in first.items():
        print(f"✗ sanitizer: {what}\n" + "".join(f"    | {line}\n" for line in text.splitlines()[:TAIL_LINES]) + f"    all of it: {path}", file=sys.stderr, flush=True)
    return list(first)


LIGHT = {"unit", "memory", "scenario", "fast"}    # needs no server


def suites_of(test):
    return {s.split(":")[-1] for s in test["suite"]}


def selected(tests, fast, only, also, without, programs):
    for test in tests:
        if programs is not None:
            if test["name"] in programs:
                yield test
            continue
        suites = suites_of(test)
        if fast and not suites & LIGHT:
            continue
        if test["name"] in also:
            yield test
            continue
        if suites & set(without) or test["name"] in without:
            continue
        asked_for = only and (only in test["name"] or only in suites)
        if only and not asked_for or suites & {"chaos", "acceptance"} and not asked_for:  # long, and by name only (make chaos)
            continue
        yield test


def run_all(tests, jobs, build, logs):
    """Longest first, so that the last one does not run alone. What needs no server sleeps most of its time, and goes beside what does in a lane of its own. Those
    that want the machine for themselves come at the end."""
    forgiven = may_skip()
    together = sorted((t for t in tests if t["is_parallel"]), key=lambda t: -(t["timeout"] or 0))
    heavy = [t for t in together if not suites_of(t) & LIGHT]
    light = [t for t in together if suites_of(t) & LIGHT]
    one = lambda t: run(t, build, logs, forgiven)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool, concurrent.futures.ThreadPoolExecutor(1 if heavy else jobs) as beside:
        under_way = pool.map(one, heavy), beside.map(one, light)    # both have begun
        results = [result for lane in under_way for result in lane]
    return results + [run(t, build, logs, forgiven) for t in tests if not t["is_parallel"]]


def table(results):
    print(f"{'suite':<14}{'programs':>9}{'passed':>8}{'failed':>8}{'seconds':>9}")
    for suite in sorted({r.suite for r in results}):
        rows = [r for r in results if r.suite == suite]
        print(f"{suite:<14}{len(rows):>9}{sum(r.passed for r in rows):>8}{sum(r.failed for r in rows):>8}{sum(r.seconds for r in rows):>9.1f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--also", action="append", default=[])
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--acceptance", action="store_true")
    args = parser.parse_args()
    listed = json.loads(subprocess.run(["meson", "introspect", "--tests", str(args.build)], check=True, capture_output=True).stdout)
    claims = acceptance.read("spec/acceptance.def") if args.acceptance else None
    tests = list(selected(listed, args.fast, args.only, args.also, args.without, claims and acceptance.programs(claims)))
    logs = args.build / "test-logs"
    logs.mkdir(exist_ok=True)
    for path in logs.glob("sanitizer.*"):
        path.unlink()
    began = time.monotonic()
    processors = os.cpu_count() or 1
    jobs = 2 * processors if args.fast else processors    # without servers most of them wait: for clocks, and for each other
    results = run_all(tests, int(os.environ.get("SECKILL_TEST_JOBS") or jobs), args.build, logs)
    found = findings(logs)
    passed, failed = sum(r.passed for r in results), sum(r.failed for r in results) + len(found)
    table(results)
    print(f"wall time {time.monotonic() - began:.1f} s; what each program said is in {logs}")
    for r in results:
        for why in r.why:
            print(f"✗ {r.name}: {why}")
    for what in found:
        print(f"✗ sanitizer: {what}")
    proven = acceptance.judge(claims, results) if claims else True
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed or not proven else 0


if __name__ == "__main__":
    sys.exit(main())

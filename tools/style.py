#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""style.py: measures what CONTRIBUTING.md asks of the code, and checks every reference to a document.

  tools/style.py             prints the table; exit 1 where a limit is missed or a reference is dead
  tools/style.py --names     also prints the function names that are shared or one word
  tools/style.py --long      also prints the functions and lines that are too long

Measured are the C files that git knows under src/, test/, tools/ and bench/.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = ("src/", "test/", "tools/", "bench/")
# (what, limit, whether the value must be at most or within)
LIMITS = {
    "definitions that share a name, %": (0, 3), "one-word function names, %": (0, 6), "lines over 120 columns, %": (0, 0.3),
    "comment-only lines, %": (10, 20), "include cycles": (0, 0), "most files in a folder of src/": (0, 20),
    "function length, P95": (0, 40), "function length, longest": (0, 70), "dead references": (0, 0),
    "faulty diagrams": (0, 0),
}
KEYWORDS = {"if", "for", "while", "switch", "return", "sizeof", "defined", "do", "else"}


def tracked(*suffixes):
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    return [n for n in names if n.endswith(suffixes) and (ROOT / n).is_file()]


def strip(text):
    """Comments, strings, characters and preprocessor lines become blanks; lines keep their numbers."""
    def blank(m):
        return re.sub(r"[^\n]", " ", m.group())
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def functions(text):
    """(name, is static, first line, last line) of each function definition."""
    code, depth, start, found = strip(text), 0, 0, []
    for m in re.finditer(r"[{};]", code):
        if m.group() == "{":
            if depth == 0:
                head = code[start:m.start()]
                named = re.search(r"\b([A-Za-z_]\w*)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*(?:__attribute__\s*\(\(.*\)\)\s*)?$", head)
                if named and named.group(1) not in KEYWORDS and "=" not in head.split("(")[0]:
                    first = code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
                    found.append([named.group(1), bool(re.search(r"\bstatic\b", head)), first, first])
                else:
                    found.append(None)
            depth += 1
        elif m.group() == "}":
            depth -= 1
            if depth == 0:
                if found and found[-1]:
                    found[-1][3] = code.count("\n", 0, m.start()) + 1
                start = m.end()
        elif depth == 0:
            start = m.end()
    return [tuple(f) for f in found if f]


def include_cycles(headers):
    """Cycles among units: a.c and a.h are one unit, and include what either includes."""
    units, edges = {}, collections.defaultdict(set)
    for name in headers:
        units.setdefault(pathlib.PurePath(name).stem, str(pathlib.PurePath(name).with_suffix("")))
    for name in headers:
        stem = pathlib.PurePath(name).stem
        for included in re.findall(r'^#include "([\w/]+)\.h"', (ROOT / name).read_text(), re.M):
            target = included.rsplit("/", 1)[-1]
            if target in units and target != stem:
                edges[stem].add(target)
    cycles, state, path = [], {}, []

    def visit(unit):
        state[unit] = 1
        path.append(unit)
        for other in sorted(edges[unit]):
            if state.get(other) == 1:
                cycles.append(path[path.index(other):] + [other])
            elif other not in state:
                visit(other)
        path.pop()
        state[unit] = 2
    sys.setrecursionlimit(10000)
    for unit in sorted(edges):
        if unit not in state:
            visit(unit)
    return cycles


def slug(heading):
    """The anchor that a heading of Markdown gets."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).strip().lower()).replace(" ", "-")


def anchors(path, cache={}):
    if path not in cache:
        text = path.read_text() if path.suffix == ".md" and path.is_file() else ""
        cache[path] = {slug(h) for h in re.findall(r"^#+ +(.*)$", text, re.M)} | set(re.findall(r'<a id="([^"]+)">', text))
    return cache[path]


def dead_references():
    """References that lead nowhere: links of Markdown, docs/NAME.md with or without an anchor anywhere, and section numbers of other documents."""
    dead = []
    for name in tracked(".c", ".h", ".def", ".sql", ".lua", ".md", ".py", ".sh", ".build", ".yaml", ".json") + ["Makefile"]:
        text = (ROOT / name).read_text(errors="replace")
        for number, line in enumerate(text.split("\n"), 1):
            targets = [(ROOT, t) for t in re.findall(r"\bdocs/[\w./-]+\.md(?:#[\w-]+)?", line)]
            if name.endswith(".md"):
                targets += [((ROOT / name).parent, t) for t in re.findall(r"\]\(([^)\s:]+)\)", line)]
            for base, target in targets:
                page, _, anchor = target.partition("#")
                path = (base / page).resolve() if page else ROOT / name
                if not path.exists() or (anchor and path.suffix == ".md" and anchor not in anchors(path)):
                    dead.append(f"{name}:{number}: {target}")
            for word in re.findall(r"(?:mission|protocol|interfaces|conventions|design|failure-semantics)(?:\.md)? §[\d.]+", line):
                dead.append(f"{name}:{number}: {word} (a section number of another document)")
    return dead


def bad_diagrams():
    """Sequence diagrams whose lines are not of the form this project uses, or that name a participant who was not declared."""
    bad = []
    for name in tracked(".md"):
        text = (ROOT / name).read_text()
        for m in re.finditer(r"^```mermaid\n(.*?)^```", text, re.M | re.S):
            first = text.count("\n", 0, m.start()) + 2
            lines, known = m.group(1).split("\n")[:-1], set()
            if not lines or lines[0] != "sequenceDiagram":
                bad.append(f"{name}:{first}: only sequenceDiagram is used here")
            for number, line in enumerate(lines[1:], first + 1):
                declared = re.fullmatch(r"  participant (\w+) as [\w -]+", line)
                message = re.fullmatch(r"  (\w+)-?->>(\w+): [^;#]+", line) or re.fullmatch(r"  Note over (\w+)(?:,(\w+))?: [^;#]+", line)
                if declared:
                    known.add(declared.group(1))
                elif not message or not set(filter(None, message.groups())) <= known:
                    bad.append(f"{name}:{number}: {line.strip()}")
    return bad


def measure():
    sources = [n for n in tracked(".c", ".h") if n.startswith(CODE)]
    lines, comments, wide, lengths, every = 0, 0, [], [], []
    for name in sources:
        text = (ROOT / name).read_text()
        inside = False
        for number, line in enumerate(text.split("\n")[:-1], 1):
            lines += 1
            bare = line.strip()
            only = inside or bare.startswith(("/*", "//"))
            if inside or bare.startswith("/*"):
                inside = "*/" not in bare
                only = only and (bare.endswith("*/") or inside or bare.startswith("//"))
            comments += only
            if len(line) > 120:
                wide.append(f"{name}:{number}: {len(line)} columns")
        for function in functions(text):
            every.append((name, *function))
            lengths.append((function[3] - function[2] + 1, f"{name}:{function[2]}: {function[0]}"))
    by_name = collections.defaultdict(list)
    for name, function, *_ in every:
        if function not in ("main", "LLVMFuzzerTestOneInput"):    # names that others demand
            by_name[function].append(name)
    shared = {n: where for n, where in by_name.items() if len(where) > 1}
    single = {n: where for n, where in by_name.items() if "_" not in n}
    count = sum(map(len, by_name.values()))
    lengths.sort()
    folders = collections.Counter(str(pathlib.PurePath(n).parent) for n in tracked("") if n.startswith("src/"))
    diagrams = bad_diagrams()
    cycles, dead = include_cycles([n for n in sources if n.startswith("src/")]), dead_references()
    values = {
        "definitions that share a name, %": 100 * sum(map(len, shared.values())) / count,
        "one-word function names, %": 100 * sum(map(len, single.values())) / count,
        "lines over 120 columns, %": 100 * len(wide) / lines, "comment-only lines, %": 100 * comments / lines,
        "include cycles": len(cycles), "most files in a folder of src/": max(folders.values()),
        "function length, P95": lengths[int(0.95 * (len(lengths) - 1))][0], "function length, longest": lengths[-1][0], "dead references": len(dead),
        "faulty diagrams": len(diagrams),
    }
    return values, dict(shared=shared, single=single, wide=wide, lengths=lengths, cycles=cycles, dead=dead, diagrams=diagrams, lines=lines, functions=count, folders=folders)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", action="store_true")
    parser.add_argument("--long", action="store_true")
    options = parser.parse_args()
    values, found = measure()
    missed = 0
    print(f"{found['lines']} lines, {found['functions']} functions")
    for what, value in values.items():
        low, high = LIMITS[what]
        good = low <= value <= high
        missed += not good
        print(f"{'✓' if good else '✗'} {what:36} {value:8.1f}   limit {f'{low} to ' if low else 'at most '}{high}")
    for title in ("dead", "cycles", "diagrams"):
        for item in found[title]:
            print(f"  {title}: {item if isinstance(item, str) else ' -> '.join(item)}")
    for folder, count in found["folders"].items():
        if count > 20:
            print(f"  folder: {folder} holds {count} files")
    if options.names:
        for name, where in sorted(found["shared"].items(), key=lambda i: -len(i[1])):
            print(f"  shared {len(where):3} {name}: {' '.join(where)}")
        for name, where in sorted(found["single"].items(), key=lambda i: -len(i[1])):
            print(f"  one word {len(where):3} {name}: {' '.join(where)}")
    if options.long:
        for length, where in reversed(found["lengths"]):
            if length > 40:
                print(f"  {length} lines: {where}")
        print("\n".join(found["wide"]))
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()

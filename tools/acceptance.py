# SPDX-License-Identifier: Apache-2.0
"""spec/acceptance.def beside what the tests said: a promise is kept where every one of its proofs was seen to pass.

A claim without a proof is not kept, and neither is one whose test did not run or is called otherwise now."""
import re

ROW = re.compile(r'^(PROMISE|FAULT|PROOF)\("([^"]*)", "((?:[^"\\]|\\.)*)"(?:, "((?:[^"\\]|\\.)*)")?', re.M)


class Claim:
    def __init__(self, name, text):
        self.name, self.text, self.proofs = name, text, []


def read(path):
    claims = {}
    with open(path, encoding="utf-8") as table:
        for kind, name, first, second in ROW.findall(table.read()):
            if kind == "PROOF":
                claims[name].proofs.append((first, second))
            else:
                claims[name] = Claim(name, first)
    return list(claims.values())


def programs(claims):
    return {program for claim in claims for program, _ in claim.proofs}


def seen(proof, results):
    """The name of the test that passed, or None."""
    program, test = proof
    result = results.get(program)
    if result is None:
        return None
    if not test:
        return program if result.passed and not result.failed else None
    return next((f"{program}: {name}" for name in result.good if name.startswith(test)), None)


def judge(claims, results):
    """Prints a line for each claim; true where all are kept."""
    results = {r.name: r for r in results}
    kept = 0
    for claim in claims:
        evidence = [(proof, seen(proof, results)) for proof in claim.proofs]
        good = bool(evidence) and all(found for _, found in evidence)
        kept += good
        print(f"{'✓' if good else '✗'} {claim.name}  {claim.text}")
        for (program, test), found in evidence:
            print(f"        {found}" if found else f"      ✗ not seen: {program}: {test or 'the whole program'}")
        if not evidence:
            print("      ✗ nothing proves it yet")
    print(f"acceptance: {kept} of {len(claims)} proven")
    return kept == len(claims)

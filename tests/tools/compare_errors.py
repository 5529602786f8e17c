#!/usr/bin/env python3
"""compare_errors.py VALIDATION.json TABLE: no suite's error may have grown by more than a fiftieth, in the median or at
p90, and none may have lost runs. VALIDATION.json is what `plan validate --json` prints; the table is renewed by
tests/tools/renew.sh errors."""
import json
import sys

GROWTH, ROUNDING = 1.02, 0.02  # percent: the table has two decimals


def figures(validation):
    scores = dict(validation["suites"], overall=validation["overall"])
    for suite, score in scores.items():
        kinds = dict(score["memory"], step_time=score["step_time"])
        for kind, error in kinds.items():
            if error["n"] > 0:
                yield f"{suite} {kind}", (error["n"], 100 * error["median_ape"], 100 * error["p90_ape"])


now = dict(figures(json.load(open(sys.argv[1]))))
wrong = rows = 0
for line in open(sys.argv[2]).read().splitlines()[1:]:
    suite, kind, runs, median, p90 = line.split()
    name, before = f"{suite} {kind}", (int(runs), float(median), float(p90))
    rows += 1
    after = now.get(name, (0, float("inf"), float("inf")))
    grown = any(b > GROWTH * a + ROUNDING for a, b in zip(before[1:], after[1:]))
    if grown or after[0] < before[0]:
        wrong += 1
        print(f"{name}: {before[0]} runs, median {before[1]:.2f} %, p90 {before[2]:.2f} % before; "
              f"{after[0]}, {after[1]:.2f} %, {after[2]:.2f} % now")
print(f"{rows} figures compared, {wrong} worse")
sys.exit(1 if wrong or rows < 20 else 0)

"""What every driver does: walk the samples, ask the framework, compare with the plan, count."""
import json
import os
import re
import sys
import traceback


def run(name, check):
    """Calls check(folder, expected) -> {key: value as the framework has it} on every sample folder given."""
    done, failures = 0, []
    for root in sys.argv[1:]:
        folders = sorted(f for f in os.listdir(root) if os.path.exists(os.path.join(root, f, "expect.json")))
        for folder in (os.path.join(root, f) for f in folders):
            with open(os.path.join(folder, "expect.json")) as file:
                expected = json.load(file)
            done += 1
            try:
                found = check(folder, expected)
            except (Exception, SystemExit) as error:  # whatever the framework throws is its verdict
                if os.environ.get("VALIDATOR_TRACE"):
                    traceback.print_exc()
                failures.append(f"{folder}: refused: {type(error).__name__}: {str(error)[:300]}")
                continue
            wrong = [f"{key}: plan {expected[key]}, {name} {value}" for key, value in found.items()
                     if key in expected and expected[key] != value]
            if wrong:
                failures.append(f"{folder}: " + "; ".join(wrong))
    reasons = {}  # alike but for their numbers: told once, with how many
    for failure in failures:
        reasons.setdefault(re.sub(r"\d+", "N", failure.split(": ", 1)[1]), []).append(failure)
    for alike in reasons.values():
        print(f"{len(alike)} times: {alike[0]}")
    print(f"{name}: {done - len(failures)} of {done} files accepted with the plan's layout")
    if done == 0 or failures:
        sys.exit(1)

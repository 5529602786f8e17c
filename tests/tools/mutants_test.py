#!/usr/bin/env python3
"""mutants_test.py COMPILER: a change that is switched on does what it does when it is written by hand, and those that are
switched off do nothing.

Every change of a small file is written once for good, each into a namespace of its own, and once behind a switch; both
are asked on the same numbers. What the compiler refuses for good is left out, as mutate.py leaves it out.
"""
import os
import subprocess
import sys
import tempfile

import mutants

SUBJECT = """
struct Axes { int tp = 2, pp = 3, cp = 5, dp = 7; };

constexpr int kLimit = 3;

int chosen(int a, int b, const Axes& axes) {
  if (a > 1 && b < kLimit || a == b && a != 4 && b <= 5) return axes.tp * 3;
  const bool both = a >= 2 || b > 3 && a < 6;
  return both ? std::max(a + 1, b - 2) : axes.dp - std::min<int>(a * 2, b / 2);
}

long counted(int a, int b, const Axes& axes) {
  long sum = 0;
  Axes other = axes;
  other.cp = a;
  if (a < 3 || b < 3)
    sum += other.cp + other.pp;
  else
    sum -= 2;
  for (int i = 0; i < b && (a > i || sum < 40); ++i) sum += i % 2 == 0 && a > 2 ? 10 * i : (i + a) / 2;
  const double shares[] = {1, 0.5};
  const bool odd = false;
  return sum + std::max({a, b, 2}) + (odd ? 1 : static_cast<long>(20 * shares[0] / 3));
}
"""
HEAD = "#include <algorithm>\n#include <cstdio>\n"
TOOLS = os.path.dirname(os.path.abspath(__file__))
CALLS = """
int main(int, char** words) {
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b) %s
}
"""


def built(compiler, text, folder, *more):
    """A program, or None where the compiler refuses."""
    path = os.path.join(folder, "subject.cpp")
    with open(path, "w") as file:
        file.write(text)
    words = [compiler, "-std=c++20", "-w", "-O0", "-I", os.path.join(TOOLS, "../.."), path, *more, "-o", path + ".out"]
    run = subprocess.run(words, capture_output=True, text=True)
    return path + ".out" if run.returncode == 0 else None


def answers(program, env):
    run = subprocess.run([program], env=dict(os.environ, **env), capture_output=True, text=True, timeout=60)
    return run.stdout, run.returncode


def call(space):
    return f'std::printf("%d %ld\\n", {space}chosen(a, b, {{}}), {space}counted(a, b, {{}}));'


def main():
    compiler, lines = sys.argv[1], SUBJECT.split("\n")
    waiting = [mutant for number in range(1, len(lines) + 1) for mutant in mutants.mutants_of("x.cpp", number, lines)]
    if len(waiting) < 60:
        sys.exit("there are hardly any changes")
    rounds = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        original = answers(built(compiler, HEAD + SUBJECT + CALLS % call(""), folder), {})
        for number, mutant in enumerate(waiting):
            mutant.id = number
            changed = list(lines)
            changed[mutant.number - 1] = mutant.changed()
            program = built(compiler, HEAD + "\n".join(changed) + CALLS % call(""), folder)
            mutant.answers = answers(program, {}) if program else None
        waiting = [mutant for mutant in waiting if mutant.answers]
        while waiting:
            text, late = mutants.switched(SUBJECT, waiting)
            program = built(compiler, HEAD + '#include "tests/tools/mutants.hpp"\n' + text + CALLS % call(""), folder,
                            os.path.join(TOOLS, "mutants.cpp"))
            if program is None:
                sys.exit("changes that compile each by itself do not compile behind switches:\n" + text)
            if answers(program, {}) != original:
                sys.exit("switched off, changes change something:\n" + text)
            for mutant in waiting:
                if mutant not in late and answers(program, {"PLAN_MUTANT": str(mutant.id)}) != mutant.answers:
                    sys.exit(f"switched on, this is another change: {mutant}")
                compared += mutant not in late
            waiting, rounds = late, rounds + 1
    print(f"{compared} changes in {rounds} rounds")


if __name__ == "__main__":
    main()

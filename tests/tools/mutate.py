#!/usr/bin/env python3
"""mutate.py: which changes of the program would no test notice?

Draws changes of one operator, comparison, constant, line or axis each, writes a round of them into copies of the files
that hold them, each behind a switch, and compiles and links those with what a build of the tree holds of everything
else. The tests then run once with nothing switched on, and note which case comes by which change; then every change is
switched on in turn, and the cases that come by it run, quick ones first, those of its folder before those of the
folders above, until one fails. A change that some test notices is killed; one that none notices, or comes by, survives
and is printed with its place. The score is killed / tried. With --seconds-each a change that is not noticed by cases of
so many seconds is given up, is printed too, and counts as one that survived: the score is then a lower bound.

  tests/tools/mutate.py --count 200                    200 changes, at most 3 a file
  tests/tools/mutate.py --count 200 --seconds-each 60  a lower bound, in an hour or two
  tests/tools/mutate.py --minutes 10                   a sample, as CI takes it
  tests/tools/mutate.py --folder formulas --seed 7     one folder
  tests/tools/mutate.py --replay formulas/gemm.cpp:46  every change of one line
  tests/tools/mutate.py --list --folder presets        the changes that would be tried, to read
  tests/tools/mutate.py --count 200 --go-on            what was stopped before: its outcomes are not asked for again

The same seed draws the same changes. What a compiler refuses does not count, nor does what it must know itself and cannot
be switched (the size of a type, a case label, what a static_assert reads): such changes are counted as not tried.
Survivors may be equivalent to what they replace: read them.
"""
import argparse
import concurrent.futures
import hashlib
import itertools
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

import mutants
from mutant_tests import GIVEN_UP, Tests, Trial
from mutants import FOLDERS

# Tests that see a folder, its own first, by ctest's names.
TESTS = {
    "formulas": ["formulas", "planner", "stages", "presets", "cli", "acceptance"],
    "planner": ["planner", "pools", "stages", "cli", "scenarios", "acceptance"],
    "presets": ["presets", "planner", "cli"],
    "hwprobe": ["hwprobe", "probe_check", "probe_ranks", "presets", "cli"],
    "cli/launch": ["launch", "frameworks", "hostile_launch", "cli"],
    "cli": ["cli", "told", "launch", "logs", "probe_check", "probe_ranks", "hostile", "faulty_runs"],
}
ROUND = 200  # changes that are compiled at once: each round runs all tests once
TOOLS = os.path.dirname(os.path.abspath(__file__))


def done(words, folder):
    """Whether a command ends well, and what it says."""
    run = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                         text=True, errors="replace")
    return run.returncode == 0, run.stdout


def files_of(words):
    """The sources that a command compiles: one, or the dozen that a file of CMake's includes (plan_together)."""
    if not words or "/Unity/unity_" not in words[-1]:
        return words[-1:]
    return re.findall(r'^#include "(.*)"$', open(words[-1]).read(), re.M)


class Build:
    """What a build folder of the tree holds, and beside it, in `scratch`, the files that are changed, their objects, and
    the programs linked from both."""

    def __init__(self, source, folder, scratch, flags):
        self.source, self.folder, self.scratch, self.flags = source, folder, scratch, flags

    def prepare(self, tests):
        """Brings the build folder up to date, and compiles what is the same in every round."""
        cache = os.path.join(self.folder, "CMakeCache.txt")
        if not os.path.exists(cache):  # tests run for much longer than it takes to compile
            options = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
            subprocess.run(["cmake", "-S", self.source, "-B", self.folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                            "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g0"] + options, check=True, stdout=subprocess.DEVNULL)
        self.targets = ["plan"] + ["test_" + test for test in tests]
        good, output = done(["cmake", "--build", self.folder, "--target"] + self.targets, self.source)
        if not good:
            sys.exit(output + "mutate.py: the tree as it is does not build")
        if not os.path.exists(os.path.join(self.folder, "build.ninja")):
            sys.exit(f"mutate.py: {self.folder} was not configured for Ninja")
        self.links = {target: self.command_of(target) for target in self.targets}
        database = json.load(open(os.path.join(self.folder, "compile_commands.json")))
        self.compiled = {}  # object -> words of its command
        cached = ["ccache"] if shutil.which("ccache") else []
        for entry in database:
            words = cached + shlex.split(entry["command"])
            self.compiled[words[words.index("-o") + 1]] = words
        self.objects = {os.path.realpath(path): name for name, words in self.compiled.items()
                        if "/CMakeFiles/plan" in name and not name.startswith("tests/") for path in files_of(words)}
        for name in ("sources", "objects", "programs"):
            shutil.rmtree(os.path.join(self.scratch, name), ignore_errors=True)
            os.makedirs(os.path.join(self.scratch, name))
        main = next(words for name, words in self.compiled.items() if "/plan_test_main.dir/" in name)
        self.main, self.switch = self.object("mutants_main"), self.object("mutants")
        works = [(main, os.path.join(TOOLS, "mutants_main.cpp"), self.main),
                 (main, os.path.join(TOOLS, "mutants.cpp"), self.switch)]
        # Tests that start the program start the one in `scratch`.
        self.starting = {}
        for name in set(re.findall(r"\S+\.o\b", " ".join(self.links.values()))):
            words = self.compiled.get(name, [])
            if any(word.startswith("-DPLAN_BINARY=") for word in words) and any(
                    "PLAN_BINARY" in open(path).read() for path in files_of(words)):
                self.starting[name] = self.object(name)
                words = [f'-DPLAN_BINARY="{self.program("plan")}"' if word.startswith("-DPLAN_BINARY=") else word
                         for word in words]
                works.append((words, words[-1], self.starting[name]))
        return works

    def command_of(self, target):
        """The line that links a program."""
        return subprocess.run(["ninja", "-C", self.folder, "-t", "commands", target], check=True, capture_output=True,
                              text=True).stdout.strip().split("\n")[-1]

    def object(self, name):
        return os.path.join(self.scratch, "objects", name.replace("/", "+") + ".o")

    def program(self, target):
        return os.path.join(self.scratch, "programs", target)

    def compile(self, words, path, to):
        """Whether a file compiles by the command of another; `to` names the object, or is None."""
        words = words[:words.index("-o")] + words[words.index("-o") + 2:-2]  # ends with -c and the file
        ending = ["-o", to, "-c", path] if to else ["-fsyntax-only", path]
        return done(words + self.flags.split() + ["-w", "-include", os.path.join(TOOLS, "mutants.hpp")] + ending,
                    self.folder)[0]

    def object_of(self, path):
        """The object of a file of the tree among those of the program, if it is one of them."""
        return self.objects.get(os.path.join(self.source, path))

    def link(self, target, changed):
        """Links a program; `changed` gives the objects of changed files by those that they replace. One of a library goes
        before it: the linker then takes no other from there."""
        line = self.links[target]
        for name, instead in itertools.chain(changed.items(), self.starting.items()):
            line = re.sub(r"(?<=\s)" + re.escape(name) + r"(?=\s)", instead, line)
        line = line.replace("tests/libplan_test_main.a", self.main)
        of_library = [instead for name, instead in changed.items() if self.library(name) + " " in line + " "]
        line = re.sub(r" -o \S+", lambda m: " ".join([""] + of_library + [self.switch, "-o", self.program(target)]), line)
        return done(["sh", "-c", line], self.folder)

    def library(self, name):
        folder, _, rest = name.partition("/CMakeFiles/")
        return f" {folder}/lib{rest.split('.dir/')[0]}.a"


def stages(mutant):
    """(test, which of its cases) in the order in which a change is tried on them: the folder's own test first, whole."""
    own, *others = TESTS[mutant.folder]
    return [(own, "quick"), (own, "slow")] + [(name, kind) for kind in ("quick", "slow") for name in others] + [
        (name, "kept") for name in TESTS[mutant.folder]]


class Rounds:
    """Tries changes, some at once."""

    def __init__(self, build, tests, jobs):
        self.build, self.tests, self.jobs = build, tests, jobs
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)
        self.invalid, self.not_tried = [], []

    def write(self, path, text):
        there = os.path.join(self.build.scratch, "sources", path.replace("/", "+"))
        with open(there, "w") as file:
            file.write(text)
        return there

    def alone(self, mutant, text, words, instead=None):
        """Whether a change compiles with no other: switched, or for good."""
        if instead is None:
            instead = mutants.switched(text, [mutant])[0]
        there = self.write(f"{mutant.id}-{mutant.path}", instead)
        good = self.build.compile(words, there, None)
        os.remove(there)
        return good

    def text(self, path):
        return open(os.path.join(self.build.source, path)).read()

    def source_of(self, words, texts):
        """The path of what a command compiles, with these texts in place of files of the tree."""
        paths = {os.path.join(self.build.source, path): self.write(path, text) for path, text in texts.items()}
        if len(files_of(words)) == 1:
            return next(iter(paths.values()))
        together = open(words[-1]).read()
        for path, instead in paths.items():
            together = together.replace(f'"{path}"', f'"{instead}"')
        return self.write(os.path.basename(words[-1]), together)

    def sifted(self, words, path, changes):
        """Takes out of the changes of a file what does not compile, and what cannot be switched."""
        text = self.text(path)
        for mutant in list(changes):
            if self.alone(mutant, text, words):
                continue
            mutant.convert = re.fullmatch(r"[\d']+", mutant.other) is not None
            if mutant.convert and self.alone(mutant, text, words):
                continue
            lines = text.split("\n")
            lines[mutant.number - 1] = mutant.changed()
            (self.not_tried if self.alone(mutant, text, words, "\n".join(lines)) else self.invalid).append(mutant)
            changes.remove(mutant)

    def written(self, work):
        """(the object that changes replace, its replacement, the changes in it, those that wait); `work` is the name of
        the object and the changes of each of its files."""
        name, by_file = work
        words, instead = self.build.compiled[name], self.build.object(name)
        for attempt in range(2):
            switched = {path: mutants.switched(self.text(path), changes) for path, changes in by_file.items() if changes}
            late = [mutant for _, waiting in switched.values() for mutant in waiting]
            within = [m for changes in by_file.values() for m in changes if m not in late]
            texts = {path: text for path, (text, _) in switched.items()}
            if within and self.build.compile(words, self.source_of(words, texts), instead):
                return name, instead, within, late
            if attempt or not within:
                break
            for path, changes in by_file.items():
                if len(by_file) == 1 or not self.build.compile(words, self.write(path, texts[path]), None):
                    self.sifted(words, path, changes)
        self.not_tried += [mutant for changes in by_file.values() for mutant in changes]
        return None

    def prepare(self, changes):
        """Writes, compiles and links changes. Those that can be tried, and those that must wait for another round because
        they stand in the middle of another."""
        by_object = {}
        for mutant in changes:
            name = self.build.object_of(mutant.path)
            if name is None:  # not part of this build
                self.not_tried.append(mutant)
            else:
                by_object.setdefault(name, {}).setdefault(mutant.path, []).append(mutant)
        within, late, replaced = [], [], {}
        for result in self.pool.map(self.written, by_object.items()):
            if result:
                name, instead, some, others = result
                replaced[name] = instead
                within += some
                late += others
        within.sort(key=lambda m: m.id)
        needed = sorted({test for mutant in within for test in TESTS[mutant.folder]})
        for good, output in self.pool.map(lambda target: self.build.link(target, replaced),
                                          ["plan"] + ["test_" + test for test in needed]):
            if not good:
                sys.exit(output + "mutate.py: the changed program does not link")
        return within, late


class Decided:
    """What became of changes, kept in a file as soon as it is known: a run of hours that is stopped can go on."""

    def __init__(self, path, source, options):
        """Of another seed or tree it keeps nothing."""
        tree = b"".join(subprocess.run(["git", "-C", source, *words], capture_output=True).stdout
                        for words in (["rev-parse", "HEAD"], ["diff", "HEAD"]))
        self.path, of = path, f"{options.seed} {options.scale} {options.seconds_each} {hashlib.sha256(tree).hexdigest()}"
        head, *rows = open(path).read().splitlines() if options.go_on and os.path.exists(path) else [""]
        self.rows = dict(json.loads(row) for row in rows) if head == of else {}
        if not self.rows:
            with open(path, "w") as file:
                file.write(of + "\n")

    def add(self, mutant, killer):
        with open(self.path, "a") as file:
            file.write(json.dumps([str(mutant), killer]) + "\n")


def report(options, folders, outcomes, undecided, rounds):
    """Prints the figures, and gives the score, in which a change that was given up, or that time left undecided, counts as
    one that survived: what is noticed is noticed early."""
    count = sum(map(len, (outcomes, undecided, rounds.invalid, rounds.not_tried)))
    print(f"\nseed {options.seed}: {count} changes, {len(rounds.invalid)} do not compile, {len(rounds.not_tried)} are "
          f"not tried, for they cannot be switched, {len(undecided)} are undecided, for time was up\n")
    print(f"{'folder':<12} killed survived given up undecided not tried  score")
    score = None
    for name in folders + ["all"]:
        mine = [killer for mutant, killer in outcomes if name in ("all", mutant.folder)]
        late, left = (sum(name in ("all", m.folder) for m in some) for some in (undecided, rounds.not_tried))
        survived, given_up = mine.count(None), mine.count(GIVEN_UP)
        killed = len(mine) - survived - given_up
        score = killed / (len(mine) + late) if mine else None
        words = f"{'at least ' if given_up + late else ''}{100 * score:.0f} %" if mine else "-"
        print(f"{name:<12} {killed:6} {survived:8} {given_up:8} {late:9} {left:9}  {words}")
    return score


def arguments():
    """What was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1", help="any word")
    parser.add_argument("--count", type=int, default=10 ** 6)
    parser.add_argument("--skip", type=int, default=0, help="the first so many of them were tried before")
    parser.add_argument("--go-on", action="store_true",
                        help="take what a run of the same seed, scale and tree had decided when it was stopped")
    parser.add_argument("--verbose", action="store_true", help="say of every change what became of it")
    parser.add_argument("--minutes", type=float, default=10 ** 6, help="what is not decided after so many stays so")
    parser.add_argument("--seconds-each", type=float, default=math.inf, metavar="N",
                        help="give a change up that cases of so many seconds did not notice")
    parser.add_argument("--folder", action="append", choices=FOLDERS)
    parser.add_argument("--replay", help="FILE:LINE")
    parser.add_argument("--list", action="store_true", help="print the changes that would be tried, and try none")
    parser.add_argument("--build", default="build-mutate/tree",
                        help="of the tree as it is; made if need be, and brought up to date")
    parser.add_argument("--scratch", default="build-mutate")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--scale", default="0.1", help="PLAN_TEST_SCALE")
    parser.add_argument("--flags", default="-O1 -g0", help="of the compiler, for the files that are changed")
    parser.add_argument("--least", type=float, default=0, help="fail below this share of killed changes (0.85)")
    return parser.parse_args()


def main():
    options = arguments()
    source, folders = os.path.realpath(os.path.join(TOOLS, "../..")), options.folder or FOLDERS
    drawn = itertools.islice(mutants.drawn(source, folders, options.seed, options.replay), options.skip, options.count)
    if options.list:
        for mutant in drawn:
            print(mutant)
        return
    build = Build(source, os.path.realpath(options.build), os.path.realpath(options.scratch), options.flags)
    needed = sorted({test for folder in folders for test in TESTS[folder]})
    works = build.prepare(needed)
    begun = time.time()  # of what is asked for in minutes: how long a build takes is another matter
    listed = subprocess.run(["ctest", "--test-dir", build.folder, "--show-only=json-v1"], check=True, capture_output=True,
                            text=True).stdout
    env = dict(os.environ, PLAN_TEST_SCALE=options.scale, UBSAN_OPTIONS="halt_on_error=1")
    tests = {test["name"]: Tests(build, test["name"], test["command"],
                                 next(p["value"] for p in test["properties"] if p["name"] == "WORKING_DIRECTORY"), env)
             for test in json.loads(listed)["tests"] if test["name"] in needed}
    for test in tests.values():
        test.until = begun + 60 * options.minutes
    rounds, decided = Rounds(build, tests, options.jobs), Decided(
        os.path.join(build.scratch, "decided"), source, options)
    if not all(rounds.pool.map(lambda work: build.compile(*work), works)):
        sys.exit("mutate.py: the switch does not compile")
    outcomes, undecided, late, ids = [], [], [], itertools.count()
    in_time = lambda: time.time() - begun < 60 * options.minutes

    def tell(mutant, killer):
        outcomes.append((mutant, killer))
        decided.add(mutant, killer)
        if options.verbose or not killer:
            met = any(mutant.id in tests[name].met for name in TESTS[mutant.folder])
            print(f"killed by {killer}" if killer else "given up" if killer is GIVEN_UP else
                  "survived" if met else "no test comes by", mutant, flush=True)

    size = min(ROUND, max(1, int(5 * options.minutes)))  # as many as are decided in that time
    while in_time():
        some = late + list(itertools.islice(drawn, size - len(late)))
        if not some:
            break
        for mutant in filter(lambda m: str(m) in decided.rows, some):
            outcomes.append((mutant, decided.rows[str(mutant)]))
            if not decided.rows[str(mutant)]:
                print("given up before" if decided.rows[str(mutant)] is GIVEN_UP else "survived before", mutant)
        some = [mutant for mutant in some if str(mutant) not in decided.rows]
        if not some:
            continue
        for mutant in some:
            mutant.id = next(ids)
        within, late = rounds.prepare(some)
        if options.verbose:
            print(f"{len(within)} changes are written after {time.time() - begun:.0f} s", flush=True)
        undecided += Trial(tests, within, stages, in_time, tell, options.seconds_each).run(options.jobs)
    for mutant in rounds.not_tried:
        print("not tried", mutant)
    score = report(options, folders, outcomes, undecided, rounds)
    if score is None and rounds.not_tried:
        sys.exit("mutate.py: none of the changes could be tried")
    sys.exit(1 if score is not None and score < options.least else 0)


if __name__ == "__main__":
    main()

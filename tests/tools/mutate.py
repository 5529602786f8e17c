#!/usr/bin/env python3
"""mutate.py: which changes of the program would no test notice?

Changes one operator, comparison, constant, line or axis at a time in a copy of the tree, builds what depends on it, and
runs the tests of its folder, then those of the folders above: first the cases of all of them that take under a second,
then the others, until one fails. A change that some test notices is killed; one that none notices survives and is printed
with its place. The score is killed / (killed + survived).

  tests/tools/mutate.py --count 200                    a night: 200 changes, at most 3 a file
  tests/tools/mutate.py --minutes 10                   a sample, as CI takes it
  tests/tools/mutate.py --folder formulas --seed 7     one folder
  tests/tools/mutate.py --replay formulas/gemm.cpp:46  every change of one line
  tests/tools/mutate.py --list --folder presets        the changes that would be tried, to read

The same seed draws the same changes. What a compiler refuses does not count. Survivors may be equivalent to what they
replace: read them.
"""
import argparse
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Tests that see a folder, its own first, by ctest's names.
TESTS = {
    "formulas": ["formulas", "planner", "stages", "presets", "cli", "acceptance"],
    "planner": ["planner", "pools", "stages", "cli", "scenarios", "acceptance"],
    "presets": ["presets", "planner", "cli"],
    "hwprobe": ["hwprobe", "probe_check", "probe_ranks", "presets", "cli"],
    "cli/launch": ["launch", "frameworks", "hostile_launch", "cli"],
    "cli": ["cli", "launch", "logs", "hostile", "faulty_runs"],
}
IDLE = 60  # seconds on the clock for which a program of tests may wait for something without running
SLOW = 1.0  # seconds of a case, from which on it waits until every quicker one has passed
FOLDERS = ["formulas", "planner", "presets", "hwprobe", "cli/launch", "cli"]
OPERATORS = [
    (r"(?<![<>=!+\-*/&|:])<(?![<=])(?= )", ["<=", ">"]), (r"(?<=\s)>(?=\s)", [">=", "<"]), (r"<=(?!>)", ["<", ">"]),
    (r"(?<!-)>=", [">", "<"]), (r"==", ["!="]), (r"!=", ["=="]), (r"&&", ["||"]), (r"\|\|", ["&&"]),
    (r"(?<=\s)\+(?=\s)", ["-"]), (r"(?<=\s)-(?=\s)", ["+"]), (r"(?<=\s)\*(?=\s)", ["/"]), (r"(?<=\s)/(?=\s)", ["*"]),
    (r"\btrue\b", ["false"]), (r"\bfalse\b", ["true"]), (r"\bstd::min\b", ["std::max"]), (r"\bstd::max\b", ["std::min"]),
    (r"\.tp\b", [".pp"]), (r"\.pp\b", [".tp"]), (r"\.cp\b", [".dp"]), (r"\.dp\b", [".cp"]),
    (r"(?<![\w.\"'])(?<!\de[+-])\d[\d']*(?![\w.\"'])", None),  # constants: see other_constants
]
# Places where a change says nothing of the tests: room that is set aside, the size of a buffer of characters, what stands
# in front of a string (text + "x" compiles with no other sign), the size in the type of an array, and how long a loop
# sleeps before it looks again.
NO_EFFECT = [r"\.reserve\(.*", r"\bchar \w+\[[^\]]*\]", r"\barray<[^<>]*, \d+>", r"[+*/-] (?=\")", r'(?<=") [+*/-]',
             r"\bsleep_for\(.*"]
STATEMENT = re.compile(r"^\s+(?!return|const|auto|for|if|else|case|break|continue|using|std::|struct)[\w.>\-:\[\]()]+"
                       r"( [+\-*/|&]?= |\().*;\s*$")


def folder_of(path):
    if path.startswith("cli/launch/"):
        return "cli/launch"
    return path.split("/")[0]


def code_of(line):
    """The line with comments and strings blanked out, position by position."""
    line = re.sub(r'"(\\.|[^"\\])*"', lambda m: '"' + "~" * (len(m.group()) - 2) + '"', line)
    line = re.sub(r"'(\\.|[^'\\])'", lambda m: "~" * len(m.group()), line)
    return re.sub(r"//.*", lambda m: "~" * len(m.group()), line)


def raw_lines(lines):
    """The numbers of the lines that a raw string of several lines covers: text of scripts and of pages, whose minus signs
    and sizes of type are no arithmetic."""
    text, inside = "\n".join(lines), set()
    for found in re.finditer(r'R"([^()\s]*)\(.*?\)\1"', text, re.S):
        first = text.count("\n", 0, found.start()) + 1
        last = first + found.group().count("\n")
        inside |= set(range(first, last + 1)) if last > first else set()
    return inside


def other_constants(code, match):
    """What a constant becomes. Small ones are counts and places, where one more is a mistake that people make; of large
    ones, which are limits, sizes and measured constants, one more in thousands is no other program: they are doubled. No
    oracle knows what was measured to the digit, but twice as much is wrong by any: a GPU that was measured is priced as if
    it had not been (tests/presets/unmeasured_test.cpp), published runs are predicted (acceptance), and a limit stands in
    the manual. One that survives doubled is held by nothing, and belongs into a preset with its source or under a
    property. Decimal fractions and exponents stay: a tolerance of 1e-7 in place of 1e-6 is no other program either. A lone
    minus one is a word for nothing, which minus two is, too."""
    value = int(match.group().replace("'", ""))
    nothing = value == 1 and re.search(r"(return|[=?:,(]) -$", code[:match.start()])
    return ([] if nothing else [str(value + 1 if value <= 16 else 2 * value)]) + (["0"] if value > 0 else [])


# A comparison with and without "or equal".
BOUNDARIES = {("<", "<="), ("<=", "<"), (">", ">="), (">=", ">")}


def at_fraction(code, match, other):
    """Whether a comparison is with a decimal fraction that binary has not, and changes at that number alone: no measured
    time and no share is equal to it to the last bit. What is multiplied by one, or one like 0.5, may be."""
    if (match.group(), other) not in BOUNDARIES:
        return False
    number = r"(\d[\d']*\.\d+(?:e[+-]?\d+)?)"
    found = (re.match(r"\s*" + number + r"(?=\s*($|[;,)?:]|&&|\|\|))", code[match.end():]) or
             re.search(r"(?:[(,;:?=]|&&|\|\||return)\s*" + number + r"\s*$", code[:match.start()]))
    return found is not None and (float(found[1].replace("'", "")) * 2 ** 20) % 1 != 0


def unreachable(lines, number):
    """Whether a line stands behind a switch that returns in every case: compilers want it, and nothing runs it."""
    before = lines[number - 2] if number > 1 else ""
    if not lines[number - 1].lstrip().startswith("return") or before.strip() != "}":
        return False
    margin = before[:before.index("}")]
    inside = []
    for line in reversed(lines[:number - 2]):
        if line.startswith(margin + "switch ("):
            return not any(re.match(r"\s*(default:|break;)", other) or "break;" in other for other in inside)
        if not line.startswith(margin + " "):
            return False
        inside.append(line)
    return False


def filled_next(lines, number):
    """Whether the variable that this line begins with a number is filled before it is read: by from_chars on one of the
    next two lines, or by a reader in the condition of the next one."""
    name = re.match(r"\s*[\w:]+ (\w+) = \d+;", lines[number - 1])
    return name is not None and (
        re.search(r"from_chars\(.*\b" + name[1] + r"\)", " ".join(lines[number:number + 2])) or
        re.match(r"\s*if \((!?\w+\.)?(quantity|number|integer)\([^,]*, " + name[1] + r"\b", " ".join(lines[number:number + 1])))


def mutants_of(path, number, lines):
    """Every (path, line number, new line) that one line gives."""
    line = lines[number - 1]
    code = code_of(line)
    if unreachable(lines, number) or filled_next(lines, number):
        return
    for pattern in NO_EFFECT:
        code = re.sub(pattern, lambda m: "~" * len(m.group()), code)
    if code.lstrip().startswith(("#", "static_assert", "template", "namespace", "using", "///")) or "\\" == code.rstrip()[-1:]:
        return
    for pattern, others in OPERATORS:
        for match in re.finditer(pattern, code):
            if match.group() == "<" and re.search(r"[\w>]\s*$", code[:match.start()]) and "template" in code:
                continue
            choices = others
            if choices is None:
                choices = other_constants(code, match)
            for other in choices:
                if at_fraction(code, match, other):
                    continue
                yield path, number, line[:match.start()] + other + line[match.end():]
    if STATEMENT.match(line) and "~" not in code:
        yield path, number, re.sub(r"\S.*", ";", line, count=1)


def ticks_of(session):
    """What the processes of a session have run by now, in ticks of the clock, those among them that ended included."""
    ticks = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = open(f"/proc/{name}/stat").read().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks


class Tree:
    """A copy of the sources with a build of its own, kept from run to run."""

    def __init__(self, source, root, jobs, scale, flags):
        self.source, self.root, self.jobs, self.flags = source, root, jobs, flags
        self.build_folder = os.path.join(root, "build")
        self.tree = os.path.join(root, "tree")
        self.env = dict(os.environ, PLAN_TEST_SCALE=scale, UBSAN_OPTIONS="halt_on_error=1")

    def make(self):
        os.makedirs(self.tree, exist_ok=True)
        names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=self.source, check=True,
                               capture_output=True, text=True).stdout.split("\n")
        for name in filter(None, names):
            here, there = os.path.join(self.source, name), os.path.join(self.tree, name)
            if not os.path.isfile(here):
                continue
            if os.path.exists(there) and open(here, "rb").read() == open(there, "rb").read():
                continue
            os.makedirs(os.path.dirname(there), exist_ok=True)
            shutil.copy(here, there)
        options = ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=" + self.flags, "-DPLAN_HOT=-O1", "-DPLAN_CUDA=OFF",
                   "-DPLAN_HIP=OFF"]
        if shutil.which("ccache"):
            options.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
        subprocess.run(["cmake", "-S", self.tree, "-B", self.build_folder, "-G", "Ninja"] + options, check=True,
                       stdout=subprocess.DEVNULL)

    def build(self, tests):
        """Whether `plan`, which some tests start, and the programs of these tests can be built."""
        targets = ["plan"] + ["test_" + test for test in tests]
        return subprocess.run(["cmake", "--build", self.build_folder, "--parallel", str(self.jobs), "--target"] + targets,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0

    def commands(self):
        """name -> (words, folder) of the tests of ctest whose programs are built."""
        listed = subprocess.run(["ctest", "--test-dir", self.build_folder, "--show-only=json-v1"], check=True,
                                capture_output=True, text=True).stdout
        return {test["name"]: (test["command"],
                               next(p["value"] for p in test["properties"] if p["name"] == "WORKING_DIRECTORY"))
                for test in json.loads(listed)["tests"] if "command" in test}

    def run(self, command, words, limit):
        """Exit status and output of a program of tests. One of whose processes runs for more than `limit` seconds of CPU
        fails: seconds on the clock would call a change noticed because the machine was busy. One that waits for ever
        fails too: for IDLE seconds neither it nor what it started has run at all."""
        def bounded():
            resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit)))

        with tempfile.TemporaryFile("w+", errors="replace") as output:
            run = subprocess.Popen(command[0] + words, cwd=command[1], env=self.env, stdout=output, text=True,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, preexec_fn=bounded,
                                   start_new_session=True)
            ran, since = -1, time.time()
            while True:
                try:
                    status = run.wait(timeout=2)
                    break
                except subprocess.TimeoutExpired:
                    now = ticks_of(run.pid)
                    if now != ran:
                        ran, since = now, time.time()
                    elif time.time() - since > IDLE:
                        os.killpg(run.pid, signal.SIGKILL)
                        run.wait()
                        return 1, ""
            output.seek(0)
            return status, output.read()

    def write(self, path, lines):
        with open(os.path.join(self.tree, path), "w") as file:
            file.write("\n".join(lines))


def drawn(source, folders, seed, replay):
    """(folder, path, line number, new line) in the order in which they are tried: folders in turn, files at random, at
    most three a file."""
    random_ = random.Random(seed)
    pools = {folder: [] for folder in folders}
    for top in sorted({folder.split("/")[0] for folder in folders}):
        for base, _, files in sorted(os.walk(os.path.join(source, top))):
            for name in sorted(files):
                path = os.path.relpath(os.path.join(base, name), source)
                if not name.endswith(".cpp") or "/cuda/" in path or folder_of(path) not in pools:
                    continue
                mutants = []
                lines = open(os.path.join(source, path)).read().split("\n")
                raw = raw_lines(lines)
                for number in range(1, len(lines) + 1):
                    if number not in raw and replay in (None, f"{path}:{number}"):
                        mutants += list(mutants_of(path, number, lines))
                random_.shuffle(mutants)
                pools[folder_of(path)] += mutants if replay else mutants[:3]
    for pool in pools.values():
        random_.shuffle(pool)
    while any(pools.values()):
        for folder in folders:
            if pools[folder]:
                yield (folder,) + pools[folder].pop()


class Cases:
    """The cases of one program of tests, the quick ones apart from the slow."""

    def __init__(self, tree, name, command):
        self.tree, self.command = tree, command
        start = resource.getrusage(resource.RUSAGE_CHILDREN)
        status, output = tree.run(command, ["--duration=true"], 3600)
        end = resource.getrusage(resource.RUSAGE_CHILDREN)
        if status != 0:
            sys.exit(f"mutate.py: {name} fails as it is")
        self.limit = 3 * (end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime) + 20
        times = re.findall(r"^([0-9.]+) s: (.*)$", output, re.M)
        self.slow = [name for seconds, name in times if float(seconds) > SLOW]

    def passes(self, slow):
        """Whether the quick cases, or the slow ones, pass."""
        if slow and not self.slow:
            return True
        # A comma separates names, and a backslash says that it does not. Two words of one kind are not one list.
        names = [name.replace(",", "\\,") for name in self.slow]
        others = [word for word in self.command[0] if not word.startswith("-tce=")]
        left_out = [word[len("-tce="):] for word in self.command[0] if word.startswith("-tce=")]
        words = ["--abort-after=1", "--no-breaks=true"]
        words += ["-tc=" + ",".join(names)] if slow else []
        left_out += [] if slow else names
        words += ["-tce=" + ",".join(left_out)] if left_out else []
        return self.tree.run((others, self.command[1]), words, self.limit)[0] == 0


def killer_of(tree, cases, names):
    """The tests that notice the change that is in the tree, or None; False where it does not compile."""
    for slow in (False, True):
        for name in names:
            if not slow and not tree.build([name]):
                return False
            if not cases[name].passes(slow):
                return name
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", default="1", help="any word")
    parser.add_argument("--count", type=int, default=10 ** 6)
    parser.add_argument("--skip", type=int, default=0, help="the first so many of them were tried before")
    parser.add_argument("--verbose", action="store_true", help="say of every change what became of it")
    parser.add_argument("--minutes", type=float, default=10 ** 6, help="no new change is begun after so many")
    parser.add_argument("--folder", action="append", choices=FOLDERS)
    parser.add_argument("--replay", help="FILE:LINE")
    parser.add_argument("--list", action="store_true", help="print the changes that would be tried, and try none")
    parser.add_argument("--scratch", default="build-mutate")
    parser.add_argument("--scale", default="0.1", help="PLAN_TEST_SCALE")
    parser.add_argument("--flags", default="-O0 -g0", help="of the compiler; -O2 pays when many changes are tried")
    parser.add_argument("--least", type=float, default=0, help="fail below this share of killed changes (0.85)")
    options = parser.parse_args()
    source = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
    if options.list:
        for _, path, number, changed in itertools.islice(
                drawn(source, options.folder or FOLDERS, options.seed, options.replay), options.skip, options.count):
            before = open(os.path.join(source, path)).read().split("\n")[number - 1]
            print(f"{path}:{number}\n  - {before.strip()}\n  + {changed.strip()}")
        return
    tree = Tree(source, os.path.realpath(options.scratch), os.cpu_count() or 2, options.scale, options.flags)
    folders = options.folder or FOLDERS
    begun = time.time()
    tree.make()
    needed = sorted({test for folder in folders for test in TESTS[folder]})
    if not tree.build(needed):
        sys.exit("mutate.py: the tree as it is does not build")
    commands = tree.commands()
    cases = {name: Cases(tree, name, commands[name]) for name in needed}
    killed, survived = {f: 0 for f in folders}, {f: 0 for f in folders}
    tried = invalid = 0
    for folder, path, number, changed in drawn(source, folders, options.seed, options.replay):
        if tried >= options.count or time.time() - begun > 60 * options.minutes:
            break
        tried += 1
        if tried <= options.skip:
            continue
        lines = open(os.path.join(source, path)).read().split("\n")
        before, lines[number - 1] = lines[number - 1], changed
        tree.write(path, lines)
        killer = killer_of(tree, cases, TESTS[folder])
        lines[number - 1] = before
        tree.write(path, lines)
        if killer is False:
            invalid += 1
        elif killer:
            killed[folder] += 1
        else:
            survived[folder] += 1
        if not killer and killer is not False or options.verbose:
            what = "survived" if killer is None else f"killed by {killer}" if killer else "does not compile"
            print(f"{what} {path}:{number}\n  - {before.strip()}\n  + {changed.strip()}", flush=True)
    tried -= min(tried, options.skip)
    print(f"\nseed {options.seed}: {tried} changes, {invalid} do not compile\n")
    print(f"{'folder':<12} killed survived  score")
    for name in folders + ["all"]:
        k = sum(killed.values()) if name == "all" else killed[name]
        s = sum(survived.values()) if name == "all" else survived[name]
        print(f"{name:<12} {k:6} {s:8}  " + (f"{100 * k / (k + s):4.0f} %" if k + s else "     -"))
    total = sum(killed.values()) + sum(survived.values())
    sys.exit(1 if total and sum(killed.values()) / total < options.least else 0)


if __name__ == "__main__":
    main()

"""mutant_tests.py: programs of tests as mutate.py runs them: which case comes by which change, and whether it fails when
that change is switched on.
"""
import contextlib
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time

IDLE = 60  # seconds on the clock in which a program of tests that waits for something must have run for a hundredth
SLOW = 1.0  # seconds of a case, from which on it waits until every quicker one has passed
GIVEN_UP = False  # what becomes of a change that was not noticed in the seconds that it has, in place of the test's name
MEMORY = 4 << 30  # bytes of a process of tests


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


def case_words(names):
    """What chooses cases. A comma separates names, and a backslash says that it does not."""
    return ["-tc=" + ",".join(re.sub(r"([\\,])", r"\\\1", name) for name in names)]


class Tests:
    """One program of tests: how it is run, how long each case takes, and which change each comes by."""

    def __init__(self, build, name, command, folder, env):
        self.name, self.folder, self.env, self.scratch = name, folder, env, build.scratch
        self.command = [build.program("test_" + name)] + command[1:]
        self.times, self.met, self.until = {}, {}, math.inf

    def late(self):
        """Whether time is up: what runs then is ended, and says nothing."""
        return time.time() > self.until

    def run(self, words, extra, limit=3600):
        """Exit status and output. A process that runs for more than `limit` seconds of CPU fails: seconds on the clock
        would call a change noticed because the machine was busy. One that waits for ever fails too: in IDLE seconds it and
        what it started have run for less than a hundredth, which is a look at the clock now and then. So does one that
        fills the memory."""
        def bounded():
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

        with tempfile.TemporaryFile("w+", errors="replace") as out:
            run = subprocess.Popen(self.command + words, cwd=self.folder, env=dict(self.env, **extra), stdout=out,
                                   stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, preexec_fn=bounded,
                                   start_new_session=True)
            ran, since, status = 0, time.time(), None
            while status is None:
                try:
                    status = run.wait(timeout=2)
                except subprocess.TimeoutExpired:
                    now = ticks_of(run.pid)
                    waited = time.time() - since
                    if now - ran > waited:  # of the hundred ticks that a second has
                        ran, since = now, time.time()
                    if self.late() or waited > IDLE:
                        status = 1
            with contextlib.suppress(ProcessLookupError):  # what it left behind, or itself
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            out.seek(0)
            return status, out.read()

    def look(self):
        """Runs all cases with nothing switched on."""
        log = os.path.join(self.scratch, "met-" + self.name)
        open(log, "w").close()
        status, output = self.run(["--duration=true"], {"PLAN_MUTANT_LOG": log})
        if self.late():
            return None
        if status != 0:  # once more, for what fails once may be the machine's doing
            blocks = [block for block in re.split(r"^={79}$", output, flags=re.M) if " ERROR:" in block]
            names = [name for block in blocks for name in re.findall(r"^TEST CASE:  (.*)$", block, re.M)]
            status, again = self.run(case_words(names), {}) if names else (status, output[-3000:])
            if status != 0 and not self.late():
                return f"{self.name} fails as it is\n{again}"
        self.times = {name: float(seconds) for seconds, name in re.findall(r"^([0-9.]+) s: (.*)$", output, re.M)}
        self.met = {}  # change -> cases; what runs before every case has the name ""
        for line in open(log):
            name, _, number = line.rstrip("\n").rpartition("\t")
            self.met.setdefault(int(number), set()).add(name)
        return None

    def cases(self, mutant, kind):
        """The cases that come by a change, quickest first: the quick ones, or the slow ones. Those that are kept from it:
        what one case or two came by may be a table that is filled once and read by all that follow."""
        met = self.met.get(mutant.id, set())
        if kind == "kept":
            return [name for name, seconds in self.times.items() if seconds <= SLOW] if 0 < len(met) <= 2 else []
        names = self.times if "" in met else met & self.times.keys()
        return sorted((name for name in names if (self.times[name] > SLOW) == (kind == "slow")), key=self.times.get)

    def affordable(self, mutant, kind):
        """Those of these cases that a change has seconds left for. Slow ones get half of them, for quick ones of another
        program follow."""
        names, ends = self.cases(mutant, kind), 0.0
        left = mutant.left / 2 if kind == "slow" else mutant.left
        for count, name in enumerate(names):
            ends += self.times[name]
            if ends > left:
                mutant.skipped = True
                return names[:count]
        return names

    def notice(self, mutant, kind):
        """Whether one of these cases fails under a change, twice: what fails once may be the machine's doing. None where
        time is up first."""
        names, size = self.affordable(mutant, kind), 1 if kind == "slow" else 12
        while names:
            some, names, size = names[:size], names[size:], 2 * size
            mutant.left -= sum(map(self.times.get, some))
            words = ["--abort-after=1", "--no-breaks=true"] + case_words(some)
            limit = int(4 * sum(map(self.times.get, some)) + 10)
            if all(self.run(words, {"PLAN_MUTANT": str(mutant.id)}, limit)[0] != 0 for _ in range(2)):
                return None if self.late() else True
        return None if self.late() else False


class Trial:
    """Tries changes on programs of tests, some at a time. A program runs with nothing switched on when a change first
    wants it: what the small ones notice, the large ones need not be asked."""

    def __init__(self, tests, changes, stages, in_time, tell, seconds_each=math.inf):
        self.tests, self.in_time, self.tell = tests, in_time, tell
        for mutant in changes:
            mutant.left, mutant.skipped = seconds_each, False  # of cases that may still run; whether some did not
        self.open = [(0, mutant, stages(mutant)) for mutant in changes]  # with the number of stages that are behind it
        self.unseen, self.seen = {name for _, _, steps in self.open for name, _ in steps}, set()
        self.running, self.fault, self.lock = 0, None, threading.Condition()

    def next(self):
        """What a thread does next: a change that came least far, or the name of the program that it waits for; None when
        nothing is left."""
        with self.lock:
            while not self.fault and self.in_time():
                named = [(behind, steps[behind][0], (behind, mutant, steps)) for behind, mutant, steps in self.open]
                for _, name, item in sorted(named, key=lambda row: (row[0], row[1] not in self.seen)):
                    if name in self.seen:
                        self.open.remove(item)
                    elif name in self.unseen:
                        self.unseen.remove(name)
                        item = name
                    else:
                        continue
                    self.running += 1
                    return item
                if not self.running:
                    break
                self.lock.wait(5)
            return None

    def work(self):
        for item in iter(self.next, None):
            if isinstance(item, str):
                fault = self.tests[item].look()
                with self.lock:
                    self.fault = self.fault or fault
                    self.seen.add(item)
            else:
                behind, mutant, steps = item
                name, kind = steps[behind]
                noticed = self.tests[name].notice(mutant, kind)
                with self.lock:
                    if noticed is None:
                        self.open.append(item)
                    elif noticed or behind + 1 == len(steps):
                        self.tell(mutant, name if noticed else GIVEN_UP if mutant.skipped else None)
                    else:
                        self.open.append((behind + 1, mutant, steps))
            with self.lock:
                self.running -= 1
                self.lock.notify_all()

    def run(self, jobs):
        """The changes of which time does not tell what becomes."""
        threads = [threading.Thread(target=self.work) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.fault:
            sys.exit("mutate.py: " + self.fault)
        return [mutant for _, mutant, _ in self.open]

"""mutants.py: the changes that mutate.py tries: which there are, which of them a seed draws, and how a file is written that
holds several of them at once, each switched on at run time by its number (mutants.hpp).
"""
import os
import random
import re

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
    it had not been (tests/presets/unmeasured_test.cpp), published runs are predicted (acceptance), and a limit is in
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
    """Whether a line is behind a switch that returns in every case: compilers want it, and nothing runs it."""
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


class Mutant:
    """A change of one line of a file: the characters from `start` to `end` of it become `other`."""

    def __init__(self, path, number, line, start, end, other):
        self.path, self.number, self.line, self.start, self.end, self.other = path, number, line, start, end, other
        self.folder = folder_of(path)
        self.id = 0  # the number that switches it on
        self.convert = False  # a constant that must become what its place wants, and is no int: see pieces_of

    def changed(self):
        return self.line[:self.start] + self.other + self.line[self.end:]

    def __str__(self):
        return f"{self.path}:{self.number}\n  - {self.line.strip()}\n  + {self.changed().strip()}"


def mutants_of(path, number, lines):
    """Every change that one line gives."""
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
                yield Mutant(path, number, line, match.start(), match.end(), other)
    if STATEMENT.match(line) and "~" not in code:
        yield Mutant(path, number, line, len(line) - len(line.lstrip()), len(line), ";")


def drawn(source, folders, seed, replay):
    """The changes in the order in which they are tried: folders in turn, files at random, at most three a file."""
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
                yield pools[folder].pop()

# How a change is written so that it can be switched. Every change is a token that is replaced, or what is put around an
# expression, so that changes within changes stand beside each other. mutants.hpp declares what is called.
KINDS = {"<": "LT", ">": "GT", "<=": "LE", ">=": "GE", "==": "EQ", "!=": "NE", "+": "ADD", "-": "SUB", "*": "MUL", "/": "DIV"}


def operand_begin(code, at):
    """Where the left operand of the && or || before `at` begins."""
    depth, at = 0, at - 1
    while at >= 0:
        c = code[at]
        if c in ")]}":
            depth += 1
        elif c in "([{":
            depth -= 1
            if depth < 0:
                return at + 1
        elif depth == 0:
            assigned = c == "=" and code[at + 1] != "=" and code[at - 1] not in "=<>!"
            if c in ";,?" or code[at - 1:at + 1] == "||" or assigned or re.search(r"\breturn$", code[max(0, at - 8):at + 1]):
                return at + 1
            if c == ":" and code[at - 1] != ":":
                return at + 1
            if c == ":":
                at -= 1
        at -= 1
    return 0


def operand_end(code, at):
    """Where the right operand of the && or || that ends at `at` ends."""
    depth = 0
    while at < len(code):
        c = code[at]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth < 0:
                return at
        elif depth == 0:
            if c in ";,?" or code[at:at + 2] == "||" or c == ":" and code[at + 1] != ":":
                return at
            if c == ":":
                at += 1
        at += 1
    return at


def object_begin(code, at):
    """Where the expression begins whose member is named at `at`."""
    depth = 0
    while at > 0:
        c = code[at - 1]
        if c in ")]":
            depth += 1
        elif c in "([":
            depth -= 1
            if depth < 0:
                break
        elif depth == 0 and not (re.match(r"[\w.:]", c) or code[at - 2:at] == "->" or code[at - 1:at + 1] == "->"):
            break
        at -= 1
    return at


class Span:
    """What one or more changes of the same token put into a text: around begin..end, and instead of first..last."""

    def __init__(self, begin, end, first, last):
        self.begin, self.end, self.first, self.last = begin, end, first, last
        self.mutants = []

    def beside(self, other):
        """Whether both can be written: apart, or one within an operand of the other."""
        if self.end <= other.begin or other.end <= self.begin:
            return True
        inner, outer = (self, other) if self.end - self.begin < other.end - other.begin else (other, self)
        return (outer.begin <= inner.begin and inner.end <= outer.first or
                outer.last <= inner.begin and inner.end <= outer.end)


def span_of(mutant, code, base):
    """Where a change is in the code of a file whose line begins at `base`."""
    first, last = base + mutant.start, base + mutant.end
    old = code[first:last]
    if mutant.other == ";":
        return Span(first, last, first, first)
    if old in ("&&", "||"):
        return Span(operand_begin(code, first), operand_end(code, last), first, last)
    if old.startswith("."):
        return Span(object_begin(code, first), last, first, last)
    return Span(first, last, first, last)


def pieces_of(span, code):
    """(before, instead, after): the texts of a span."""
    mutants, old = span.mutants, code[span.first:span.last]
    one, other = mutants[0].id, mutants[0].other
    on = f"plan_mutant({one})"
    if other == ";":
        return "{ if (!" + on + ") { ", "", " } }"
    if old in ("&&", "||"):  # by De Morgan, either is the other between negations
        return " (((bool(", f") != {on}) {old} (bool(", f"\n) != {on})) != {on}) "
    if old.startswith("."):
        return f"::mutants::{old[1:]}_or_{other[1:]}({one}, ", ")", ""
    if old in KINDS:
        ids = [(m.id, KINDS[m.other]) for m in mutants] + [(-2, KINDS[old])]
        (a, kind_a), (b, kind_b) = ids[:2]
        return "", f"{old} ::mutants::Op<::mutants::{kind_a}, ::mutants::{kind_b}>{{{a}, {b}}} {old}", ""
    if old in ("std::min", "std::max"):
        of_type = ".as" if code[span.last] == "<" else ""
        return "", f"::mutants::MinMax<{'true' if old == 'std::max' else 'false'}>{{{one}}}" + of_type, ""
    others = [(m.id, m.other) for m in mutants]
    if any(m.convert for m in mutants):
        (a, other_a), (b, other_b) = (others + [(-2, old)])[:2]
        return "", f"::mutants::Number<{old}, {other_a}, {other_b}>{{{a}, {b}}}", ""
    return "", "(" + "".join(f"plan_mutant({i}) ? {text} : " for i, text in others) + old + ")", ""


def constexpr_of(lines, number):
    """The number of the line of the constexpr within which a line stands, or None."""
    for n in range(number, max(0, number - 120), -1):
        code = code_of(lines[n - 1])
        if re.match(r"\s*(static |inline )*constexpr ", code):
            return n
        inside = code.startswith((" ", "}", ")")) or not code.strip()
        if not inside or n < number and (code.startswith("}") or code.rstrip().endswith(";")):
            return None
    return None


def switched(text, mutants):
    """(the text of a file with all of these changes in it, those that cannot stand beside the others)."""
    lines = text.split("\n")
    code = "\n".join(map(code_of, lines))
    begins = [0]
    for line in lines:
        begins.append(begins[-1] + len(line) + 1)
    spans, late, edits = {}, [], []
    for mutant in mutants:
        span = span_of(mutant, code, begins[mutant.number - 1])
        known = spans.get((span.first, span.last))
        if known and (mutant.other == ";") == (known.mutants[0].other == ";"):
            known.mutants.append(mutant)
        elif all(span.beside(other) for other in spans.values()):
            spans[span.first, span.last] = span
            span.mutants.append(mutant)
        else:
            late.append(mutant)
            continue
        at = constexpr_of(lines, mutant.number)
        if at:  # its value is known at run time only
            begin = begins[at - 1] + lines[at - 1].index("constexpr")
            edits.append((begin, 1, 0, begin + len("constexpr"), "const"))
    for span in spans.values():  # at one place, what ends goes before what begins, and the longer begins first
        before, instead, after = pieces_of(span, code)
        size = span.end - span.begin
        edits += [(span.begin, 1, -size, span.begin, before), (span.first, 2, 0, span.last, instead),
                  (span.end, 0, size, span.end, after)]
    for begin, _, _, end, new in sorted(set(edits), reverse=True):
        text = text[:begin] + new + text[end:]
    return text, late

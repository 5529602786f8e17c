#!/usr/bin/env python3
"""megatron_flags.py [--write] PYTHON MINOR=CHECKOUT...: the flags of Megatron-LM's own parsers against ours.

Asks the parser of each checkout (0.12=/src/core_v0.12.3 is `12=/src/core_v0.12.3`), under a PYTHON that has torch and
six, and compares names, numbers of values and releases with cli/launch/megatron/flags.cpp. --write makes
cli/launch/megatron/choices.cpp anew: the words that flags take, in any of the releases. Exit status 1: they differ.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE, CHOICES = ROOT / "cli/launch/megatron/flags.cpp", ROOT / "cli/launch/megatron/choices.cpp"
ASK = '''
import argparse, json, sys, types, typing
typing.override = getattr(typing, "override", lambda method: method)  # Python before 3.12
import torch.utils.cpp_extension as extensions
extensions.load = extensions.load_inline = lambda *a, **k: types.SimpleNamespace(__file__="/nowhere.so")
sys.path.insert(0, sys.argv[1])
from megatron.training import arguments
parser = arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
found = {}
for action in parser._actions:
    values = {"*": -1, "+": -1, None: 1, "?": 1}.get(action.nargs, action.nargs)
    words = [str(choice).removeprefix("AttnBackend.") for choice in action.choices or []]
    if not words and action.type in (int, float) and action.nargs != 0:
        words = ["<" + action.type.__name__ + ">"]
    for option in action.option_strings:
        if option.startswith("--") and option != "--help":
            found[option[2:]] = [values, words]
print(json.dumps(found))
'''
HEAD = '''// Words that Megatron-LM's parsers take behind a flag, in any release from core 0.{} to 0.{}. Made by
// tests/tools/megatron_flags.py from the parsers themselves.
#include "cli/launch/megatron/flags.hpp"

#include <algorithm>

namespace plan {{
namespace {{

struct Choices {{
  std::string_view flag;
  std::string_view words;  ///< between blanks, one at either end too; <int> and <float>: any such number
}};

constexpr Choices kChoices[] = {{
'''
TAIL = '''};

}  // namespace

std::string_view megatron_choices(std::string_view flag) {
  const auto* row = std::lower_bound(std::begin(kChoices), std::end(kChoices), flag,
                                     [](const Choices& choices, std::string_view name) { return choices.flag < name; });
  return row != std::end(kChoices) && row->flag == flag ? row->words : std::string_view();
}

}  // namespace plan
'''


def asked(python, checkout):
    out = subprocess.run([python, "-c", ASK, checkout], capture_output=True, text=True, check=True).stdout
    return json.loads(out.splitlines()[-1])


def rows():
    """Our rows: name -> (values, since, until)."""
    found = re.findall(r'\{"([\w-]+)", (\d+|kMany)(?:, (\d+))?(?:, (\d+))?\}', TABLE.read_text())
    return {name: (-1 if values == "kMany" else int(values), since, until) for name, values, since, until in found}


def main():
    words = [word for word in sys.argv[1:] if word != "--write"]
    releases = {int(minor): asked(words[0], path) for minor, path in (word.split("=", 1) for word in words[1:])}
    first, last = min(releases), max(releases)
    ours, wrong = rows(), []
    for name, (values, since, until) in sorted(ours.items()):
        known = [minor for minor in sorted(releases) if name in releases[minor]]
        if int(until or last) < first or not known:
            continue  # older than every checkout, or an alias of a fork's
        have = (values, max(first, int(since or 0)), int(until or last))
        want = (releases[known[-1]][name][0], known[0], known[-1])
        if have != want:
            wrong.append(f"{name}: values, first and last release are {want}, the table has {have}")
    gone = sorted(name for flags in releases.values() for name in flags if name not in ours and name not in releases[last])
    new = sorted(name for name in releases[last] if name not in ours)
    wrong += [f"{name}: not in the table" for name in new]
    print("\n".join(wrong) or f"{len(ours)} flags as the parsers have them")
    print(f"not in the table, and no longer known: {' '.join(dict.fromkeys(gone))}")
    choices = {}
    for name in ours:
        lists = [flags[name][1] for flags in releases.values() if name in flags]
        if lists and all(lists):
            choices[name] = sorted(set().union(*lists))
            if "<float>" in choices[name]:
                choices[name] = ["<float>"]
    table = "".join(f'    {{"{name}", " {" ".join(words)} "}},\n' for name, words in sorted(choices.items()))
    text = HEAD.format(first, last) + table + TAIL
    if "--write" in sys.argv:
        CHOICES.write_text(text)
        subprocess.run(["clang-format", "-i", str(CHOICES)], check=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

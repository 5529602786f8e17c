#!/usr/bin/env python3
"""Reads what `plan check` writes with other people's readers: JUnit XML with xml.etree, SARIF with the published 2.1.0
schema, GitHub's workflow commands as actions/toolkit unescapes them. Exit status 77: skipped, with the reason.

usage: check_formats.py PLAN
The SARIF schema is fetched once and kept in $XDG_CACHE_HOME/plan; PLAN_SARIF_SCHEMA names a copy instead.
"""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request
import venv
import xml.etree.ElementTree

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "plan"
NAME = "50 % sûr: a, b\u2028é|<&\"'>"  # what escaping is for
BUDGET = """budget: 1
model: llama3-8b
gpus: 8 x h100-sxm
jobs:
  - name: '{name}'
    layout: tp1,zero1,mb4
    limits: {{memory.peak: at most 40 GiB, step_time: at most 1 s, mfu: at least 90 %, gpus: at most 8}}
  - name: fine
    layout: tp8,zero1
    limits: {{memory.peak: at most 79 GiB}}
"""


def skip(reason):
    print("SKIPPED:", reason)
    sys.exit(77)


def plan(binary, folder, fmt):
    done = subprocess.run([binary, "check", "--budget", "büdget %,1.yaml", "--format", fmt], cwd=folder,
                          capture_output=True, check=False)
    assert done.returncode == 1, (fmt, done.returncode, done.stderr.decode())
    again = subprocess.run([binary, "check", "--budget", "büdget %,1.yaml", "--format", fmt], cwd=folder,
                           capture_output=True, check=False)
    assert again.stdout == done.stdout, fmt + ": the same input gave other bytes"
    return done.stdout


def check_junit(data):
    suites = xml.etree.ElementTree.fromstring(data)
    cases = list(suites.iter("testcase"))
    failures = [case for case in cases if case.find("failure") is not None]
    assert suites.tag == "testsuites" and int(suites.get("tests")) == len(cases) > 4
    assert int(suites.get("failures")) == len(failures) > 1
    assert any(NAME in suite.get("name") for suite in suites)


def check_github(data):
    rows = [row for row in data.decode().split("\n") if row.startswith("::error ")]
    assert len(rows) > 1
    for row in rows:
        properties, message = row[len("::error "):].split("::", 1)
        pairs = dict(pair.split("=", 1) for pair in properties.split(","))
        undo = lambda s: s.replace("%3A", ":").replace("%2C", ",").replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
        assert undo(pairs["file"]) == "büdget %,1.yaml", pairs
        assert int(pairs["line"]) > 0 and NAME in undo(pairs["title"]), pairs
        assert message and "\r" not in message


def schema():
    named = os.environ.get("PLAN_SARIF_SCHEMA")
    path = pathlib.Path(named) if named else CACHE / "sarif-schema-2.1.0.json"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(SCHEMA, timeout=10) as answer:
                path.write_bytes(answer.read())
        except OSError as error:
            skip(f"JUnit and GitHub pass; the SARIF schema cannot be fetched ({error})")
    return json.loads(path.read_text())


def with_jsonschema():
    """Runs this script again in a virtual environment that has jsonschema, if this Python has none."""
    if importlib.util.find_spec("jsonschema"):
        return
    home = CACHE / "validators"
    python = home / "bin" / "python"
    if not python.exists():
        try:
            venv.create(home, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            skip(f"JUnit and GitHub pass; no virtual environment for jsonschema ({error})")
    installed = subprocess.run([python, "-m", "pip", "install", "--quiet", "jsonschema==4.26.0"], capture_output=True,
                               timeout=120, check=False)
    if installed.returncode != 0 or os.environ.get("PLAN_VALIDATOR_AGAIN"):
        skip("JUnit and GitHub pass; jsonschema cannot be installed")
    os.execve(python, [str(python), *sys.argv], {**os.environ, "PLAN_VALIDATOR_AGAIN": "1"})


def check_sarif(data):
    document = json.loads(data)
    published = schema()
    with_jsonschema()
    import jsonschema
    validator = jsonschema.validators.validator_for(published)(published)
    mistakes = [f"{list(error.path)}: {error.message}" for error in validator.iter_errors(document)]
    assert not mistakes, mistakes
    assert len(document["runs"][0]["results"]) > 1
    broken = json.loads(data)
    del broken["runs"][0]["tool"]
    assert list(validator.iter_errors(broken)), "the schema accepts anything"


def main():
    binary = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder:
        name = NAME.replace("'", "''")
        (pathlib.Path(folder) / "büdget %,1.yaml").write_text(BUDGET.format(name=name), encoding="utf-8")
        check_junit(plan(binary, folder, "junit"))
        check_github(plan(binary, folder, "github"))
        check_sarif(plan(binary, folder, "sarif"))
    print("JUnit, GitHub and SARIF are read by others")


main()

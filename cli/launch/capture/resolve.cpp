// What runs for `plan capture --resolve` once a program was recorded: a framework's own parser says what its words come
// to. Programs of hydra's print their whole configuration, defaults and interpolations done, and end, when they are
// given `--cfg job --resolve` (hydra 1.3, "Hydra's command line flags"). Programs of transformers' HfArgumentParser run
// up to its parser; what that takes from defaults, configuration files and words goes behind the recorded words, as
// flags. torchtitan's ConfigManager (0.2) is asked without its program: the TOML file that the words come to is in
// their place. Tested by tests/launch/capture_test.cpp.
#include "cli/launch/capture/stand_in.hpp"

namespace plan {

const std::string_view kResolve = R"py(import importlib.util, json, os, subprocess, sys

# Runs a program up to its first parser of dataclasses and writes what that came to: values that are set.
PARSED = """
import json, os, runpy, sys
out, program = sys.argv[1], sys.argv[2:]
sys.path.insert(0, os.getcwd())
import transformers
def write(values):
    kept = {key: value for key, value in values.items()
            if isinstance(value, (bool, int, float, str)) and value not in (False, '', 0)}
    with open(out, 'w') as file:
        json.dump(kept, file)
    os._exit(0)
parser = transformers.HfArgumentParser
words = parser.parse_known_args
parser.parse_known_args = lambda self, *args, **more: write(vars(words(self, *args, **more)[0]))
parser.parse_dict = lambda self, args, *more, **rest: write(dict(args))
if program[0] == '-m':
    sys.argv = program[1:]
    runpy.run_module(program[1], run_name='__main__', alter_sys=True)
else:
    sys.argv = program
    runpy.run_path(program[0], run_name='__main__')
"""
# Sections of torchtitan's configuration as TOML, as far as its words, file and defaults set them.
TITAN = """
import dataclasses, json, os, sys
sys.path.insert(0, os.getcwd())
from torchtitan.config import ConfigManager
config = ConfigManager().parse_args(sys.argv[2:])
config.model.flavor
def tables(name, values):
    rows = [(key, value) for key, value in values.items()
            if isinstance(value, (bool, int, float, str, list)) and value != '']
    yield '[' + name + ']'
    yield from (key + ' = ' + json.dumps(value) for key, value in rows)
    for key, value in values.items():
        if isinstance(value, dict):
            yield from tables(name + '.' + key, value)
kept = ('model', 'training', 'parallelism', 'activation_checkpoint', 'optimizer', 'compile', 'quantize')
lines = [line for name, section in dataclasses.asdict(config).items() if name in kept for line in tables(name, section)]
with open(sys.argv[1], 'w') as file:
    file.write('\\n'.join(lines) + '\\n')
"""
out, words = sys.argv[1], sys.argv[2:]
sys.path.insert(0, os.getcwd())
program, rest = [], []
for i, word in enumerate(words):
    if word in ("-m", "--module") and i + 1 < len(words):
        program, rest = ["-m", words[i + 1]], words[i + 2:]
        break
    if word.endswith(".py"):
        program, rest = [word], words[i + 1:]
        break
if not program:
    sys.exit(0)
name = program[-1]
try:
    path = importlib.util.find_spec(name).origin if len(program) == 2 else name
    text = open(path, errors="replace").read()
except Exception as error:
    print(f"--resolve: `{name}` cannot be found here: {error}")
    sys.exit(0)
if "ConfigManager" in text and "torchtitan" in text:
    toml = f"resolved-{os.path.basename(os.path.dirname(out))}.toml"
    done = subprocess.run([sys.executable, "-c", TITAN, toml, *rest], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, errors="replace")
    if not os.path.exists(toml):
        last = (done.stderr.strip().splitlines() or ["it wrote nothing"])[-1]
        print(f"--resolve: `{name}` did not parse its words: {last}")
        sys.exit(0)
    kept = words[:len(words) - len(rest)] + ["--job.config_file", toml]
    with open(os.path.join(os.path.dirname(out), "words"), "wb") as words_file:
        words_file.write(b"".join(word.encode(errors="surrogateescape") + b"\0" for word in kept))
    sys.exit(0)
if any(parser in text for parser in ("HfArgumentParser", "TrlParser", "H4ArgumentParser")):
    started = os.path.join(os.path.dirname(out), "words")
    done = subprocess.run([sys.executable, "-c", PARSED, out, *program, *rest], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace")
    if not os.path.exists(out):
        last = (done.stderr.strip().splitlines() or ["it ended before its parser"])[-1]
        print(f"--resolve: `{name}` did not parse its words: {last}")
        sys.exit(0)
    known = {word.lstrip("-").partition("=")[0].replace("-", "_") for word in words if word.startswith("--")}
    with open(out) as parsed, open(started, "ab") as words_file:
        for key, value in json.load(parsed).items():
            if key not in known:
                words_file.write(f"--{key}\0{value}\0".encode(errors="replace"))
    os.remove(out)
    sys.exit(0)
if "hydra.main" not in text:
    sys.exit(0)
done = subprocess.run([sys.executable, *program, *rest, "--cfg", "job", "--resolve"], stdin=subprocess.DEVNULL,
                      capture_output=True, text=True, errors="replace")
if done.returncode == 0 and done.stdout.strip():
    open(out, "w").write(done.stdout)
else:
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    print(f"--resolve: `{name}` did not print its configuration: {last}")
)py";

}  // namespace plan

// What runs for `plan capture --resolve` once a program was recorded: a framework's own parser says what its words come
// to. Programs of hydra's print their whole configuration, defaults and interpolations done, and end, when they are
// given `--cfg job --resolve` (hydra 1.3, "Hydra's command line flags"). Tested by tests/launch/capture_test.cpp.
#include "cli/launch/capture_stand_in.hpp"

namespace plan {

const std::string_view kResolve = R"py(import importlib.util, os, subprocess, sys

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

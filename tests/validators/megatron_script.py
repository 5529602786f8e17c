"""The words that an emitted script would pass to the program that starts the training: it runs under stand-ins for
scontrol, srun and that program."""
import json
import os
import shlex
import subprocess
import sys
import tempfile


def argv_of(script, program="torchrun"):
    """Words that the program would get."""
    with tempfile.TemporaryDirectory() as shims:
        def shim(name, text):
            path = os.path.join(shims, name)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)
        shim("scontrol", "#!/bin/sh\necho node0\n")
        shim("srun", "#!/bin/bash\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n")
        shim(program, f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
        env = dict(os.environ, PATH=shims + ":" + os.environ["PATH"], SLURM_JOB_NODELIST="node[0-9]", SLURM_NODEID="0",
                   MEGATRON_PATH="/megatron", BRIDGE_PATH="/bridge")
        for line in open(script):
            if line.startswith("#SBATCH --nodes="):
                env["SLURM_NNODES"] = line.split("=")[1].strip()
        out = subprocess.run(["bash", script], env=env, capture_output=True, text=True, check=True)
        return json.loads(out.stdout)


def flags_of(words):
    flags, name = {}, None
    for word in words:
        if word.startswith("--"):
            name = word[2:]
            flags[name] = []
        else:
            flags[name].append(word)
    return flags


def environment_of(script):
    """Variables that the script exports, as far as they are plain words."""
    found = {}
    for line in open(script):
        words = shlex.split(line) if line.startswith("export ") else []
        found |= dict(word.split("=", 1) for word in words[1:] if "=" in word and "$" not in word)
    return found

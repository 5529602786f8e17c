#!/usr/bin/env python3
"""megatron_flops.py PLAN [MODEL...]: FLOPs of a token by Megatron-LM's own count, of every preset that it trains.

Writes the launch file of a small job of each model, lets the checkout that MEGATRON_LM names parse it, and divides
num_floating_point_operations() of a step, the number that its log calls throughput, by the step's tokens. Wants a
Python with torch, torch's distributed, six and megatron-core, as tests/validators/venv.sh makes it:

  MEGATRON_LM=/src/megatron-0.20 python tests/tools/megatron_flops.py build/plan > tests/published/megatron_flops.csv
"""
import contextlib
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "validators"))


def written(plan, model, folder):
    """Emits a job on as few GPUs as one fits; False where none does, or no flags describe the model."""
    for gpus in ("8", "64", "512", "2048"):
        command = [plan, "emit", "megatron-lm", "--model", model, "--gpus", gpus, "--launcher", "slurm", "-o", folder]
        if subprocess.run(command, capture_output=True).returncode == 0:
            return True
    return False


def main():
    plan, models = sys.argv[1], sys.argv[2:]
    sys.argv = sys.argv[:1]
    with contextlib.redirect_stdout(sys.stderr):
        import megatron_training
        from megatron.training.training import num_floating_point_operations
    listed = json.loads(subprocess.run([plan, "list", "models", "--json"], capture_output=True, check=True).stdout)
    print("model,seq,flops_per_token")
    for model in models or [row["name"] for row in listed["models"]]:
        with tempfile.TemporaryDirectory() as folder:
            if not written(plan, model, folder):
                continue
            with contextlib.redirect_stdout(sys.stderr):
                args, _ = megatron_training.parsed(*glob.glob(os.path.join(folder, "*.sbatch")))
                args.padded_vocab_size = args.vocab_size
                flops = num_floating_point_operations(args, args.global_batch_size)
        print(f"{model},{args.seq_length},{flops / args.global_batch_size / args.seq_length:.9g}", flush=True)


if __name__ == "__main__":
    main()

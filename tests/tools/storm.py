#!/usr/bin/env python3
"""storm.py: random command lines and broken files against the program as it is shipped.

  tests/tools/storm.py build/plan --commands 10000 --files 3000 --seed 1

Command lines are drawn from every command's own help: its flags with values that suit them, suit others or suit
nothing. Files are examples of the tree with bytes flipped, lines repeated, dropped or swapped, numbers blown up, nested
deeply or cut short, given to whatever reads files. Each run is a process of its own, in a fresh folder. It fails where

  - a signal ends it, or the status is none of 0, 1, 2, 3;
  - it takes more than --seconds of processor time, 5 where nobody says, or 500 MiB;
  - it answers and errs at once, or errs without a word;
  - an answer has a number outside physics: a step of no time, memory of nothing, a utilisation over 100 %, nan, inf;
  - an answer leaves out a word that was typed: a flag that is not among its inputs, an axis of another value;
  - a mistake stands again after the change that its help says to write.

The same seed draws the same runs. Exit status 1 and a line for each failure, with the words to repeat it.
"""
import argparse
import concurrent.futures
import json
import math
import os
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile

MEBIBYTES = 500
COMMANDS = ["", "", "", "estimate", "estimate", "explain", "compare", "sweep", "formula", "list", "show", "validate",
            "calibrate", "emit", "diagnose", "next", "check"]
READERS = {  # what reads a file: words before it
    "job": [["estimate", "--gpus", "64", "--from"], ["--gpus", "64", "--from"], ["check", "--budget"]],
    "model": [["--gpus", "64", "--model"], ["estimate", "--gpus", "8", "--layout", "dp8", "--model"]],
    "cluster": [["--model", "8b", "--gpus", "64", "--cluster"], ["--model", "8b", "--gpus", "64", "--gpu"],
                ["--model", "8b", "--gpus", "64", "--profile"]],
    "runs": [["validate"], ["calibrate", "--cluster", "dgx-h100"]],
    "log": [["diagnose", "--model", "8b", "--gpus", "8", "--log"],
            ["diagnose", "--model", "8b", "--gpus", "8", "--trace"],
            ["diagnose", "--model", "8b", "--gpus", "8", "--snapshot"]],
    "plan": [["compare", "--model", "8b"], ["explain", "step_time", "--gpus", "64", "--from"]],
}
NUMBERS = ["0", "1", "2", "3", "7", "8", "16", "24", "64", "100", "128", "512", "1024", "4096", "16384", "720720", "1e6",
           "-1", "2.5", "1e308", "nan", "inf", "8k", "1M", "99999999999999999999", "", " ", "0x10", "1e-9", "١"]
JUNK = ["", "-", "--", "=", ",", ":", "x", "a b", "\x1b[31m", "é", "@", "..", "/", "/dev/null", "%s%n", "tp2", "[", "{}", "'", '"']


def words_of(plan, command):
    """The command's flags with the word that stands for their value, and words that help and lists print."""
    text = subprocess.run([plan, *([command] if command else []), "--help"], capture_output=True, text=True).stdout
    flags = re.findall(r"^  (--[a-z0-9-]+)(?: (\S.*?))?(?:  |$)", text, re.M)
    return [flag for flag in flags if flag[0] not in ("--output", "--force", "--follow")]


def lists_of(plan):
    def names(kind):
        text = subprocess.run([plan, "list", kind], capture_output=True, text=True).stdout
        return re.findall(r"^([a-z0-9][\w.-]*)", text, re.M)
    return {kind: names(kind) for kind in ("models", "gpus", "clusters", "frameworks", "formulas", "schedules", "terms")}


VALUES = {  # what suits a flag, and what nearly does
    "--precision": ["bf16", "fp16", "fp8", "mxfp8", "nvfp4", "fp32", "FP8", "tf32"], "--headroom": ["5%", "4GiB", "0"],
    "--optimizer": ["adam", "muon", "sgd", "AdamW", "lion"], "--task": ["pretrain", "finetune", "lora", "qlora", "sft"],
    "--objective": ["time", "memory", "cost"], "--format": ["human", "json", "markdown", "csv", "html", "github"],
    "--seq": ["2k", "8192", "32k", "1M", "8,192"], "--global-batch": ["64", "512", "16M tokens", "48", "7", "1e3"],
    "--lora-rank": ["8", "64", "100000"], "--bf16-layers": ["1,1", "0,2", "40,40"], "--spares": ["0", "8", "9999"],
    "--state-formats": ["grads=bf16", "moments=fp8,master=fp16", "grads=fp8"], "--imbalance": ["1", "1.3", "0.5"],
    "--cuda-graphs": ["none", "full", "attn", "attn+mlp", "moe_router", "moe_preprocess", "mamba+attn"],
    "--overlap": ["none", "grads", "grads+params+tp", "params", "p2p", "experts"], "--dispatcher": ["alltoall", "flex"],
    "--diloco": ["500", "500,copies=4", "10,copies=3"], "--tokens": ["15.6T", "1e12", "15,6T"], "--top": ["1", "10"],
    "--offload": ["none", "optimizer", "optimizer=0.5", "parameters", "layers=4", "core_attn", "layers=1000", "weights"],
    "--price": ["2", "3.5", "$3"], "--gpu-mtbf": ["50700h", "100d", "50700"], "--storage": ["2TB/s", "1GB/s", "2"],
    "--restart": ["10min", "600s", "1h", "600"], "--slice": ["4x4x8", "2x2"],
}


def layout(draw):
    axes = ["tp", "cp", "pp", "vp", "dp", "ep", "etp", "zero", "shard", "mb"]
    few = draw.random() < 0.7  # most sets of many axes fit no job
    some = [f"{axis}{draw.choice([1, 2, 4, 8] if few else [1, 2, 3, 4, 8, 16, 64])}"
            for axis in draw.sample(["tp", "pp", "mb"] if few else axes, draw.randint(1, 3 if few else 5))]
    more = ["schedule=1f1b", "schedule=zb-v", "schedule=dualpipe", "recompute=full", "recompute=full-2", "sp=off",
            "recompute=moe", "cp-kind=ulysses", "layers=16+16", "order=tp-cp-ep-pp-dp", "layers=4x8", "uniform"]
    return ",".join(some + draw.sample(more, draw.choice([0, 0, 0, 1, 2])))


def value(draw, flag, shape, names):
    if draw.random() < 0.06:
        return draw.choice(JUNK + NUMBERS)
    known = {"--model": "models", "--gpu": "gpus", "--cluster": "clusters", "--framework": "frameworks",
             "--release": "frameworks"}.get(flag)
    if known and names[known]:
        return draw.choice(names[known])
    if flag == "--layout":
        return layout(draw)
    choices = re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)*", shape) if shape and shape.islower() else []
    if choices and draw.random() < 0.7:
        return draw.choice(choices)
    return draw.choice(VALUES.get(flag, NUMBERS))


def command_line(draw, flags, names):
    command = draw.choice(COMMANDS)
    words = [command] if command else []
    if command in ("", "estimate", "explain", "emit", "sweep", "next"):
        words += ["--model", draw.choice(names["models"]), "--gpus", draw.choice(["8", "64", "256", "2048", "16384", "360"])]
    if command == "estimate" or draw.random() < 0.1:
        words += ["--layout", layout(draw)]
    if command == "explain":
        words.append(draw.choice(names["terms"] or ["step_time"]))
    if command == "emit":
        words += [draw.choice(["megatron-lm", "torchtitan", "deepspeed", "accelerate", "maxtext", "nemo-rl"]), "-o", "job"]
    if command in ("formula", "show"):
        words += ["formula"] * (command == "show") + [draw.choice(names["formulas"] or ["zero1"])]
    if command == "list":
        words.append(draw.choice(["models", "gpus", "clusters", "rules", "formulas", "nothing"]))
    if command == "sweep":
        words[2:4] = [] if draw.random() < 0.5 else words[2:4]
        words += [draw.choice(["--gpus", "--seq", "--memory"]), draw.choice(["8..64", "0.5x..2x", "2k..16k", "8,16", ".."])]
    for flag, shape in draw.sample(flags[command], min(len(flags[command]), draw.choice([0, 0, 1, 1, 2, 4]))):
        if flag in words:
            continue
        words.append(flag)
        if shape:
            words.append(value(draw, flag, shape, names))
    if command in ("", "estimate") and draw.random() < 0.7 and "--format" not in words:
        words.append("--json")
    return words


def examples(root):
    """Files of the tree by what reads them."""
    found = {kind: [] for kind in READERS}
    places = {"job": ["tests/fuzz/corpus/shell_script", "tests/fuzz/corpus/launch_yaml", "tests/fuzz/corpus/torchtitan_toml",
                      "tests/fuzz/corpus/torchtitan_python", "tests/fuzz/corpus/deepspeed_json", "tests/examples/budgets"],
              "model": ["presets/models"], "cluster": ["presets/clusters", "presets/gpus", "tests/fuzz/corpus/profile_yaml"],
              "runs": ["tests/published/runs", "tests/fuzz/corpus/runs_csv"],
              "log": ["tests/fuzz/corpus/training_log", "tests/fuzz/corpus/kineto_trace", "tests/fuzz/corpus/memory_snapshot"],
              "plan": ["tests/fuzz/corpus/plan_json"]}
    for kind, folders in places.items():
        for folder in folders:
            for path, _, files in sorted(os.walk(os.path.join(root, folder))):
                found[kind] += [os.path.join(path, name) for name in sorted(files)]
    return {kind: files for kind, files in found.items() if files}


def broken(draw, data):
    data = bytearray(data[:200_000])
    for _ in range(draw.choice([1, 1, 2, 4, 8])):
        at = draw.randrange(len(data) + 1)
        what = draw.randrange(8)
        if what == 0 and data:
            data[at % len(data)] = draw.randrange(256)
        elif what == 1:
            del data[at:]
        elif what == 2:
            del data[at:at + draw.choice([1, 10, 200])]
        elif what == 3:
            data[at:at] = bytes(draw.choice([b"[", b"{", b"(", b"$(", b"${a", b"- "])) * draw.choice([3, 100, 20_000])
        elif what == 4:
            numbers = list(re.finditer(rb"\d+", data))
            if numbers:
                number = draw.choice(numbers)
                data[number.start():number.end()] = draw.choice(NUMBERS).encode()
        elif what == 5:
            lines = data.split(b"\n")
            line = draw.randrange(len(lines))
            lines[line:line + 1] = [lines[line]] * draw.choice([0, 2, 50])
            data = bytearray(b"\n".join(lines))
        elif what == 6:
            lines = data.split(b"\n")
            draw.shuffle(lines)
            data = bytearray(b"\n".join(lines))
        else:
            data[at:at] = draw.choice([b"\0", b"\xff\xfe", b"\r", b"\t", b"\n\n", b"&a *a ", b"<<: *x\n", b"\x1b]0;x\x07", b"=" * 100])
    return bytes(data)


def outside_physics(answer, key=""):
    """The first number of an answer in JSON that cannot be."""
    if isinstance(answer, dict):
        for name, part in answer.items():
            if found := outside_physics(part, name):
                return found
    elif isinstance(answer, list):
        for part in answer:
            if found := outside_physics(part, key):
                return found
    elif isinstance(answer, (int, float)) and not isinstance(answer, bool):
        if not math.isfinite(answer):
            return f"{key} is {answer}"
        if key in ("model_causal", "model_full", "hardware") and not 0 <= answer <= 1:
            return f"utilisation {key} is {answer}"
        if key in ("step_time_s", "peak_memory_bytes", "peak_bytes", "tokens_per_s") and answer <= 0:
            return f"{key} is {answer}"
    return None


# Flags whose value an answer repeats among its inputs, where that is not the flag's own name.
INPUTS = {"--price": "price_per_hour"}
REPEATED = ["--seq", "--global-batch", "--precision", "--optimizer", "--task", "--lora-rank", "--bf16-layers",
            "--state-formats", "--cuda-graphs", "--overlap", "--dispatcher", "--imbalance", "--diloco", "--offload",
            "--slice", "--tokens", "--price", "--spares", "--gpu-mtbf", "--storage", "--restart", "--framework",
            "--release", "--objective", "--headroom"]
AXES = {"mb": "micro_batch"}


def dropped(words, answer):
    """The first word of the command line that an answer in JSON does not say."""
    for flag in REPEATED:
        if flag not in words:
            continue
        stated = answer["inputs"].get(INPUTS.get(flag, flag[2:].replace("-", "_")))
        if stated is None or stated["origin"] != "flag":
            return f"{flag} is not among the inputs"
    top = words[words.index("--top") + 1] if "--top" in words else ""
    if top.isdigit() and len(answer.get("runners_up", [])) >= int(top):  # it shapes the answer and is no input
        return f"--top {top} left {len(answer['runners_up'])} beside the best"
    if "--layout" not in words or answer["best"].get("pools"):
        return None
    own = answer["best"]["layout"]
    for item in re.split("[, ]", words[words.index("--layout") + 1]):
        axis = re.fullmatch(r"([a-z]+)[=:]?(\d+)", item)
        if axis and own.get(AXES.get(axis[1], axis[1])) != int(axis[2]):
            return f"{item} of --layout became {own.get(AXES.get(axis[1], axis[1]))}"
        if item.startswith("schedule=") and own["schedule"] != item[9:]:
            return f"{item} of --layout became {own['schedule']}"
    return None


def mistakes(text):
    """The mistakes of a refusal, each with its help, as they stand without the breaks of lines."""
    plain = re.sub(r"\n +(?=\S)", " ", text)
    return [part.split("\n") for part in re.split(r"(?m)^(?=error)", plain) if part.startswith("error")]


def corrected(words, advice):
    """The command as the help of one mistake says to write it; None where it is no flag of the command."""
    found = re.search(r"(write|add|leave) `(--[a-z0-9-]+)(?: ([^`]+))?`( out)?", advice)
    if not found:
        return None
    verb, flag, value = found[1], found[2], found[3]
    if verb == "add":
        return None if flag in words else words + [flag] + ([value] if value else [])
    if flag not in words or flag == "--layout" or words.count(flag) > 1:
        return None
    at = words.index(flag)
    if verb == "write":
        return words[:at + 1] + [value] + words[at + 2:] if value else None
    bare = at + 1 == len(words) or words[at + 1].startswith("--")
    return words[:at] + words[at + (1 if bare else 2):] if found[4] else None


def run(plan, words, folder, seconds):
    """Runs the words in the folder: status, what it printed, seconds of processor time and MiB."""
    streams = [os.path.join(folder, name) for name in ("printed-out", "printed-err")]
    with open(streams[0], "wb") as out, open(streams[1], "wb") as err:
        child = subprocess.Popen([plan, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=folder,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (4 * seconds, 5 * seconds)))
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    out, err = (open(name, "rb").read() for name in streams)
    return child.returncode, out, err, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def stands_again(plan, words, refusal, folder, seconds):
    """The first mistake of a refusal that is not gone when its own help is followed."""
    for first, *rest in mistakes(refusal):
        for advice in rest:
            changed = corrected(words, advice) if advice.startswith("help:") else None
            if changed is None:
                continue
            _, _, err, _, _ = run(plan, changed, folder, seconds)
            if first in [other[0] for other in mistakes(err.decode(errors="replace"))]:
                return f"`{first}` stands again after `{shlex.join(changed)}`"
    return None


def judge(plan, words, files, seconds):
    """Runs the words in a folder of their own: their status, and what is wrong with it, or nothing."""
    with tempfile.TemporaryDirectory(prefix="storm-", ignore_cleanup_errors=True) as folder:
        for name, data in files.items():
            with open(os.path.join(folder, name), "wb") as out:
                out.write(data)
        code, out, err, spent, memory = run(plan, words, folder, seconds)
        wrong = None if code != 2 else stands_again(plan, words, err.decode(errors="replace"), folder, seconds)
    if code == -signal.SIGXCPU:
        wrong = f"ended after {spent:.0f} s of processor time"
    elif code < 0:
        wrong = f"signal {-code} after {spent:.1f} s"
    elif code not in (0, 1, 2, 3):
        wrong = f"status {code}"
    elif spent > seconds:
        wrong = f"{spent:.1f} s of processor time"
    elif memory > MEBIBYTES:
        wrong = f"{memory:.0f} MiB"
    elif code == 2 and (out or b"error" not in err):
        wrong = "an error beside an answer" if out else "a refusal without a word"
    elif code <= 1 and out.startswith(b"{"):
        try:
            answer = json.loads(out)
            wrong = outside_physics(answer)
            if not wrong and answer.get("schema") == "plan/1" and "inputs" in answer and words[0] not in ("explain", "diagnose"):
                wrong = dropped(words, answer)
        except ValueError as error:
            wrong = f"no JSON: {error}"
    return code, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan")
    parser.add_argument("--commands", type=int, default=1000)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args()
    plan = os.path.realpath(options.plan)
    root = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
    draw = random.Random(options.seed)
    names = lists_of(plan)
    flags = {command: words_of(plan, command) for command in set(COMMANDS)}
    runs = [(command_line(draw, flags, names), {}) for _ in range(options.commands)]
    kinds = examples(root)
    for _ in range(options.files):
        kind = draw.choice(sorted(kinds))
        path = draw.choice(kinds[kind])
        name = "broken" + os.path.splitext(path)[1]
        words = draw.choice(READERS[kind]) + [name] + (["--json"] if draw.random() < 0.3 else [])
        runs.append((words, {name: broken(draw, open(path, "rb").read())}))
    failures, statuses = 0, {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (words, files), (code, wrong) in zip(runs, pool.map(lambda run: judge(plan, *run, options.seconds), runs)):
            statuses[code] = statuses.get(code, 0) + 1
            if not wrong:
                continue
            failures += 1
            kept = ""
            for name, data in files.items():
                folder = tempfile.mkdtemp(prefix="storm-kept-")
                with open(os.path.join(folder, name), "wb") as out:
                    out.write(data)
                kept = f"  ({folder}/{name})"
            print(f"{wrong}: plan {shlex.join(words)}{kept}", flush=True)
    print("ended with", ", ".join(f"{code}: {count}" for code, count in sorted(statuses.items())))
    print(f"{len(runs)} runs, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

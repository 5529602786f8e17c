#!/usr/bin/env python3
"""Holds what `plan --from FILE` reads against what the file says when it is run, over folders of public repositories.

usage: launch_oracle.py [--plan BINARY] [--wrong] [--jobs N] REPOSITORY...

Each script is run under `plan capture` (as an unprivileged user without a network, where the caller is root), each
configuration file is parsed by Python's own readers. Flags and keys are brought to one table of fields by their names,
which shares nothing with plan's readers; then every field is compared. A field on which the answer differs counts as
silent unless the answer lists it as unstated or as not used. Printed: counts by repository; with --wrong every
difference. Nothing of the repositories is kept. It says by how much to trust reading; it is no test of CI.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import yaml

SCRIPTS = (".sh", ".slurm", ".sbatch")
CONFIGS = (".yaml", ".yml", ".toml", ".json")
# Names of a field among flags and keys of all tools, the last part of a dotted key, with `_` for `-`.
NAMES = {
    "tp": "tensor_model_parallel_size tensor_parallel_degree tensor_parallel_size model_parallel_size autotp_size tp "
    "tensor_parallel_dim",
    "pp": "pipeline_model_parallel_size pipeline_parallel_degree pipe_parallel_size pp",
    "cp": "context_parallel_size context_parallel_degree context_parallel_dim",
    "ep": "expert_model_parallel_size expert_parallel_degree moe_expert_parallel_size",
    "etp": "expert_tensor_parallel_size",
    "vp": "virtual_pipeline_model_parallel_size num_virtual_stages_per_pipeline_rank",
    "seq": "seq_length encoder_seq_length seq_len max_length max_seq_length cutoff_len sequence_len max_target_length "
    "max_total_sequence_length max_seq_len sequence_length max_sequence_length",
    "micro_batch": "micro_batch_size per_device_train_batch_size local_batch_size train_micro_batch_size_per_gpu "
    "train_micro_batch_size ppo_micro_batch_size_per_gpu device_train_microbatch_size",
    "global_batch": "global_batch_size train_batch_size train_global_batch_size global_train_batch_size",
    "recompute": "recompute_granularity",
    "lora_rank": "lora_rank lora_r",
    "lora": "tuner_type train_type sft_type finetuning_type adapter",
}
FIELD = {name: field for field, names in NAMES.items() for name in names.split()}
SHAPE = ("num_layers hidden_size num_attention_heads ffn_hidden_size num_query_groups num_experts vocab_size "
         "moe_ffn_hidden_size").split()


def number(text):
    try:
        value = float(str(text).replace("_", ""))
    except ValueError:
        return None
    return int(value) if value == int(value) else value


def flags_of(words):
    """`--flag value`, `--flag=value`, `key=value`: the last one counts, as in every parser of these tools."""
    out = {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals:
                nxt = words[i + 1] if i + 1 < len(words) else "--"
                value = "true" if nxt.startswith("--") else nxt
        elif re.match(r"^[+~]*[a-zA-Z_][\w.]*=", word):
            name, _, value = word.lstrip("+~").partition("=")
        else:
            continue
        out[name.replace("-", "_")] = value
    return out


def flatten(tree, prefix=""):
    out = {}
    if isinstance(tree, dict):
        for key, value in tree.items():
            out.update(flatten(value, f"{prefix}{key}."))
    elif not isinstance(tree, list):
        out[prefix[:-1].replace("-", "_")] = tree
    return out


def expected(keys):
    """Fields that the keys state with one value; several keys with different values state none."""
    # Sections and options that are there and switched off: NeMo-RL's Megatron and its recomputation, axolotl's adapter.
    off = [k[:-len("enabled")] for k, v in keys.items() if k.endswith(("megatron_cfg.enabled", "dtensor_cfg.enabled")) and v in (False, "false", "False")]
    keys = {k: v for k, v in keys.items() if not k.startswith(tuple(off))} if off else keys
    whole = keys.get("policy.megatron_cfg.activation_checkpointing", True) in (False, "false", "False") or (
        "adapter" in keys and "base_model" in keys and not keys["adapter"])
    if any(k.endswith("recompute_num_layers") and v in (0, "0") for k, v in keys.items()):
        whole = True  # a block of no layers
    seen = collections.defaultdict(set)
    for key, value in keys.items():
        path = key.split(".")
        name = path[-1]
        # A rollout's or generator's degrees, a critic's, a validation's batch: other jobs than the training.
        if re.search(r"_ref\.rollout|_ref\.ref|^ref_|\.rollout\.|critic|generation|vllm|eval|valid|val_|infer|sglang|reward|teacher|draft|value\.", key):
            continue
        if whole and FIELD.get(name) in ("recompute", "lora", "lora_rank"):
            continue
        if name not in FIELD or value in (None, "", "None", "none", "auto", "null", "-1", -1):
            continue
        field = FIELD[name]
        if field == "lora":
            seen[field].add("lora" in str(value))
        elif field == "recompute":
            seen[field].add("core_attn" if value == "selective" and "recompute_modules" not in keys else str(value))
        elif number(value) is not None:
            seen[field].add(max(1, number(value)))  # 0 stages or ranks are one
    if not whole and any(re.fullmatch(r"(lora_r|lora_rank|lora\.rank|peft\.dim)", k) and (number(v) or 0) > 0 for k, v in keys.items()):
        seen["lora"].add(True)
    out = {field: next(iter(values)) for field, values in seen.items() if len(values) == 1}
    if "use_distributed_optimizer" in keys and not any("fsdp" in key or "zero" in key for key in keys):
        out["zero"] = 0 if str(keys["use_distributed_optimizer"]).lower() == "false" else 1
    formats = [word for word in ("bf16", "fp16") if str(keys.get(word)).lower() == "true"]
    if len(formats) == 1 and not any(key.startswith(("fp8", "fp4")) for key in keys):
        out["precision"] = formats[0]
    if not out.get("lora"):
        out.pop("lora_rank", None)
    if "selective" in str(out.get("recompute")):
        del out["recompute"]  # its modules are judged nowhere else
    lengths = [number(keys.get(f"data.max_{part}_length")) for part in ("prompt", "response")]
    if all(lengths):
        out["seq"] = sum(lengths)
    if "max_context_width" in keys:  # AWS's FSDP example: a batch is a rank's
        out["micro_batch"] = out.pop("global_batch", 1)
        out["seq"] = number(keys["max_context_width"])
    if "torchtune.models" in str(keys.get("model._component_")) and number(keys.get("batch_size")):
        out["micro_batch"] = number(keys["batch_size"])
    if "parallelism.dp" in keys and {"tp", "pp"} <= out.keys():  # nanotron's ranks are what its degrees multiply to
        out["gpus"] = out["tp"] * out["pp"] * out.get("cp", 1) * (number(keys["parallelism.dp"]) or 1)
    mini = number(keys.get("actor_rollout_ref.actor.ppo_mini_batch_size"))
    if mini:  # verl steps on a mini-batch of prompts with as many responses each
        out["global_batch"] = mini * (number(keys.get("actor_rollout_ref.rollout.n")) or 1)
    return out


def parameters(flags):
    """Least and most parameters of a plain decoder as Megatron-LM's flags describe it; None where a flag changes more than sizes."""
    shape = {name: number(flags.get(name)) for name in SHAPE}
    odd = "multi_latent_attention spec moe_layer_freq num_experts mtp_num_layers first_k_dense_replace hybrid_layer_pattern num_key_value_heads"
    if not all(shape[k] for k in ("num_layers", "hidden_size", "num_attention_heads")) or any(k in flags for k in odd.split()):
        return None
    h, heads = shape["hidden_size"], shape["num_attention_heads"]
    head = number(flags.get("kv_channels")) or h / heads
    groups = shape["num_query_groups"] if "group_query_attention" in flags else heads
    f = shape["ffn_hidden_size"] or (8 * h / 3 * 0.97 if "swiglu" in flags else 4 * h)
    layer = h * head * (2 * heads + 2 * (groups or heads)) + h * f * (3 if "swiglu" in flags else 2)
    layers = shape["num_layers"] * layer
    return layers, layers * 1.01 + 2 * 300_000 * h  # no vocabulary and positions take more than so much beside them


# A repository alone lacks what its scripts source and check: they go on without it. bash takes these from its environment.
FUNCTIONS = {
    "BASH_FUNC_source%%": '() { [ -f "$1" ] && builtin source "$@"; return 0; }',
    "BASH_FUNC_set%%": '() { case " $*" in *" -"*[eu]*) return 0 ;; esac; builtin set "$@"; }',
    "BASH_FUNC_exit%%": '() { [ "${1:-0}" = 0 ] && builtin exit 0; return 0; }',
}


def sandboxed(command):
    if os.geteuid() != 0:
        return command
    return ["unshare", "-n", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *command]


def captured(plan, path):
    """Calls that a script would make, its environment's launcher numbers, or None."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        record = os.path.join(folder, "job.json")
        command = sandboxed([plan, "capture", "--quiet", "-o", record, "--timeout", "20s", "--", "bash", str(path.name)])
        try:
            subprocess.run(command, cwd=path.parent, capture_output=True, timeout=60, env={
                "PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": folder, **FUNCTIONS}, check=False)
        except subprocess.TimeoutExpired:
            return None
        if not os.path.exists(record):
            return None
        return json.loads(pathlib.Path(record).read_text())


TRAINS = re.compile(r"torchrun|deepspeed|accelerate|python|megatron|swift|llamafactory|axolotl|tune|msrun|composer")


# Commands that train nothing, and models that are no decoders: what plan refuses of these is no job that it should read.
NO_TRAINING = re.compile(r"generat|inference|infer\b|server|serve\b|ptq|quantiz|export|convert|evaluat|eval_harness|tasks/main|prune|"
                         r"check_metrics|decode\b|logit_check|gather_|preprocess|merge|download|pytest|tokenize|split_")
NO_DECODER = re.compile(r"bert|t5\b|_t5|\bretro|multimodal|vision|clip\.|_clip\b|llava|neva|flux|diffusion|imagen|squad|glue|cifar|resnet|_vit\b|"
                        r"whisper|audio|encoder_decoder|decoder.seq.length|encoder.seq.length|ddpm|blip|_vlm|stable_diff|recomm|avlm", re.I)


def program_of(words):
    return " ".join(w for i, w in enumerate(words) if w.endswith(".py") or (i < 12 and not w.startswith("--") and "=" not in w))


def kind_of(words, path):
    """Why a refusal may be due: `words` are those of the last command, or the keys of a file."""
    text = " ".join(words)
    program = program_of(words) if path.suffix in SCRIPTS else ""
    if NO_TRAINING.search(program):
        return "no training"
    if NO_DECODER.search(f"{text} {'/'.join(path.parts[-4:])}"):
        return "no decoder"
    if path.suffix in SCRIPTS and re.search(r"\$\{?[1-9]\d?\b(?!:?-)", path.read_text(errors="replace")):
        return "needs arguments"
    return ""


def of_script(plan, path):
    record = captured(plan, path)
    if record is None:
        return None
    calls = [c["words"] for c in record["started"] if TRAINS.search(c["words"][0])]
    calls = [c for c in calls if len(flags_of(c)) >= 3] or calls
    calls = [c for c in calls if not NO_TRAINING.search(program_of(c))] or calls
    if not calls:
        return None
    sets = {json.dumps(want, sort_keys=True) for want in (expected(flags_of(c)) for c in calls if not re.search(
        r"\b(export|infer|eval|deploy|convert|merge|rollout|serve)", " ".join(c[:6]))) if len(want) > 2}
    if len(sets) > 1:
        return {"several": True}
    keys = {}
    for file in record["files"]:
        named = any(w.endswith(os.path.basename(file["name"])) for w in calls[-1])
        if named:
            keys.update(of_text(file["name"], file["text"]) or {})
    flags = flags_of(calls[-1])
    keys.update(flags)
    out = expected(keys)
    out["kind"] = kind_of(calls[-1], path)
    size = parameters(flags)
    if size:
        out["parameters"] = size
    nodes, each = number(flags.get("nnodes", "")), number(flags.get("nproc_per_node", ""))
    if nodes and each:
        out["gpus"] = nodes * each
    return out


def of_text(name, text):
    try:
        if name.endswith(".toml"):
            return flatten(tomllib.loads(text))
        if name.endswith(".json"):
            return flatten(json.loads(text))
        return flatten(yaml.safe_load(text))
    except Exception:  # templates and broken files: nothing is known of them
        return None


def answer_of(plan, path, want):
    """What plan reads, with what it asks for added as a user would."""
    more = []
    # Whoever asks knows how many GPUs there are: as many as the degrees come to, and more replicas of them.
    whole = math.prod(want.get(axis, 1) for axis in ("tp", "pp", "cp"))
    replicas = dict.fromkeys([1, want.get("ep", 1), 2, 4, 8, 16, 32, 64])
    counts = [["--gpus", str(n)] for n in dict.fromkeys([whole * r for r in replicas] + [8, 64, 256, 1024, 2048])]
    for _ in range(12):
        run = subprocess.run([plan, "estimate", "--from", str(path), "--json", "--color", "never", *more],
                             capture_output=True, text=True, timeout=60, check=False)
        if run.returncode in (0, 1) and run.stdout.startswith("{"):
            return json.loads(run.stdout), more
        err = run.stderr
        if "expert parallelism needs experts" in err and "llama3-8b" in more:
            more[more.index("llama3-8b")] = "qwen3-30b-a3b"
            continue
        if "has no matrix units" in err and "h100-sxm" in more:
            more[more.index("h100-sxm")] = "b200-sxm"
            continue
        if "--gpus" in more and re.search(r"no layout uses all|the layout is not possible|to each of \d+ ranks", err) and counts:
            more[more.index("--gpus"):more.index("--gpus") + 2] = counts.pop(0)
            continue
        for flag, value in (("--gpus", "512"), ("--model", "llama3-8b"), ("--gpu", "h100-sxm"), ("--global-batch", "1024")):
            if re.search(rf"`{flag}` is missing|{flag} is missing|(with|add|name|write) (it with |the \w+ with )?`{flag}[ `]", err) and flag not in more:
                more += [flag, value]
                break
        else:
            twins = re.search(r"layers of the same shape: ([\w.-]+)", err)
            if "--model" in more or not (twins or "vocabulary is not stated" in err):
                break
            more += ["--model", twins[1] if twins else "llama3-8b"]
    return " ".join(err.split())[:600] or "no answer", more


def value_of(answer, field):
    layout = answer["best"]["layout"]
    if field == "lora_rank":
        return number(answer["inputs"].get("lora_rank", {}).get("value", 0))
    if field in ("seq", "global_batch", "gpus", "precision"):
        return answer["inputs"][field]["value"]
    if field == "lora":
        return "lora" in str(answer["inputs"]["task"]["value"])
    if field == "recompute":
        return layout["recompute"].split("(")[0].split(":")[0].split("=")[0]
    return layout[field]


def compare(want, answer, more):
    """Fields that differ, and of these the silent ones."""
    told = " ".join([u["field"] for u in answer.get("unstated", []) if u.get("guessed")] +
                    [n["text"] for n in answer.get("unused", [])]).lower()
    wrong = {}
    for field, value in want.items():
        if field == "gpus" and "--gpus" in more:
            continue
        if field == "parameters":
            have = answer["model"]["parameters"]
            if "--model" not in more and not 0.95 * value[0] <= have <= value[1]:
                wrong[field] = (f"{value[0]:.4g} in layers", f"{have:.4g}")
            continue
        have = value_of(answer, field)
        same = str(have).startswith(str(value)) if field == "recompute" else have == value
        if not same:
            wrong[field] = (value, have)
    return wrong, {f: w for f, w in wrong.items() if f not in told and not any(n in told for n, g in FIELD.items() if g == f)}


def judge(plan, path):
    want = of_script(plan, path) if path.suffix in SCRIPTS else expected(of_text(path.name, path.read_text(errors="replace")) or {})
    if want is None:
        return "not run", {}, None
    kind = want.pop("kind", "") if path.suffix in SCRIPTS else kind_of([*want], path)
    states = "several" in want or len([f for f in want if f in ("seq", "micro_batch", "global_batch", "tp", "parameters")]) >= 2
    answer, more = answer_of(plan, path, want)
    if isinstance(answer, str):
        # The file leaves its model to the one who asks, and none that was given for it has its number of layers.
        if "--model" in more and re.search(r"layers.* do not divide|has \d+ layers", answer):
            kind = kind or "model not stated"
        return (kind if kind and states else "refused" if states else "no job, refused"), {}, answer
    if "several" in want:
        return "silently wrong", {"job": ("several trainings", "one")}, None
    wrong, silent = compare(want, answer, more)
    if silent:
        return "silently wrong", silent, None
    if wrong:
        return "told wrong", wrong, None
    return ("right" if states else "nothing to compare"), {}, None


def candidates(root):
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.stat().st_size > 1 << 20 or ".git/" in str(path):
            continue
        if path.suffix in SCRIPTS:
            text = path.read_text(errors="replace")
            if re.search(r"batch.size|parallel|per_device|cutoff_len", text) and TRAINS.search(text):
                yield path
        elif path.suffix in CONFIGS:
            text = path.read_text(errors="replace")
            names = [n for n in FIELD if re.search(rf"\b{n}\b", text)]
            if len({FIELD[n] for n in names}) >= 2:
                yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", default="plan")
    parser.add_argument("--wrong", action="store_true", help="print every difference and refusal")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=int, default=200, help="files of one repository")
    parser.add_argument("repository", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    total = collections.Counter()
    print(f"{'source':40} {'files':>6} {'right':>6} {'silent':>6} {'told':>6} {'refused':>7} {'other':>6}")
    for root in args.repository:
        files = list(candidates(root))
        step = max(1, -(-len(files) // args.most))
        files = files[::step]
        counts = collections.Counter()
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            for path, (verdict, fields, why) in zip(files, pool.map(lambda p: judge(args.plan, p), files)):
                counts[verdict] += 1
                if args.wrong and (fields or why):
                    print(f"  {verdict}: {path}: " + (why or "; ".join(f"{f}: file {w}, plan {h}" for f, (w, h) in fields.items())))
        total.update(counts)
        print_row(root.name, counts)
    print_row("total", total)


def print_row(name, counts):
    shown = ("right", "silently wrong", "told wrong", "refused")
    rest = {verdict: n for verdict, n in counts.items() if verdict not in shown}
    other = sum(rest.values())
    print(f"{name:40} {sum(counts.values()):6} " + " ".join(f"{counts[v]:{w}}" for v, w in zip(shown, (6, 6, 6, 7))) + f" {other:6}  " +
          ", ".join(f"{n} {verdict}" for verdict, n in sorted(rest.items())))
    sys.stdout.flush()


if __name__ == "__main__":
    main()

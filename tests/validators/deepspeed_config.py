"""DeepSpeed: DeepSpeedConfig on its own JSON, the Trainer's dataclass on the arguments beside it."""
import json
import os

os.environ.setdefault("DS_ACCELERATOR", "cpu")

import common
import deepspeed.comm as dist
import deepspeed.runtime.config as runtime
import trainer_arguments
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser


def accelerate_starts(folder):
    """accelerate's file for the same job: its loader and its launcher's validation."""
    path = os.path.join(folder, "accelerate.yaml")
    config = load_config_from_file(path)
    arguments, _, _ = _validate_launch_command(
        launch_command_parser().parse_args(["--config_file", path, "--main_process_ip", "10.0.0.1", "run_clm.py"]))
    assert arguments.use_deepspeed and arguments.deepspeed_config_file == "ds_config.json"
    return config.num_processes


def check(folder, expected):
    path = os.path.join(folder, "ds_config.json")
    # With no process group, DeepSpeed takes one rank; tell it the world that its batch equation is about.
    dist.get_world_size = lambda group=None: expected["gpus"]
    dist.get_rank = lambda group=None: 0
    config = runtime.DeepSpeedConfig(path)
    with open(path) as file:
        raw = json.load(file)
    tp = max(1, config.tensor_parallel_config.autotp_size)
    sp = raw.get("sequence_parallel_size", 1)
    experts = config.expert_parallel_config
    dp = expected["gpus"] // tp // sp
    found = {"zero": config.zero_optimization_stage, "tp": tp, "cp": sp, "dp": dp,
             "ep": experts.autoep_size if experts is not None and experts.enabled else 1,
             "micro_batch": config.train_micro_batch_size_per_gpu,
             "micro_batches": config.gradient_accumulation_steps,
             "global_batch": config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * dp,
             "precision": "bf16" if config.bfloat16_config.enabled else "fp16" if config.float16_config.enabled
             else "fp32"}
    if "data_parallel_size" in raw:
        assert raw["data_parallel_size"] == dp
    if experts is not None and experts.enabled:
        from deepspeed.module_inject.auto_ep_config import validate_autoep_config
        validate_autoep_config(experts, expected["gpus"], 1, tp, sp)
    trainer = trainer_arguments.read(os.path.join(folder, "run_clm.json"))
    for key in ("micro_batch", "micro_batches"):
        assert trainer[key] == found[key], f"the Trainer's {key}"
    found["gpus"] = accelerate_starts(folder)
    return found | trainer


if __name__ == "__main__":
    common.run("DeepSpeed", check)

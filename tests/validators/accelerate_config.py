"""accelerate: its loader, its launcher's validation and environment, ParallelismConfig and FSDP plugin from that."""
import os
import shlex
from types import SimpleNamespace

import common
import trainer_arguments
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.parallelism_config import ParallelismConfig
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_multi_gpu_env

import accelerate.commands.launch as launch

launch.is_cuda_available = lambda: True  # what the machines of the plan have and this one has not


def environment_of(folder):
    path = os.path.join(folder, "accelerate.yaml")
    config = load_config_from_file(path)
    script = open(os.path.join(folder, "accelerate.sbatch")).read()
    words = shlex.split(next(line for line in script.split("\n") if "accelerate launch" in line).rstrip("\\"))
    inner = shlex.split(next(word for word in words if "accelerate launch" in word))
    typed = inner[inner.index("launch") + 1:]
    typed[typed.index("--config_file") + 1] = path
    for flag, value in (("--machine_rank", "0"), ("--main_process_ip", "10.0.0.1"), ("--main_process_port", "29500")):
        typed[typed.index(flag) + 1] = value
    arguments = launch_command_parser().parse_args(typed)
    arguments, _, _ = _validate_launch_command(arguments)
    return config, prepare_multi_gpu_env(arguments)


def check(folder, expected):
    config, environment = environment_of(folder)
    for key in [k for k in os.environ if k.startswith(("FSDP_", "PARALLELISM_CONFIG_", "ACCELERATE_"))]:
        del os.environ[key]
    os.environ.update({k: str(v) for k, v in environment.items() if v is not None})
    trainer = trainer_arguments.read(os.path.join(folder, "run_clm.json"))
    found = {"gpus": config.num_processes, "precision": {"no": "fp32"}.get(config.mixed_precision,
                                                                           config.mixed_precision)}
    if str(config.distributed_type).endswith("FSDP"):
        grid = ParallelismConfig()
        grid._validate_accelerator(SimpleNamespace(multi_device=True, num_processes=config.num_processes,
                                                   is_fsdp2=True, is_main_process=True,
                                                   distributed_type=config.distributed_type))
        plugin = FullyShardedDataParallelPlugin()
        assert plugin.fsdp_version == 2
        dp = grid.dp_replicate_size * grid.dp_shard_size
        found |= {"tp": grid.tp_size, "cp": grid.cp_size, "dp": dp, "zero": 3 if plugin.reshard_after_forward else 2,
                  "shard": grid.dp_shard_size * grid.cp_size if grid.dp_replicate_size > 1 else 0}
        if grid.cp_size > 1:
            kind = environment["PARALLELISM_CONFIG_CP_COMM_STRATEGY"]
            found["cp_kind"] = {"allgather": "all-gather", "alltoall": "ring"}[kind]
        found["recompute"] = "full" if plugin.activation_checkpointing else "none"
        assert not (plugin.activation_checkpointing and "recompute" in trainer), "both ways to checkpoint"
    else:
        dp = config.num_processes
        found |= {"dp": dp, "tp": 1, "cp": 1, "zero": 0, "recompute": trainer.get("recompute", "none")}
    trainer.pop("recompute", None)
    found["global_batch"] = trainer["micro_batch"] * trainer["micro_batches"] * dp
    return found | trainer


if __name__ == "__main__":
    common.run("accelerate", check)

"""Megatron-LM's own parser, validator and configuration on emitted batch scripts, from the checkout that MEGATRON_LM
names (any release from core 0.12 on): no package carries megatron.training. Process groups, stages and batches are then
asked as megatron_core.py does, with the checkout's own megatron.core."""
import glob
import os
import sys
import typing
import warnings
from types import SimpleNamespace

warnings.filterwarnings("ignore")
sys.path.insert(0, os.environ["MEGATRON_LM"])
if not hasattr(typing, "override"):
    typing.override = lambda method: method  # Python before 3.12

import torch  # noqa: E402

import megatron_core  # noqa: E402, before Megatron-LM: it keeps kernels from being compiled

torch.cuda.current_device = lambda: 0
torch.cuda.get_device_properties = lambda *a: SimpleNamespace(major=9, minor=0, total_memory=80 << 30, name="H100")
torch.cuda.get_device_capability = lambda *a: (9, 0)

from megatron.training import arguments  # noqa: E402

try:
    from megatron.training.argument_utils import core_transformer_config_from_args  # noqa: E402
except ImportError:
    from megatron.training.arguments import core_transformer_config_from_args  # noqa: E402

from common import run  # noqa: E402
from megatron_script import argv_of, environment_of  # noqa: E402
from torch.distributed.run import config_from_args, parse_args  # noqa: E402

# What asks for Transformer Engine, which needs a GPU: whether it is new enough is not for a launch file to say.
for module in list(sys.modules.values()):
    if getattr(module, "is_te_min_version", None) is not None:
        module.is_te_min_version = lambda *a, **k: True
    if getattr(module, "_validate_dsa_kernel_backend_dependencies", None) is not None:  # which kernels are installed
        module._validate_dsa_kernel_backend_dependencies = lambda *a: None


def parsed(script):
    words = argv_of(script)
    at = next(i for i, word in enumerate(words) if word.endswith(("pretrain_gpt.py", "pretrain_mamba.py")))
    launch, _, _ = config_from_args(parse_args(words[:at + 1]))
    world = launch.max_nodes * launch.nproc_per_node
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)  # the script before this one may have set it
    os.environ.update(environment_of(script), RANK="0", WORLD_SIZE=str(world), LOCAL_RANK="0")
    sys.argv = [os.path.basename(words[at]), *words[at + 1:], "--no-rope-fusion"]
    args = arguments.parse_args()
    arguments.validate_args(args)
    return args, world


def check(folder, expected):
    script, = glob.glob(os.path.join(folder, "*.sbatch"))
    args, world = parsed(script)
    config = core_transformer_config_from_args(args)
    found = megatron_core.layout_of(config, world, args.num_distributed_optimizer_instances, args.global_batch_size,
                                    args.micro_batch_size, expected)
    fsdp = getattr(args, "use_megatron_fsdp", False) or getattr(args, "use_custom_fsdp", False)
    zero = {"optim_grads": 2, "optim_grads_params": 3}.get(args.data_parallel_sharding_strategy, 1) if fsdp else 1
    found |= {"seq": args.seq_length, "sp": args.sequence_parallel,
              "zero": zero if args.use_distributed_optimizer else 0,
              "recompute": args.recompute_granularity or "none"}
    return found


if __name__ == "__main__":
    run("Megatron-LM", check)

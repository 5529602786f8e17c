"""ms-swift: its MegatronArguments take an emitted script's words and check themselves; words that are not theirs are fields
of its other arguments. Megatron core builds groups and stages from them, as megatron/utils/megatron_lm_utils.py does."""
import ast
import glob
import importlib.util
import os
import sys
import types
import typing
from types import SimpleNamespace

import megatron_core  # before the stand-ins: it must see that Transformer Engine is missing
from absent import absent
from common import run
from megatron_model import config_of
from megatron_script import argv_of, environment_of, flags_of

ROOT = os.path.dirname(importlib.util.find_spec("swift").origin)
for package in ("swift", "swift.utils", "swift.megatron", "swift.megatron.arguments"):  # their __init__ files import every model
    module = types.ModuleType(package)
    module.__path__ = [os.path.join(ROOT, *package.split(".")[1:])]
    sys.modules[package] = module
absent("swift.model", "swift.arguments", "swift.megatron.utils", "swift.megatron.init", "mcore_bridge", "json_repair", "modelscope")

import torch  # noqa: E402
from swift.utils.env import get_dist_setting  # noqa: E402
from swift.utils.logger import get_logger  # noqa: E402
from swift.utils.utils import json_parse_to_dict, parse_args  # noqa: E402

vars(sys.modules["swift.utils"]).update(get_dist_setting=get_dist_setting, get_logger=get_logger,
                                        json_parse_to_dict=json_parse_to_dict)
from swift.megatron.arguments import megatron_args  # noqa: E402

OTHERS = {statement.target.id for path in glob.glob(os.path.join(ROOT, "arguments", "base_args", "*.py"))
          for node in ast.walk(ast.parse(open(path).read())) if isinstance(node, ast.ClassDef)
          for statement in node.body if isinstance(statement, ast.AnnAssign)}
SIZES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
         "pipeline_model_parallel_layout", "context_parallel_size", "expert_model_parallel_size",
         "expert_tensor_parallel_size", "sequence_parallel", "recompute_granularity", "recompute_method",
         "recompute_num_layers", "recompute_modules", "account_for_embedding_in_pipeline_split",
         "account_for_loss_in_pipeline_split", "cross_entropy_loss_fusion", "cross_entropy_fusion_impl",
         "moe_token_dispatcher_type", "moe_router_dtype", "fp8", "fp8_recipe", "attention_backend")


def precision(arguments):
    dtype = getattr(torch, str(arguments.torch_dtype).removeprefix("torch."))
    arguments.fp16, arguments.bf16 = dtype != torch.bfloat16, dtype == torch.bfloat16


# The parser of this release of transformers takes no union with a list.
megatron_args.MegatronArguments.__annotations__["cp_comm_type"] = typing.Optional[typing.List[str]]
megatron_args.MegatronArguments.__annotations__["torch_dtype"] = typing.Optional[str]  # as its other arguments have it
megatron_args.logger = SimpleNamespace(info=lambda *a: None, warning=lambda *a: None)
megatron_args.require_version = lambda *a: None
megatron_args.initialize_megatron = lambda arguments: None  # the process groups: megatron_core makes them below
megatron_args.ModelArguments = SimpleNamespace(_init_mixed_precision=precision)
megatron_args.get_model_info_meta = lambda *a, **k: (
    SimpleNamespace(model_type="llama", model_dir=""), SimpleNamespace(model_type="llama", is_multimodal=False, mcore_model_type="gpt"))
megatron_args.get_model_meta = lambda *a: SimpleNamespace(visual_cls=None)


def check(folder, expected):
    script, = glob.glob(os.path.join(folder, "*.sh"))
    words = argv_of(script, "megatron")
    assert words[0] == "pt", words[0]
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)  # the script before this one may have set it
    os.environ.update(environment_of(script))
    world = int(os.environ["NNODES"]) * int(os.environ["NPROC_PER_NODE"])
    megatron_args.MegatronArguments.world_size = world
    arguments, rest = parse_args(megatron_args.MegatronArguments, words[1:])
    others = flags_of(rest)
    assert set(others) <= OTHERS, f"ms-swift has no {sorted(set(others) - OTHERS)}"
    more = {name: getattr(arguments, name) for name in SIZES}
    if arguments.cp_comm_type is not None:
        more["cp_comm_type"], = arguments.cp_comm_type
    for end in ("first", "last"):
        more[f"num_layers_in_{end}_pipeline_stage"] = getattr(arguments, f"decoder_{end}_pipeline_num_layers")
    core = config_of(expected, **more)
    found = megatron_core.layout_of(core, world, 1, arguments.global_batch_size, arguments.micro_batch_size, expected)
    assert arguments.num_microbatches == found["micro_batches"] and arguments.data_parallel_size == found["dp"]
    fsdp = {"optim_grads": 2, "optim_grads_params": 3}[arguments.data_parallel_sharding_strategy]
    zero = fsdp if arguments.use_megatron_fsdp else int(arguments.use_distributed_optimizer)
    return found | {"seq": int(others["max_length"][0]), "sp": arguments.sequence_parallel, "zero": zero,
                    "recompute": arguments.recompute_granularity or "none"}


if __name__ == "__main__":
    run("ms-swift", check)

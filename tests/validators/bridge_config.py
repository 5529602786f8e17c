"""Megatron-Bridge: its recipe with an emitted script's words, and with overrides.yaml instead, through its own merging and
ConfigContainer.validate(). Models of Hugging Face are stood in for by a bare provider, the overrides give their widths."""
import dataclasses
import glob
import importlib
import importlib.util
import json
import os
import re
import sys
import types
from types import SimpleNamespace

import megatron_core  # before the stand-ins: it must see that Transformer Engine is missing
from absent import absent
from common import run
from megatron_script import argv_of, environment_of

ROOT = next(os.path.join(path, "bridge") for path in importlib.util.find_spec("megatron").submodule_search_locations
            if os.path.isdir(os.path.join(path, "bridge")))
absent("transformer_engine", "transformer_engine_torch", "nvidia_resiliency_ext", "mamba_ssm", "causal_conv1d", "fla", "timm",
       "open_clip", "mlflow", "wandb", "qwen_vl_utils", "modelopt", "nemo_run", "apex", "comet_ml", "nvdlfw_inspect", "six",
       "megatron.energon", "megatron.bridge.data", "megatron.bridge.peft", "megatron.bridge.models.conversion",
       "megatron.bridge.models.hf_pretrained", "megatron.bridge.training.tokenizers.tokenizer")
for package in ("", ".models", ".training", ".utils", ".recipes", ".recipes.utils"):  # their __init__ files import every model
    module = types.ModuleType("megatron.bridge" + package)
    module.__path__ = [os.path.join(ROOT, *package.split(".")[1:])]
    sys.modules[module.__name__] = module

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from megatron.bridge.models.gpt_provider import GPTModelProvider  # noqa: E402
from megatron.bridge.models.mla_provider import MLAModelProvider  # noqa: E402
from megatron.bridge.models.t5_provider import T5ModelProvider  # noqa: E402
from megatron.core.transformer.moe import moe_utils  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from torch.distributed.run import config_from_args, parse_args  # noqa: E402

models = sys.modules["megatron.bridge.models"]
models.GPTModelProvider, models.T5ModelProvider, models.MLAModelProvider = GPTModelProvider, T5ModelProvider, MLAModelProvider
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_properties = lambda *a: SimpleNamespace(major=9, minor=0, total_memory=80 << 30, name="H100")
torch.cuda.get_device_capability = lambda *a: (9, 0)
for kernel in ("permute", "permute_with_probs", "sort_chunks_by_index", "sort_chunks_by_index_with_probs", "unpermute"):
    setattr(moe_utils, "fused_" + kernel, True)  # Transformer Engine's


class AutoBridge:
    """Every model is one of 8 layers until the overrides say what it is."""

    @staticmethod
    def from_hf_pretrained(name, **_):
        kind = MLAModelProvider if re.search("deepseek|kimi|moonlight", name, re.IGNORECASE) else GPTModelProvider
        make = lambda *a, **k: kind(num_layers=8, hidden_size=4096, num_attention_heads=32)  # noqa: E731
        return SimpleNamespace(to_megatron_provider=make)


sys.modules["megatron.bridge"].AutoBridge = AutoBridge

from megatron.bridge.training.config import runtime_config_update  # noqa: E402
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides  # noqa: E402


def recipe(stem):
    """The recipe's configuration; `vanilla_gpt`, which releases before 0.6 have not, is what all recipes start from."""
    name = stem + "_pretrain_config"
    for path in sorted(glob.glob(os.path.join(ROOT, "recipes", "*", "*.py"))):
        if re.search(rf"^def {name}\(", open(path).read(), re.MULTILINE):
            family, file = path[:-3].split(os.sep)[-2:]
            package = types.ModuleType(f"megatron.bridge.recipes.{family}")
            package.__path__ = [os.path.dirname(path)]
            sys.modules.setdefault(package.__name__, package)
            module = importlib.import_module(f"{package.__name__}.{file}")
            module.AutoBridge = AutoBridge
            return getattr(module, name)()
    assert stem == "vanilla_gpt", f"no recipe {name}"
    config = importlib.import_module("megatron.bridge.recipes.common")._pretrain_common()
    config.model = AutoBridge.from_hf_pretrained("").to_megatron_provider()
    return config


def of_release(config, settings):
    """The names that 0.3 has for three of the keys."""
    if not hasattr(config, "validation"):
        settings = [re.sub(r"^validation\.", "train.", setting) for setting in settings]
    if "seq_length" not in {field.name for field in dataclasses.fields(config.dataset)}:
        settings = [re.sub(r"^dataset\.seq_length", "dataset.sequence_length", setting) for setting in settings]
    return settings


def dotted(settings, before=""):
    """KEY=VALUE of every leaf of a YAML file."""
    for key, value in settings.items():
        yield from dotted(value, before + key + ".") if isinstance(value, dict) else [f"{before}{key}={json.dumps(value)}"]


def layout_of(config, world, expected):
    if dist.is_initialized():
        dist.destroy_process_group()
    runtime_config_update(config)
    model, ddp = config.model, config.ddp
    assert config.data_parallel_size == expected["dp"], config.data_parallel_size
    fsdp = {"optim_grads": 2, "optim_grads_params": 3}[ddp.data_parallel_sharding_strategy] if ddp.use_megatron_fsdp else 1
    found = megatron_core.layout_of(model, world, ddp.num_distributed_optimizer_instances, config.train.global_batch_size,
                                    config.train.micro_batch_size, expected)
    return found | {"seq": model.seq_length, "sp": model.sequence_parallel, "recompute": model.recompute_granularity or "none",
                    "zero": fsdp if ddp.use_distributed_optimizer else 0}


def check(folder, expected):
    script, = glob.glob(os.path.join(folder, "*.sbatch")) + glob.glob(os.path.join(folder, "*.sh"))
    words = argv_of(script)
    at = next(i for i, word in enumerate(words) if word.endswith("run_recipe.py"))
    launch, _, _ = config_from_args(parse_args(words[:at + 1]))
    stem = words[words.index("--model") + 1]
    settings = OmegaConf.to_container(OmegaConf.load(os.path.join(folder, "overrides.yaml")))
    by_words, by_file = (process_config_with_overrides(config, cli_overrides=of_release(config, overrides))
                         for config, overrides in ((recipe(stem), [word for word in words[at + 1:] if "=" in word]),
                                                   (recipe(stem), list(dotted(settings)))))
    world = launch.max_nodes * launch.nproc_per_node
    os.environ.update(environment_of(script), WORLD_SIZE=str(world), RANK="0")
    found, again = layout_of(by_words, world, expected), layout_of(by_file, world, expected)
    assert found == again, f"overrides.yaml says {again}"
    return found


if __name__ == "__main__":
    run("Megatron-Bridge", check)

"""verl: hydra composes its trainer's configuration with an emitted script's words, its own checks and dataclasses take it,
and Megatron core builds groups and stages from what its engine would hand on (workers/engine/megatron)."""
import glob
import importlib.util
import os

import megatron_core  # before the stand-ins: it must see that Transformer Engine is missing
from absent import absent
from common import run
from megatron_model import config_of
from megatron_script import argv_of

absent("ray", "tensordict", "codetiming", "peft", "torchvision", "transfer_queue", "orjson", "wandb", "vllm", "uvicorn", "fastapi")

import torch  # noqa: E402
from hydra import compose, initialize_config_dir  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig  # noqa: E402
from megatron.core.optimizer import OptimizerConfig  # noqa: E402
from megatron.core.transformer.enums import AttnBackend  # noqa: E402
from verl.trainer.ppo.utils import need_critic  # noqa: E402
from verl.utils.config import omega_conf_to_dataclass, validate_config  # noqa: E402

CONFIGS = os.path.join(os.path.dirname(importlib.util.find_spec("verl").origin), "trainer", "config")
SIZES = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size",
         "context_parallel_size", "expert_model_parallel_size", "expert_tensor_parallel_size", "sequence_parallel")


def check(folder, expected):
    script, = glob.glob(os.path.join(folder, "*.sh"))
    words = argv_of(script, "python3")
    assert words[:2] == ["-m", "verl.trainer.main_ppo"], words[:2]
    named, = (word.split("=")[1] for word in words if word.startswith("--config-name="))
    with initialize_config_dir(CONFIGS, version_base=None):
        config = compose(named.removesuffix(".yaml"), overrides=[word for word in words[2:] if not word.startswith("--")])
    assert not need_critic(config), "a critic that the plan knows nothing of"
    validate_config(config, use_reference_policy=True, use_critic=False)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    engine, optimizer, batch = actor.engine, actor.optim, actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n
    more = dict(engine.override_transformer_config)
    more["attention_backend"] = AttnBackend[more.get("attention_backend", "flash")]
    world = config.trainer.nnodes * config.trainer.n_gpus_per_node
    core = config_of(expected, **{"moe_token_dispatcher_type": "alltoall"} | more,
                     **{name: getattr(engine, name) for name in SIZES})
    DistributedDataParallelConfig(use_distributed_optimizer=engine.use_distributed_optimizer, **engine.override_ddp_config)
    OptimizerConfig(optimizer=optimizer.optimizer, bf16=engine.dtype == "bfloat16", fp16=engine.dtype == "float16",
                    params_dtype=torch.bfloat16, use_distributed_optimizer=engine.use_distributed_optimizer,
                    **optimizer.override_optimizer_config or {})
    found = megatron_core.layout_of(core, world, 1, batch, actor.ppo_micro_batch_size_per_gpu, expected)
    return found | {"seq": config.data.max_prompt_length + config.data.max_response_length,
                    "sp": engine.sequence_parallel, "zero": int(engine.use_distributed_optimizer),
                    "recompute": core.recompute_granularity or "none"}


if __name__ == "__main__":
    run("verl", check)

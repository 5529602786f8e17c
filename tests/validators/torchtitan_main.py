"""torchtitan's main branch: the recipe run, its configuration's own checks, ParallelDims, the model's checks and the
stage split."""
import importlib
import os
import sys
from types import SimpleNamespace

import common
import torchtitan.components.quantization.float8 as float8
import torchtitan.components.quantization.mx as mx
import torchtitan.distributed.pipeline_parallel as pipeline
from torchtitan.distributed.parallel_dims import ParallelDims


for module in (float8, mx):  # converters ask for the GPU that the plan has and this box has not
    if hasattr(module, "has_cuda_capability"):
        module.has_cuda_capability = lambda *a: True


class Split(Exception):
    def __init__(self, parts):
        super().__init__("")
        self.parts = parts


def recipe_of(folder):
    name = next(f for f in os.listdir(folder) if f.endswith(".py"))[:-3]
    sys.path.insert(0, folder)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    try:
        return getattr(importlib.import_module(name), name)()
    finally:
        sys.path.remove(folder)


def stages_of(config, dims):
    def take(whole_model, *arguments, **named):
        raise Split(next(a for a in list(arguments) + list(named.values())
                         if isinstance(a, list) and a and isinstance(a[0], list)))

    pipeline._pipeline_module_split = take
    view = SimpleNamespace(pp=dims.pp, get_mesh=lambda *a: SimpleNamespace(get_local_rank=lambda: 0, size=lambda: dims.pp))
    try:
        pipeline.pipeline_llm(None, parallel_dims=view, training=config.training, parallelism=config.parallelism,
                              compile_config=config.compile, ac_config=config.activation_checkpoint, dump_folder="",
                              device=None, model_config=config.model_spec.model,
                              parallelize_fn=None, loss_fn=None)
    except Split as split:
        return [sum(1 for name in part if name.startswith("layers.")) for part in split.parts]


def check(folder, expected):
    config = recipe_of(folder)
    p, t = config.parallelism, config.training
    dims = ParallelDims.from_config(p, expected["gpus"])
    config.model_spec.model.update_from_config(config=config)
    dp = dims.dp_replicate * dims.dp_shard
    tokens = t.num_tokens_per_microbatch_per_dp_rank
    passes = p.num_pp_microbatches if dims.pp > 1 else 1
    assert t.num_tokens_per_train_step % (tokens * passes * dp) == 0, "tokens of a step"
    assert tokens % (dims.tp * (2 * dims.cp if dims.cp > 1 else 1)) == 0, "tokens of a micro-batch"
    found = {"tp": dims.tp, "cp": dims.cp, "pp": dims.pp, "dp": dp, "ep": dims.ep, "seq": t.max_context_length,
             "micro_batch": tokens // t.max_context_length,
             "global_batch": t.num_tokens_per_train_step // t.max_context_length,
             "micro_batches": t.num_tokens_per_train_step // (tokens * dp),
             "shard": dims.dp_shard * dims.cp if dims.dp_replicate > 1 and dims.dp_shard * dims.cp > 1 else 0}
    checkpointing = type(config.activation_checkpoint).__qualname__
    found["recompute"] = "full" if "FullAC" in checkpointing else "selective" if "Selective" in checkpointing else "none"
    if dims.pp > 1:
        assert t.disable_cuda_graphs
        found["chunk_layers"] = stages_of(config, dims)
    return found


if __name__ == "__main__":
    common.run("torchtitan main", check)

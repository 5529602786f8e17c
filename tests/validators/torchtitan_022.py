"""torchtitan v0.2.2: its own parser, ParallelDims, model arguments, stage split and schedule constructors."""
import os
import sys
from types import SimpleNamespace

import common
import torch.distributed.pipelining.schedules as torch_schedules
import torchtitan.components.quantization.float8  # noqa: F401  registers its converters
import torchtitan.components.quantization.mx  # noqa: F401
import torchtitan.distributed.pipeline_parallel as pipeline
from torchtitan.config import ConfigManager
from torchtitan.distributed import ParallelDims
from torchtitan.protocols.model_converter import _registry_model_converter_cls as converters
from torchtitan.protocols.train_spec import get_train_spec

SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "interleaved": "Interleaved1F1B", "breadth-first": "LoopedBFS",
             "zb-v": "ZBVZeroBubble", "dualpipev": "DualPipeV"}


class Split(Exception):
    def __init__(self, parts):
        super().__init__("")
        self.parts = parts


def take_split(model, mesh, schedule, device, parts):
    raise Split(parts)


pipeline.pipeline_module_split = take_split


def stages_of(config, dims, arguments, spec):
    """Layers of each stage as torchtitan's own pipelining function deals them."""
    mesh = SimpleNamespace(get_local_rank=lambda: 0, size=lambda: dims.pp)
    view = SimpleNamespace(pp=dims.pp, get_mesh=lambda name: mesh)
    try:
        pipeline.pipeline_llm(None, view, config, None, arguments, None, None)
    except Split as split:
        return [sum(1 for name in part if name.startswith("layers.")) for part in split.parts], len(split.parts)


def build_schedule(config, dims, stages):
    """PyTorch's schedule object, which counts micro-batches and stages."""
    each = stages // dims.pp
    loop = [SimpleNamespace(stage_index=s * dims.pp, is_first=s == 0, is_last=False, group_size=dims.pp, group_rank=0,
                            num_stages=stages, has_backward=True, group=None, submod=None,
                            stage_index_to_group_rank={}) for s in range(each)]
    # The order of communication needs live processes; the counts are judged before it.
    schedule = torch_schedules.get_schedule_class(config.parallelism.pipeline_parallel_schedule)
    several = issubclass(schedule, torch_schedules.PipelineScheduleMulti)
    if "V" in schedule.__name__:
        mapping = torch_schedules.generate_stage_to_rank_mapping(dims.pp, stages, style="v")
    else:
        mapping = torch_schedules.generate_stage_to_rank_mapping(dims.pp, stages)
    for stage in loop:
        stage.stage_index_to_group_rank = mapping
    pipeline.build_pipeline_schedule(config, loop if several else loop[:1], lambda *a: None)


def zero_of(config, dims):
    policy = config.parallelism.fsdp_reshard_after_forward
    if policy == "default":
        plain = dims.dp_shard == 1 and dims.cp == 1 and dims.tp == 1 and dims.pp == 1
        return 0 if plain else 2 if dims.pp > 1 else 3
    return 3 if policy == "always" else 2


def check(folder, expected):
    config = ConfigManager().parse_args(["--job.config_file", os.path.join(folder, "torchtitan.toml")])
    p, t = config.parallelism, config.training
    world = expected["gpus"]
    dims = ParallelDims(dp_replicate=p.data_parallel_replicate_degree, dp_shard=p.data_parallel_shard_degree,
                        cp=p.context_parallel_degree, tp=p.tensor_parallel_degree, pp=p.pipeline_parallel_degree,
                        ep=p.expert_parallel_degree, etp=p.expert_tensor_parallel_degree, world_size=world)
    if dims.ep > 1:
        assert dims.dp_shard * dims.cp * dims.tp % (dims.ep * dims.etp) == 0, "experts' mesh"
    spec = get_train_spec(config.model.name)
    arguments = spec.model_args[config.model.flavor]
    arguments.update_from_config(config)
    for name in config.model.converters:
        assert name in converters, f"no converter {name}"
    assert t.seq_len % dims.seq_len_divisor == 0, "sequence length"
    dp = dims.dp_replicate * dims.dp_shard
    assert t.global_batch_size % (t.local_batch_size * dp) == 0, "global batch"
    passes = t.global_batch_size // (t.local_batch_size * dp)
    found = {"tp": dims.tp, "cp": dims.cp, "pp": dims.pp, "dp": dp, "ep": dims.ep, "seq": t.seq_len,
             "global_batch": t.global_batch_size, "zero": zero_of(config, dims), "depth": arguments.n_layers,
             "shard": dims.dp_shard * dims.cp if dims.dp_replicate > 1 and dims.dp_shard * dims.cp > 1 else 0}
    if dims.ep > 1:
        found["etp"] = dims.etp
    if dims.pp > 1:
        assert spec.pipelining_fn, "no pipelining"
        layers, stages = stages_of(config, dims, arguments, spec)
        build_schedule(config, dims, stages)
        found |= {"chunk_layers": layers, "vp": stages // dims.pp, "micro_batch": p.pipeline_parallel_microbatch_size,
                  "micro_batches": passes * t.local_batch_size // p.pipeline_parallel_microbatch_size}
        assert SCHEDULES[expected["schedule"]] == p.pipeline_parallel_schedule, p.pipeline_parallel_schedule
    else:
        found |= {"micro_batch": t.local_batch_size, "micro_batches": passes}
    mode = config.activation_checkpoint.mode
    found["recompute"] = "full" if mode == "full" else "none" if mode == "none" else "selective"
    return found


if __name__ == "__main__":
    common.run("torchtitan 0.2.2", check)
    sys.exit(0)

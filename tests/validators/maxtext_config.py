"""MaxText: pyconfig on the emitted file, with the plan's number of devices in place of the box's own."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("DECOUPLE_GCLOUD", "TRUE")

import common
import jax
from maxtext.configs import pyconfig
from maxtext.utils import max_utils

POLICIES = {"full": "full", "minimal_with_context": "selective"}


def check(folder, expected):
    world, each = expected["gpus"], min(8, expected["gpus"])
    devices = [type("Device", (), {"platform": "gpu", "device_kind": "gpu", "id": i, "process_index": i // each,
                                   "slice_index": i // each})() for i in range(world)]
    jax.devices = lambda *a, **k: devices
    jax.device_count = lambda *a, **k: world
    jax.local_device_count = lambda *a, **k: each
    max_utils.maybe_initialize_jax_distributed_system = lambda *a, **k: None
    c = pyconfig.initialize(["train", os.path.join(folder, "maxtext.yml")])
    both = lambda axis: getattr(c, f"ici_{axis}_parallelism") * getattr(c, f"dcn_{axis}_parallelism")  # noqa: E731
    inside = 1
    for axis in ("data", "fsdp", "tensor", "tensor_sequence", "context", "pipeline", "expert"):
        inside *= getattr(c, f"ici_{axis}_parallelism")
    assert inside == each, f"the axes inside a slice multiply to {inside}, not {each}"
    data, fsdp, ep = both("data"), both("fsdp"), both("expert")
    tp, cp, pp = both("tensor") * both("tensor_sequence"), both("context"), both("pipeline")
    dp = data * fsdp * ep
    sharded = fsdp * ep * cp
    found = {"gpus": dp * tp * cp * pp, "tp": tp, "cp": cp, "pp": pp, "dp": dp, "ep": ep,
             "sp": both("tensor_sequence") > 1, "seq": c.max_target_length,
             "zero": 3 if sharded > 1 else 1 if c.shard_optimizer_over_data else 0,
             "shard": sharded if data > 1 and sharded > 1 else 0, "depth": c.num_decoder_layers,
             "recompute": POLICIES[c.remat_policy]}
    steps = c.gradient_accumulation_steps
    found["global_batch"] = c.global_batch_size_to_train_on
    if pp > 1:
        found |= {"micro_batches": c.num_pipeline_microbatches * steps, "vp": c.num_pipeline_repeats,
                  "micro_batch": c.global_batch_size_to_train_on // steps // c.num_pipeline_microbatches // dp}
    else:
        found |= {"micro_batches": steps, "micro_batch": c.global_batch_size_to_train_on // steps // dp}
    if cp > 1:
        found["cp_kind"] = {"all_gather": "all-gather", "ring": "ring"}[c.context_parallel_strategy]
    return found


if __name__ == "__main__":
    common.run("MaxText", check)

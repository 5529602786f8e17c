"""axolotl: the schema that its command line validates a configuration with, for the machines of the plan, and the words of
the script that starts it."""
import glob
import os
import sys
import types

import yaml

import common
from absent import absent

absent("addict", "bitsandbytes", "mistral_common", "modal", "trl", "peft")
# What a machine that splits sequences has installed; the schema imports it and reads nothing of it.
for name in ("ring_flash_attn",):
    sys.modules[name] = types.ModuleType(name)

from axolotl.utils.schemas.config import AxolotlConfigWCapabilities  # noqa: E402

MACHINE = {"bf16": True, "fp8": True, "tf32": True, "n_gpu": 8, "n_node": 2, "compute_capability": "sm_90"}


def check(folder, expected):
    path, = glob.glob(os.path.join(folder, "*.yaml"))
    written = yaml.safe_load(open(path))
    schema = AxolotlConfigWCapabilities(**written, capabilities=MACHINE, env_capabilities={"torch_version": "2.9.0"})
    strange = sorted(set(written) - set(AxolotlConfigWCapabilities.model_fields))
    assert not strange, f"axolotl has no {strange}"
    script, = glob.glob(os.path.join(folder, "*.sbatch")) + glob.glob(os.path.join(folder, "*.sh"))
    assert f"axolotl.cli.train" in open(script).read() and os.path.basename(path) in open(script).read()
    tp, cp = schema.tensor_parallel_size or 1, schema.context_parallel_size or 1
    sharded = schema.fsdp_config is not None
    dp = (schema.dp_replicate_size or 1) * (schema.dp_shard_size or 1) if sharded else expected["dp"]
    found = {"seq": schema.sequence_len, "micro_batch": schema.micro_batch_size, "tp": tp, "cp": cp, "dp": dp,
             "micro_batches": schema.gradient_accumulation_steps, "gpus": tp * cp * dp,
             "global_batch": schema.micro_batch_size * schema.gradient_accumulation_steps * dp,
             "recompute": "full" if schema.gradient_checkpointing else "none", "zero": 0}
    if sharded:
        assert schema.fsdp_version == 2 or str(schema.fsdp_version) == "2"
        found["zero"] = 3 if schema.fsdp_config.reshard_after_forward else 2
    return found


if __name__ == "__main__":
    common.run("axolotl", check)

"""torchtune: what `tune validate` does with a configuration, its components bound to their arguments; the recipe of the
script is one of its own and takes the configuration; the mesh that its recipes build from the degrees."""
import glob
import importlib.util
import os
import re

import common
from absent import absent

absent("torchao", "torchdata", "sentencepiece", "tiktoken", "blobfile", "kagglehub", "torchvision", "PIL")

from omegaconf import OmegaConf  # noqa: E402
from torchtune import config  # noqa: E402
from torchtune._recipe_registry import get_all_recipes  # noqa: E402

PACKAGE = os.path.dirname(os.path.dirname(importlib.util.find_spec("torchtune").origin))


def check(folder, expected):
    path, = glob.glob(os.path.join(folder, "*.yaml"))
    cfg = OmegaConf.load(path)
    config.validate(cfg)
    script, = glob.glob(os.path.join(folder, "*.sbatch")) + glob.glob(os.path.join(folder, "*.sh"))
    text = open(script).read()
    recipe, = [one for one in get_all_recipes() if re.search(rf"\s{one.name}\s", text)]
    assert recipe.supports_distributed and os.path.basename(path) in text
    read = open(os.path.join(PACKAGE, "recipes", recipe.file_path)).read()
    for key in ("data_parallel_shard_dim", "tensor_parallel_dim"):  # what a recipe leaves alone must be its own way
        assert key in read or cfg[key] in (1, expected["dp"]), f"{recipe.name} does not read {key}"
    tp, dp = cfg.tensor_parallel_dim, cfg.data_parallel_shard_dim
    return {"seq": cfg.tokenizer.max_seq_len, "micro_batch": cfg.batch_size, "tp": tp, "dp": dp, "gpus": tp * dp, "cp": 1,
            "micro_batches": cfg.gradient_accumulation_steps,
            "global_batch": cfg.batch_size * cfg.gradient_accumulation_steps * dp,
            "zero": 3 if cfg.fsdp_reshard_after_forward else 2,
            "recompute": "full" if cfg.enable_activation_checkpointing else "none"}


if __name__ == "__main__":
    common.run("torchtune", check)

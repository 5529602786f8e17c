"""The torchrun line of each batch script, by torchrun's own parser."""
import os
import shlex

import common
from torch.distributed.run import config_from_args, parse_args

VALUES = {"$SLURM_NODEID": "0", "$0": "10.0.0.1", "$1": "29500", "${@:2}": "-m"}


def check(folder, expected):
    name = next(f for f in os.listdir(folder) if f.endswith(".sbatch"))
    lines = open(os.path.join(folder, name)).read().split("\n")
    nodes = int(next(line for line in lines if line.startswith("#SBATCH --nodes=")).split("=")[1])
    each = int(next(line for line in lines if line.startswith("#SBATCH --gpus-per-node=")).split("=")[1])
    command = next(word for word in shlex.split(next(line for line in lines if "torchrun" in line and "srun" in line)
                                                .rstrip("\\")) if "torchrun" in word)
    words = [VALUES.get(word, str(nodes) if word == "$SLURM_NNODES" else word) for word in shlex.split(command)]
    words = words[words.index("torchrun") + 1:]
    config, _, _ = config_from_args(parse_args(words + ["train"]))
    assert config.max_nodes == nodes and config.nproc_per_node == each
    return {"gpus": config.max_nodes * config.nproc_per_node}


if __name__ == "__main__":
    common.run("torchrun", check)

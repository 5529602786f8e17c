"""The arguments of run_clm.py as transformers' own parser reads them from JSON."""
import dataclasses
import json

from transformers import HfArgumentParser, TrainingArguments


# Fields of run_clm.py's own two dataclasses that we write (examples/pytorch/language-modeling/run_clm.py).
@dataclasses.dataclass
class ScriptArguments:
    config_name: str = None
    model_name_or_path: str = None
    tokenizer_name: str = None
    dataset_name: str = None
    dataset_config_name: str = None
    train_file: str = None
    block_size: int = None


class _NoHardware(TrainingArguments):
    """A box without GPUs refuses bf16 and the fused optimizer on other grounds than the file's."""

    def __post_init__(self):
        assert self.per_device_train_batch_size >= 1 and self.gradient_accumulation_steps >= 1
        assert not (self.bf16 and self.fp16)
        from transformers.training_args import OptimizerNames
        OptimizerNames(self.optim)


def read(path):
    with open(path) as file:
        raw = json.load(file)
    trainer, script = HfArgumentParser((dataclasses.dataclass(_NoHardware), ScriptArguments)).parse_dict(raw)
    assert script.config_name or script.model_name_or_path
    found = {"seq": script.block_size, "micro_batch": trainer.per_device_train_batch_size,
             "micro_batches": trainer.gradient_accumulation_steps,
             "precision": "bf16" if trainer.bf16 else "fp16" if trainer.fp16 else "fp32"}
    return found | ({"recompute": "full"} if trainer.gradient_checkpointing else {})

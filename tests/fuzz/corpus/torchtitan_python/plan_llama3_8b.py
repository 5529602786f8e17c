# llama3-8b on 16 h100-sxm: tp 1, cp 1, pp 2 (vp 8), dp 8, zero 3, 128 micro-batches of 1
# For torchtitan's main branch: torchrun ... -m torchtitan.train --module plan_llama3_8b --config plan_llama3_8b
from torchtitan.config import CompileConfig
from torchtitan.models.llama3 import model_registry
from torchtitan.models.llama3.config_registry import llama3_8b
from torchtitan.trainer import Trainer


def plan_llama3_8b() -> Trainer.Config:
    config = llama3_8b()
    config.model_spec = model_registry("8B")
    config.hf_assets_path = "./assets/hf/Llama-3.1-8B"
    p = config.parallelism
    p.data_parallel_replicate_degree = 1
    p.data_parallel_shard_degree = 8
    p.fsdp_reshard_after_forward = "always"
    p.tensor_parallel_degree = 1
    p.context_parallel_degree = 1
    p.pipeline_parallel_degree = 2
    p.expert_parallel_degree = 1
    p.pipeline_parallel_schedule = "Interleaved1F1B"
    p.num_pp_microbatches = 128
    p.module_fqns_per_model_part = [
      ["tok_embeddings", "layers.0", "layers.1"],
      ["layers.2", "layers.3"],
      ["layers.4", "layers.5"],
      ["layers.6", "layers.7"],
      ["layers.8", "layers.9"],
      ["layers.10", "layers.11"],
      ["layers.12", "layers.13"],
      ["layers.14", "layers.15"],
      ["layers.16", "layers.17"],
      ["layers.18", "layers.19"],
      ["layers.20", "layers.21"],
      ["layers.22", "layers.23"],
      ["layers.24", "layers.25"],
      ["layers.26", "layers.27"],
      ["layers.28", "layers.29", "layers.30"],
      ["layers.31", "norm", "lm_head"],
    ]
    config.training.max_context_length = 8192
    config.training.num_tokens_per_microbatch_per_dp_rank = 1 * 8192
    config.training.num_tokens_per_train_step = 1024 * 8192
    config.training.mixed_precision_param = "bfloat16"
    config.training.enable_cpu_offload = False
    config.training.disable_cuda_graphs = True
    config.activation_checkpoint = None
    config.compile = CompileConfig(enable=True, components=["model"])
    config.__post_init__()
    return config

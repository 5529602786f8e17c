"""Asks the released megatron-core about emitted batch scripts: their arguments make a TransformerConfig, process groups at
the full world size (no process is started: PyTorch's fake group), the layers of every stage, DDP and optimizer
configurations. The parser and its checks are in no package: megatron_training.py asks a checkout."""
import glob
import inspect
import os
import sys
import warnings
from types import SimpleNamespace

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.run import config_from_args, parse_args  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402
import torch.utils.cpp_extension as extensions  # noqa: E402

# Kernels are not compiled on a box without a GPU, and nothing here runs one: core 0.15 builds some when it is imported.
extensions.load = extensions.load_inline = lambda *a, **k: SimpleNamespace(__file__="/nowhere.so")

import megatron.core  # noqa: E402
from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig  # noqa: E402
from megatron.core.num_microbatches_calculator import ConstantNumMicroBatchesCalculator  # noqa: E402
from megatron.core.optimizer import OptimizerConfig  # noqa: E402
from megatron.core.transformer import MLATransformerConfig, TransformerConfig  # noqa: E402
from megatron.core.transformer.transformer_block import get_num_layers_to_build  # noqa: E402

from common import run  # noqa: E402
from megatron_script import argv_of, flags_of  # noqa: E402

# What asks for Transformer Engine, which needs a GPU: whether it is new enough is not for a launch file to say.
for module in list(sys.modules.values()):
    if module is not None and "is_te_min_version" in vars(module):
        module.is_te_min_version = lambda *a, **k: True



class FusedAdam:  # of Transformer Engine: core looks at what it takes before it lets the optimizer's states be narrow
    def __init__(self, master_weight_dtype, exp_avg_dtype, exp_avg_sq_dtype, use_decoupled_grad):
        pass


for name in ("transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.optimizers"):
    sys.modules.setdefault(name, SimpleNamespace(FusedAdam=FusedAdam))

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.uint8}


def number(flags, name, default=None):
    return int(flags[name][0]) if name in flags else default


def transformer_config(flags):
    on = lambda name: name in flags
    word = lambda name, default=None: flags[name][0] if name in flags else default
    heads = number(flags, "num-attention-heads")
    vp = number(flags, "num-virtual-stages-per-pipeline-rank")
    pp = number(flags, "pipeline-model-parallel-size", 1)
    layout = word("pipeline-model-parallel-layout")
    if layout is not None:
        from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
        stages = PipelineParallelLayerLayout.get_num_stages_from_str(layout)
        assert stages % pp == 0, (stages, pp)
        vp = stages // pp if stages > pp else None
        layout = PipelineParallelLayerLayout.from_str(layout, pp)
    frequency = word("moe-layer-freq", "1")
    config = dict(
        num_layers=number(flags, "num-layers"), hidden_size=number(flags, "hidden-size"), num_attention_heads=heads,
        num_query_groups=number(flags, "num-query-groups", heads), ffn_hidden_size=number(flags, "ffn-hidden-size"),
        kv_channels=number(flags, "kv-channels"), normalization=word("normalization"), gated_linear_unit=on("swiglu"),
        activation_func=torch.nn.functional.silu if on("swiglu") else torch.nn.functional.gelu,
        add_bias_linear=not on("disable-bias-linear"), add_qkv_bias=on("add-qkv-bias"), qk_layernorm=on("qk-layernorm"),
        tensor_model_parallel_size=number(flags, "tensor-model-parallel-size", 1), sequence_parallel=on("sequence-parallel"),
        context_parallel_size=number(flags, "context-parallel-size", 1), cp_comm_type=word("cp-comm-type", "p2p"),
        hierarchical_context_parallel_sizes=[int(n) for n in flags["hierarchical-context-parallel-sizes"]]
        if on("hierarchical-context-parallel-sizes") else None,
        pipeline_model_parallel_size=pp, virtual_pipeline_model_parallel_size=vp, pipeline_dtype=torch.bfloat16,
        num_layers_in_first_pipeline_stage=number(flags, "decoder-first-pipeline-num-layers"),
        num_layers_in_last_pipeline_stage=number(flags, "decoder-last-pipeline-num-layers"),
        account_for_embedding_in_pipeline_split=on("account-for-embedding-in-pipeline-split"),
        account_for_loss_in_pipeline_split=on("account-for-loss-in-pipeline-split"),
        expert_model_parallel_size=number(flags, "expert-model-parallel-size", 1),
        expert_tensor_parallel_size=number(flags, "expert-tensor-parallel-size"),
        num_moe_experts=number(flags, "num-experts"), moe_ffn_hidden_size=number(flags, "moe-ffn-hidden-size"),
        moe_router_topk=number(flags, "moe-router-topk", 2), moe_grouped_gemm=on("moe-grouped-gemm"),
        moe_layer_freq=eval(frequency, {"__builtins__": {}}),  # a list of digits, as Megatron itself evaluates it
        moe_shared_expert_intermediate_size=number(flags, "moe-shared-expert-intermediate-size"),
        moe_token_dispatcher_type=word("moe-token-dispatcher-type", "allgather"),
        moe_router_score_function=word("moe-router-score-function", "softmax"),
        moe_router_enable_expert_bias=on("moe-router-enable-expert-bias"),
        recompute_granularity=word("recompute-granularity"), recompute_method=word("recompute-method"),
        recompute_num_layers=number(flags, "recompute-num-layers"), recompute_modules=flags.get("recompute-modules"),
        mtp_num_layers=number(flags, "mtp-num-layers"), bf16=on("bf16"), fp16=on("fp16"),
        attention_dropout=float(word("attention-dropout")), hidden_dropout=float(word("hidden-dropout")),
        cross_entropy_loss_fusion=on("cross-entropy-loss-fusion"),
        cross_entropy_fusion_impl=word("cross-entropy-fusion-impl", "native"),
        tp_comm_overlap=on("tp-comm-overlap"), gradient_accumulation_fusion=False)
    if layout is not None:  # from 0.13 on
        config.update(pipeline_model_parallel_layout=layout)
    if on("fine-grained-activation-offloading"):  # from 0.16 on
        config.update(fine_grained_activation_offloading=True, offload_modules=flags["offload-modules"])
    if on("cpu-offloading-num-layers"):
        config.update(cpu_offloading=True, cpu_offloading_num_layers=number(flags, "cpu-offloading-num-layers"))
    if on("fp8-format"):
        config.update(fp8=word("fp8-format"), fp8_recipe=word("fp8-recipe", "delayed"))
    if not on("multi-latent-attention"):
        return TransformerConfig(**config)
    return MLATransformerConfig(**config, multi_latent_attention=True, q_lora_rank=number(flags, "q-lora-rank"),
                                kv_lora_rank=number(flags, "kv-lora-rank"), qk_head_dim=number(flags, "qk-head-dim"),
                                qk_pos_emb_head_dim=number(flags, "qk-pos-emb-head-dim"), v_head_dim=number(flags, "v-head-dim"))


def groups(config, world, instances):
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world)
    parallel_state.destroy_model_parallel()
    parallel_state.initialize_model_parallel(
        tensor_model_parallel_size=config.tensor_model_parallel_size,
        pipeline_model_parallel_size=config.pipeline_model_parallel_size,
        virtual_pipeline_model_parallel_size=config.virtual_pipeline_model_parallel_size,
        context_parallel_size=config.context_parallel_size,
        hierarchical_context_parallel_sizes=config.hierarchical_context_parallel_sizes,
        expert_model_parallel_size=config.expert_model_parallel_size,
        expert_tensor_parallel_size=config.expert_tensor_parallel_size,
        num_distributed_optimizer_instances=instances, create_gloo_process_groups=False)


def layers_of(config, pp, chunk):
    """Layers of one chunk. Up to 0.14 the rank is taken from the process groups, in 0.12 the chunk, too."""
    parallel_state.set_pipeline_model_parallel_rank(pp)
    parallel_state.set_virtual_pipeline_model_parallel_rank(chunk)
    known = inspect.signature(get_num_layers_to_build).parameters
    return get_num_layers_to_build(config, **{name: value for name, value in (("vp_stage", chunk), ("pp_rank", pp))
                                              if name in known})


def chunks_of(config):
    """Layers of each chunk in model order."""
    layout, chunks = getattr(config, "pipeline_model_parallel_layout", None), []
    for vp in range(config.virtual_pipeline_model_parallel_size or 1):
        for pp in range(config.pipeline_model_parallel_size):
            if layout is None:
                chunk = vp if config.virtual_pipeline_model_parallel_size else None
                chunks.append(layers_of(config, pp, chunk))
            else:
                stage = layout.layout[pp][vp]
                chunks.append(sum(1 for layer in stage if layer.name == "decoder"))
    return chunks


def layout_of(config, world, instances, global_batch, micro_batch, expected):
    """The layout that Megatron ends up with, from its process groups."""
    groups(config, world, instances)
    chunks = chunks_of(config)
    assert sum(chunks) == config.num_layers, (chunks, config.num_layers)
    dp = parallel_state.get_data_parallel_world_size()
    moe = config.num_moe_experts is not None
    return {"gpus": world, "tp": parallel_state.get_tensor_model_parallel_world_size(),
            "cp": parallel_state.get_context_parallel_world_size(),
            "pp": parallel_state.get_pipeline_model_parallel_world_size(),
            "vp": config.virtual_pipeline_model_parallel_size or 1, "dp": dp,
            "ep": parallel_state.get_expert_model_parallel_world_size() if moe else 1,
            "etp": parallel_state.get_expert_tensor_parallel_world_size() if moe else 1,
            "micro_batches": ConstantNumMicroBatchesCalculator(global_batch, micro_batch, dp, False, 0).get(),
            "micro_batch": micro_batch, "global_batch": global_batch, "depth": sum(chunks),
            "chunk_layers": chunks if len(chunks) > 1 else expected.get("chunk_layers")}


def check(folder, expected):
    script, = glob.glob(os.path.join(folder, "*.sbatch"))
    words = argv_of(script)
    at = next(i for i, word in enumerate(words) if word.endswith("pretrain_gpt.py"))
    launch, _, _ = config_from_args(parse_args(words[:at + 1]))
    flags = flags_of(words[at + 1:])
    assert "eval-interval" in flags and number(flags, "max-position-embeddings") >= number(flags, "seq-length")
    config = transformer_config(flags)
    instances = number(flags, "num-distributed-optimizer-instances", 1)
    found = layout_of(config, launch.max_nodes * launch.nproc_per_node, instances, number(flags, "global-batch-size"),
                      number(flags, "micro-batch-size"), expected)
    DistributedDataParallelConfig(
        use_distributed_optimizer="use-distributed-optimizer" in flags, overlap_grad_reduce="overlap-grad-reduce" in flags,
        overlap_param_gather="overlap-param-gather" in flags, num_distributed_optimizer_instances=instances,
        grad_reduce_in_fp32="grad-reduce-in-bf16" not in flags)
    OptimizerConfig(
        optimizer=flags["optimizer"][0], bf16="bf16" in flags, params_dtype=torch.bfloat16,
        use_precision_aware_optimizer="use-precision-aware-optimizer" in flags, use_distributed_optimizer="use-distributed-optimizer" in flags,
        **{flag.replace("-", "_"): DTYPES[flags[flag][0]] for flag in
           ("main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype") if flag in flags})
    return found | {"seq": number(flags, "seq-length"), "sp": config.sequence_parallel}


if __name__ == "__main__":
    run(f"megatron-core {megatron.core.__version__}", check)

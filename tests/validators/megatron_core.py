"""Asks the released megatron-core about emitted batch scripts: the script runs under stand-ins for scontrol, srun and
torchrun; its arguments make a TransformerConfig, process groups at the full world size (no process is started: PyTorch's
fake group), the layers of every stage, DDP and optimizer configurations. megatron.training, whose parser is in no
package, is asked only if MEGATRON_LM names a checkout."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.run import config_from_args, parse_args  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from megatron.core import parallel_state  # noqa: E402
from megatron.core.distributed import DistributedDataParallelConfig  # noqa: E402
from megatron.core.num_microbatches_calculator import ConstantNumMicroBatchesCalculator  # noqa: E402
from megatron.core.optimizer import OptimizerConfig  # noqa: E402
from megatron.core.transformer import MLATransformerConfig, TransformerConfig  # noqa: E402
from megatron.core.transformer.transformer_block import get_num_layers_to_build  # noqa: E402

from common import run  # noqa: E402

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.uint8}


def argv_of(script):
    """Words that torchrun would get."""
    with tempfile.TemporaryDirectory() as shims:
        def shim(name, text):
            path = os.path.join(shims, name)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)
        shim("scontrol", "#!/bin/sh\necho node0\n")
        shim("srun", "#!/bin/bash\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nexec \"$@\"\n")
        shim("torchrun", f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
        env = dict(os.environ, PATH=shims + ":" + os.environ["PATH"], SLURM_JOB_NODELIST="node[0-9]", SLURM_NODEID="0",
                   MEGATRON_PATH="/megatron")
        for line in open(script):
            if line.startswith("#SBATCH --nodes="):
                env["SLURM_NNODES"] = line.split("=")[1].strip()
        out = subprocess.run(["bash", script], env=env, capture_output=True, text=True, check=True)
        return json.loads(out.stdout)


def flags_of(words):
    flags, name = {}, None
    for word in words:
        if word.startswith("--"):
            name = word[2:]
            flags[name] = []
        else:
            flags[name].append(word)
    return flags


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
        pipeline_model_parallel_layout=layout,
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


def check(folder, expected):
    script, = glob.glob(os.path.join(folder, "*.sbatch"))
    words = argv_of(script)
    at = next(i for i, word in enumerate(words) if word.endswith("pretrain_gpt.py"))
    launch, _, _ = config_from_args(parse_args(words[:at + 1]))
    world = launch.max_nodes * launch.nproc_per_node
    flags = flags_of(words[at + 1:])
    assert "eval-interval" in flags and number(flags, "max-position-embeddings") >= number(flags, "seq-length")
    config = transformer_config(flags)
    instances = number(flags, "num-distributed-optimizer-instances", 1)
    groups(config, world, instances)
    layers, chunks = 0, []
    for vp in range(config.virtual_pipeline_model_parallel_size or 1):
        for pp in range(config.pipeline_model_parallel_size):
            chunk = vp if config.virtual_pipeline_model_parallel_size else None
            if config.pipeline_model_parallel_layout is None:
                chunks.append(get_num_layers_to_build(config, vp_stage=chunk, pp_rank=pp))
            else:
                stage = config.pipeline_model_parallel_layout.layout[pp][vp]
                chunks.append(sum(1 for layer in stage if layer.name == "decoder"))
    layers = sum(chunks)
    assert layers == config.num_layers, (layers, config.num_layers)
    DistributedDataParallelConfig(
        use_distributed_optimizer="use-distributed-optimizer" in flags, overlap_grad_reduce="overlap-grad-reduce" in flags,
        overlap_param_gather="overlap-param-gather" in flags, num_distributed_optimizer_instances=instances,
        grad_reduce_in_fp32="grad-reduce-in-bf16" not in flags)
    OptimizerConfig(
        optimizer=flags["optimizer"][0], bf16="bf16" in flags, use_distributed_optimizer="use-distributed-optimizer" in flags,
        **{flag.replace("-", "_"): DTYPES[flags[flag][0]] for flag in
           ("main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype") if flag in flags})
    dp = parallel_state.get_data_parallel_world_size()
    batches = ConstantNumMicroBatchesCalculator(
        number(flags, "global-batch-size"), number(flags, "micro-batch-size"), dp, False, 0).get()
    moe = config.num_moe_experts is not None
    return {"gpus": world, "tp": parallel_state.get_tensor_model_parallel_world_size(),
            "cp": parallel_state.get_context_parallel_world_size(), "pp": parallel_state.get_pipeline_model_parallel_world_size(),
            "vp": config.virtual_pipeline_model_parallel_size or 1, "dp": dp,
            "ep": parallel_state.get_expert_model_parallel_world_size() if moe else 1,
            "etp": parallel_state.get_expert_tensor_parallel_world_size() if moe else 1, "micro_batches": batches,
            "micro_batch": number(flags, "micro-batch-size"), "global_batch": number(flags, "global-batch-size"),
            "seq": number(flags, "seq-length"), "sp": config.sequence_parallel, "depth": layers,
            "chunk_layers": chunks if len(chunks) > 1 else expected["chunk_layers"]}


run("megatron-core", check)

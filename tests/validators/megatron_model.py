"""A model of the plan's depth for tools that take the rest of it from Hugging Face: widths that every layout divides."""
import torch
from megatron.core.transformer import MLATransformerConfig, TransformerConfig
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout

EXPERTS = 256


def is_moe(expected):
    return any(name in expected["model"] for name in ("mixtral", "qwen3-30b", "deepseek"))


def shape_of(expected):
    shape = {"num_layers": expected["depth"], "hidden_size": 16384, "num_attention_heads": 128, "num_query_groups": 128,
             "kv_channels": 128, "ffn_hidden_size": 65536, "gated_linear_unit": True, "add_bias_linear": False,
             "normalization": "RMSNorm", "pipeline_dtype": torch.bfloat16}
    if expected["model"] == "deepseek-v3":
        shape["mtp_num_layers"] = 1
    if is_moe(expected):
        shape |= {"num_moe_experts": EXPERTS, "moe_ffn_hidden_size": 65536, "moe_grouped_gemm": True}
    return shape


def config_of(expected, **settings):
    """TransformerConfig as a tool would make it from its settings: names that it does not know are refused."""
    layout, pp = settings.get("pipeline_model_parallel_layout"), settings["pipeline_model_parallel_size"]
    if isinstance(layout, str):
        stages = PipelineParallelLayerLayout.get_num_stages_from_str(layout)
        settings["pipeline_model_parallel_layout"] = PipelineParallelLayerLayout.from_str(layout, pp)
        settings["virtual_pipeline_model_parallel_size"] = stages // pp if stages > pp else None
    latent = "deepseek" in expected["model"]
    return (MLATransformerConfig if latent else TransformerConfig)(**shape_of(expected) | settings)

#!/usr/bin/env python3
"""Writes tests/presets/family_counts.jsonl: random small config.json of every family that transformers has, with the
number of trained parameters that transformers itself builds for it. Needs torch and transformers 5.23."""
import json
import random
import sys

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ABSENT = object()
FLAG = [ABSENT, True, False]
LLAMA = {
    "hidden_size": [64, 96, 192], "intermediate_size": [80, 128], "num_hidden_layers": [1, 2, 5],
    "vocab_size": [100, 1000], "num_attention_heads": [4, 8], "num_key_value_heads": [1, 2, 4],
    "tie_word_embeddings": FLAG}
BIAS = {"attention_bias": FLAG}
HEAD = {"head_dim": [ABSENT, 8, 24]}
WINDOW = {"sliding_window": [ABSENT, None, 512]}
EXPERTS = {"num_experts": [4, 8], "num_experts_per_tok": [1, 2]}
LOCAL = {"num_local_experts": [4, 8], "num_experts_per_tok": [1, 2]}
ROUTED = {"n_routed_experts": [4, 8], "num_experts_per_tok": [1, 2], "moe_intermediate_size": [24, 40],
          "n_shared_experts": [1, 2], "n_group": [1], "topk_group": [1]}
LATENT = {"q_lora_rank": [None, 16], "kv_lora_rank": [16, 24], "qk_nope_head_dim": [8, 16], "qk_rope_head_dim": [8],
          "v_head_dim": [8, 24], "first_k_dense_replace": [0, 1], "num_key_value_heads": [ABSENT]}
QWEN = {"use_sliding_window": FLAG, "max_window_layers": [ABSENT, 1]}

FAMILIES = {
    "apertus": LLAMA | BIAS, "arcee": LLAMA | BIAS | HEAD | {"mlp_bias": FLAG},
    "cohere": LLAMA | BIAS, "cohere2": LLAMA | BIAS | WINDOW,
    "deepseek_v3": LLAMA | ROUTED | LATENT, "glm4_moe_lite": LLAMA | ROUTED | LATENT | {
        "first_k_dense_replace": [ABSENT], "q_lora_rank": [16]},
    "dots1": LLAMA | BIAS | ROUTED | {"first_k_dense_replace": [0, 1]},
    "ernie4_5": LLAMA | HEAD | {"use_bias": FLAG},
    "ernie4_5_moe": LLAMA | {
        "moe_num_experts": [4, 8], "moe_k": [1, 2], "moe_intermediate_size": [ABSENT, 24],
        "moe_num_shared_experts": [ABSENT, 1, 2], "moe_layer_start_index": [ABSENT, 0, 1],
        "moe_layer_end_index": [ABSENT, -1, 1], "moe_layer_interval": [ABSENT, 1, 2]},
    "exaone4": LLAMA | HEAD | WINDOW, "falcon": LLAMA | {
        "bias": FLAG, "new_decoder_architecture": [ABSENT, True, False], "multi_query": FLAG, "parallel_attn": FLAG,
        "num_key_value_heads": [ABSENT], "intermediate_size": [ABSENT]},
    "gemma": LLAMA | BIAS | HEAD, "gemma2": LLAMA | BIAS | HEAD | WINDOW,
    "gemma3_text": LLAMA | BIAS | HEAD | WINDOW,
    "glm": LLAMA | BIAS | HEAD, "glm4": LLAMA | BIAS | HEAD,
    "glm4_moe": LLAMA | BIAS | HEAD | ROUTED | {"use_qk_norm": FLAG, "first_k_dense_replace": [ABSENT, 0, 1]},
    "gpt_neox": LLAMA | BIAS | {"num_key_value_heads": [ABSENT]},
    "gpt_oss": LLAMA | BIAS | HEAD | LOCAL | WINDOW,
    "granite": LLAMA | BIAS | {"mlp_bias": FLAG}, "granitemoe": LLAMA | BIAS | LOCAL,
    "granitemoeshared": LLAMA | BIAS | LOCAL | {"shared_intermediate_size": [ABSENT, 48]},
    "granitemoehybrid": LLAMA | BIAS | LOCAL | {
        "num_hidden_layers": [3], "layer_types": [ABSENT, ["mamba", "attention", "mamba"]], "hidden_size": [64, 96],
        "num_local_experts": [0, 4], "mamba_n_heads": [4, 8], "mamba_d_state": [ABSENT, 16], "shared_intermediate_size":
        [ABSENT, 48], "mamba_n_groups": [ABSENT, 2], "mamba_d_conv": [ABSENT, 3]},
    "hunyuan_v1_dense": LLAMA | BIAS | HEAD,
    "llama": LLAMA | BIAS | HEAD | {"mlp_bias": FLAG}, "minimax_m2": LLAMA | LOCAL | HEAD,
    "ministral": LLAMA | HEAD | WINDOW, "ministral3": LLAMA | HEAD | WINDOW, "mistral": LLAMA | HEAD | WINDOW,
    "mixtral": LLAMA | LOCAL | HEAD | WINDOW, "nemotron": LLAMA | BIAS | HEAD | {"mlp_bias": FLAG},
    "olmo": LLAMA | BIAS, "olmo2": LLAMA | BIAS, "olmo3": LLAMA | BIAS | WINDOW, "olmoe": LLAMA | BIAS | EXPERTS,
    "phi": LLAMA | {"num_key_value_heads": [ABSENT]}, "phi3": LLAMA | WINDOW,
    "phimoe": LLAMA | BIAS | LOCAL | {"lm_head_bias": FLAG},
    "qwen2": LLAMA | QWEN | WINDOW, "qwen3": LLAMA | BIAS | HEAD | QWEN | WINDOW,
    "qwen2_moe": LLAMA | EXPERTS | {
        "moe_intermediate_size": [24], "shared_expert_intermediate_size": [48], "decoder_sparse_step": [ABSENT, 1, 2],
        "mlp_only_layers": [ABSENT, [0]], "qkv_bias": FLAG},
    "qwen3_moe": LLAMA | BIAS | HEAD | EXPERTS | {
        "moe_intermediate_size": [24], "decoder_sparse_step": [ABSENT, 1, 2], "mlp_only_layers": [ABSENT, [0]]},
    "seed_oss": LLAMA | BIAS | HEAD | {"attention_out_bias": FLAG, "mlp_bias": FLAG},
    "smollm3": LLAMA | BIAS | {"mlp_bias": FLAG},
    "stablelm": LLAMA | {"use_qkv_bias": FLAG, "use_parallel_residual": FLAG},
    "starcoder2": LLAMA | {"use_bias": FLAG},
}


def draw(rng, family, keys):
    drawn = {key: rng.choice(values) for key, values in keys.items()}
    return {"model_type": family, "pad_token_id": 0} | {key: value for key, value in drawn.items() if value is not ABSENT}


def trained(config):
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIG_MAPPING[config["model_type"]].from_dict(dict(config)))
    model.tie_weights()
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def main():
    rng = random.Random(7)
    with open(sys.argv[1], "w") as out:
        for family, keys in FAMILIES.items():
            for _ in range(12):
                config = draw(rng, family, keys)
                try:
                    out.write(json.dumps({"trained": trained(config), "config": config}) + "\n")
                except Exception as error:  # a draw that the family's own class refuses
                    print(family, repr(error)[:200], file=sys.stderr)


if __name__ == "__main__":
    main()

#!/bin/bash
nemo llm finetune --factory llama3_70b trainer.num_nodes=2 trainer.devices=8 trainer.strategy.tensor_model_parallel_size=4 data.global_batch_size=64
torchrun --nproc_per_node 8 run_recipe.py --recipe llama31_8b_peft_config train.global_batch_size=32

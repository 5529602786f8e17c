torchrun pretrain_gpt.py --micro-batch-size 1 --tensor-model-parallel-size 2

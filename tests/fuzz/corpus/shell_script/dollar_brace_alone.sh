ARGS="
    --micro-batch-size 1 \
    --lr ${	} \
    --num-layers 48 \
    --hidden-size 2048 \
    --num-attention-heads 32 \
"
torchrun posttrain_gpt.py $ARGS

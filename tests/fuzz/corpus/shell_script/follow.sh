#!/bin/bash
#SBATCH --nodes=4 --gres=gpu:h100:8
NODES=${SLURM_NNODES:-4}; GPUS=8
MODEL_ARGS=(--num-layers 32 --hidden-size "4096" --num-attention-heads $((8 * 4)))
f() { local TP=$1; shift; ARGS+=("--tensor-model-parallel-size" "$TP" "${@:1}"); }
case "$SIZE" in 8b|7b) f 2 ;; *) f 4 --sequence-parallel ;; esac
for x in a b; do export K_$x=1 L=${x^^}; done
if [[ -z "${FP8}" && $NODES -gt 1 ]]; then PREC=--bf16; elif [ ! -n "$X" ]; then PREC=--fp16; else PREC=; fi
cat <<EOF > out.txt
skipped ${NODES}
EOF
srun bash -c 'torchrun --nnodes $0 --nproc_per_node '$GPUS' pretrain_gpt.py "$@"' $NODES "${MODEL_ARGS[@]}" "${ARGS[@]}" \
  --seq-length 4096 --max-position-embeddings 4096 --global-batch-size $((NODES * GPUS * 2)) ${PREC/--/--} --swiglu ${A%%x*} ${B:=1}

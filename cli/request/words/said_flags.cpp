// Flags of other tools that no flag of `plan` says, by what replaces them. Tested by tests/cli/flag_words_test.cpp.
#include "cli/request/words/said_flags.hpp"

#include "cli/launch/megatron/flags.hpp"
#include "cli/request/words/choice_words.hpp"
#include "cli/terminal/words.hpp"

namespace plan {
namespace {

/// Flags of other tools that no flag of `plan` says, and what replaces them.
struct Said {
  std::string_view words, sentence;
};
constexpr Said kSaid[] = {
    {"ga gas m accum accumulation acc-steps grad-accum grad-acc gradient-accumulation gradient-accumulation-steps "
     "micro-batches microbatches num-microbatches num-micro-batches",
     "micro-batches of a rank follow from the batch: `--global-batch` over dp and the sequences of `mb`"},
    {"days hours wall-time deadline",
     "the time that a number of tokens takes is printed with `--tokens 15T`; `plan sweep --gpus` varies it"},
    {"mfu efficiency utilization utilisation",
     "it is what `plan` computes; runs of your own correct it: `plan calibrate runs.csv -o profile.yaml`"},
    {"cost max-cost total-cost spend usd dollars money",
     "what a run costs is printed with `--tokens 15T --price 2.5`; `plan sweep --gpus` varies it"},
    {"epochs num-epochs num-train-epochs steps max-steps num-steps train-iters train-steps iterations iters",
     "a run is as long as its tokens: `--tokens 2T`"},
    {"lr learning-rate min-lr lr-scheduler warmup warmup-steps warmup-ratio weight-decay clip-grad seed lora-alpha",
     "it changes neither memory nor time: leave it out"},
    {"params num-params parameters hidden-size hidden-dim d-model num-layers n-layers num-hidden-layers vocab-size "
     "num-attention-heads num-heads num-kv-heads num-query-groups head-dim ffn-hidden-size intermediate-size experts "
     "num-experts top-experts dropout",
     "a model's shape is in its file: `--model ./config.json`, or what `plan show model 8b` prints, changed"},
    {"bandwidth network interconnect nic nics nvlink ib infiniband topology efa instance instance-type node node-type",
     "the network is part of the cluster: `--cluster NAME`, or what `plan show cluster dgx-h100` prints, changed"},
    {"vram memory mem memory-limit gpu-memory gpu-mem gpu-ram memory-per-gpu max-memory",
     "memory that has to stay free is `--headroom 4GiB`; a GPU with another size is what `plan show gpu h100-sxm` "
     "prints, changed"},
    {"flash-attn flash-attention use-flash-attn flash-attn-2 attn-implementation sdpa",
     "attention is counted as the fused kernel of the framework"},
    {"fp8-format fp8-recipe fp8-hybrid fp8-e4m3 use-fp8 float8-recipe",
     "numbers of 8 bits are `--precision fp8`, `fp8-delayed`, `fp8-blockwise` or `mxfp8`, by how they are scaled"},
    {"grad-dtype main-grads-dtype main-params-dtype exp-avg-dtype exp-avg-sq-dtype optimizer-dtype grad-reduce-in-bf16",
     "gradients and the optimizer's states have formats of their own: `--state-formats grads=bf16,moments=bf16`"},
    {"ring-attention context-ring", "the sequence is split in a ring over the ranks of cp: `--layout cp2`"},
    {"num-layers-per-virtual-pipeline-stage num-virtual-stages-per-pipeline-rank",
     "a stage holds as many chunks of layers as `--layout vp2` says"},
    {"verbose v debug details", "numbers are explained one by one: `plan explain step_time`"},
    {"inference serve serving kv-cache decode prefill", "training alone is priced"},
    {"rollout-n rollouts num-generations n-samples reward-model ref-model kl-coef ppo-epochs",
     "what generates and judges is not counted: the training of one model is `--task finetune`"},
    {"tolerance threshold slack max-regression",
     "what may change is in the budget, exactly: `step_time: at most +2 %` under `since_baseline`"},
    {"partition account qos job-name cpus-per-task mem-per-cpu exclusive slurm sbatch srun mpirun torchrun master-addr "
     "master-port node-rank machine-rank main-process-ip main-process-port rdzv-backend rdzv-endpoint rdzv-id hostfile "
     "include launcher-args max-restarts port host",
     "what starts a job changes neither memory nor time: leave it out; `plan emit` writes it by `--launcher` and "
     "`--site`"},
    {"gres gpus-per-task tres tres-per-node cuda-visible-devices visible-devices gpu-ids",
     "GPUs are counted over all nodes: `--gpus 64`"},
    {"dataset datasets dataset-name dataset-path dataset-dir data data-dir data-files train-data train-file "
     "train-files "
     "data-impl data-cache-path split tokenizer-type tokenizer-model tokenizer-name tokenizer-path num-workers "
     "dataloader-num-workers preprocessing-num-workers template chat-template",
     "which data is read changes neither memory nor time: leave it out; how much of it is `--tokens 15T`"},
    {"output-dir save load save-interval save-steps save-total-limit logging-steps log-interval eval-interval "
     "eval-iters eval-steps eval-strategy do-train do-eval report-to wandb-project run-name tensorboard-dir "
     "resume-from-checkpoint ckpt checkpoint checkpoint-interval overwrite-output-dir profile-steps",
     "what a job logs, tests and saves between its steps is not counted: leave it out"},
    {"bits quantization quantization-bit quantization-config quant quantize quant-type bnb load-in-8bit bnb-8bit int8 "
     "int4 nf4 bnb-4bit-quant-type gptq awq",
     "frozen weights are held in 16 bits by `--task lora`, in 4 by `--task qlora`; products of 8 bits are "
     "`--precision fp8`"},
    {"lora-target lora-targets lora-target-modules target-modules lora-modules modules-to-save",
     "adapters of `--task lora` are on the matrices that its framework gives them; others are read from a launch file: "
     "`--from`"},
    {"mesh mesh-shape device-mesh parallel-dims logical-axis-rules ici-mesh dcn-mesh",
     "axes of a mesh are items of one flag: `--layout tp8,pp4`"},
    {"remat remat-policy remat-scan gradient-checkpointing-policy checkpoint-policy activation-checkpoint",
     "what the backward pass computes again is `--layout recompute=none`, `selective` or `full`"},
    {"compile torch-compile use-compile liger use-liger use-liger-kernel enable-liger-kernel apply-liger "
     "fused-kernels use-fused-kernels unsloth-kernels xformers triton",
     "no flag chooses kernels: they are those of the framework, or what a launch file states: `--from`"},
    {"moe-expert-capacity-factor capacity-factor expert-capacity token-drop moe-pad-expert-input-to-capacity",
     "the tokens of the busiest rank over the mean are `--imbalance 1.3`"},
    {"packing pack sample-packing packed neat-packing group-by-length padding-free varlen pad-to-max-length",
     "every sequence is counted as full: `--seq` is its length, packed or padded"},
    {"reserved-memory memory-margin memory-fraction mem-fraction gpu-memory-utilization safety-margin",
     "memory that has to stay free is `--headroom 4GiB` or `--headroom 5%`"},
    {"spot on-demand preemptible region zone cloud provider aws gcp azure coreweave lambda",
     "prices are what is paid: `--price 2.5` for an hour of a GPU, whoever rents it"},
    {"enable-expert-parallel expert-parallelism use-moe moe", "experts are spread over ranks by `--layout ep8`"},
    {"offload-activations activation-offload activation-offloading activation-cpu-offload cpu-offloading "
     "cpu-offloading-num-layers enable-activation-offload",
     "activations lie in host memory by `--offload layers=4`, or by the modules that `plan --help` names"},
    {"zero-hpz-partition-size hpz zero-quantized-weights zero-quantized-gradients zeropp zero++ mics-shard-size",
     "of ZeRO++ only shards of a part of the ranks are priced: `--layout zero3,shard8`"},
    {"recompute-method recompute-num-layers",
     "all of the first N layers of a stage are `--layout recompute=full-N`, blocks of N `recompute=uniform-N`"},
};

}  // namespace

std::string said_of_flag(std::string_view folded_name) {
  for (const Said& said : kSaid)
    if (among_words(said.words, folded_name)) return std::string(said.sentence);
  // A word that another tool's flag is called by may be one that it takes: `--grpo` is `--task grpo`.
  for (const std::string_view flag : {"--precision", "--optimizer", "--task", "--framework"})
    if (std::string hint = hint_for(flag, folded_name); !hint.empty()) return hint;
  return {};
}

std::string said_of_megatron(std::string_view folded_name) {
  return find_megatron_flag(folded_name) == nullptr
             ? ""
             : "a flag of Megatron-LM: what a script of it states is read by `--from train.sh`";
}

}  // namespace plan

#pragma once

#include <cstdint>
#include <string>

namespace plan {

/// Data type of the GEMMs and how it is scaled.
enum class Precision : std::uint8_t { Fp32, Fp16, Bf16, Fp8Delayed, Fp8Tensorwise, Fp8Blockwise, Mxfp8, Nvfp4 };

/// Types that a GPU has a peak rate and measured efficiencies for.
enum class DType : std::uint8_t { Fp32, Fp16, Bf16, Fp8, Fp4 };
inline constexpr int kDTypes = 5;

constexpr DType gemm_dtype(Precision p) {
  switch (p) {
    case Precision::Fp32: return DType::Fp32;
    case Precision::Fp16: return DType::Fp16;
    case Precision::Bf16: return DType::Bf16;
    case Precision::Fp8Delayed:
    case Precision::Fp8Tensorwise:
    case Precision::Fp8Blockwise:
    case Precision::Mxfp8: return DType::Fp8;
    case Precision::Nvfp4: return DType::Fp4;
  }
  return DType::Bf16;
}
/// The type of products that nothing quantises: attention, the router, the head.
constexpr DType wide_dtype(Precision p) {
  return p == Precision::Fp32 || p == Precision::Fp16 ? gemm_dtype(p) : DType::Bf16;
}
/// Bytes of one element of an activation that is in no GEMM's narrower format, where it is kept and where it is sent.
constexpr double activation_bytes(Precision p) { return p == Precision::Fp32 ? 4 : 2; }
constexpr bool is_fp8(Precision p) { return gemm_dtype(p) == DType::Fp8; }
/// Do products read operands that are quantised from 16 bits?
constexpr bool is_narrow(DType d) { return d == DType::Fp8 || d == DType::Fp4; }
constexpr bool is_narrow(Precision p) { return is_narrow(gemm_dtype(p)); }

enum class Optimizer : std::uint8_t { Adam, Adam8bit, Adafactor, Muon, SgdMomentum, Sgd };

enum class Task : std::uint8_t { Pretrain, FullFinetune, Lora, Qlora };

/// How logits turn into a loss and what is kept for the backward pass (plan-formulas(7) D6).
enum class CrossEntropy : std::uint8_t {
  Unfused,       ///< Megatron's: one fp32 copy of the logits, its gradient in place
  Eager,         ///< PyTorch's cross_entropy: fp32 log-probabilities and two gradients
  Compiled,      ///< under torch.compile, or in flash-attn's kernel: 16-bit logits and their 16-bit gradient
  FusedInPlace,  ///< gradient over the bf16 logits (TransformerEngine up to 2.11)
  FusedFp32,     ///< separate fp32 gradient (newer TransformerEngine)
  Chunked,       ///< linear and loss fused by chunks of tokens
};

/// How model states are laid out and sharded; decides bytes per parameter and transients (C1, C3).
enum class StateLayout : std::uint8_t {
  Megatron,      ///< bf16 weights and a gradient buffer per rank, distributed optimizer for zero 1
  Fsdp2,         ///< fp32 sharded parameters, bf16 gathered per block
  DeepSpeed,     ///< ZeRO 0-3 with its buckets
  MegatronFsdp,  ///< Megatron's own fully sharded data parallel
};

/// Which attention kernel a stack runs where it does not keep the s*s scores.
enum class AttentionKernel : std::uint8_t {
  Vendor,  ///< the fastest of the GPU's vendor (cuDNN, FlashAttention 3): what the measured tables hold
  Flash2,  ///< FlashAttention 2: as fast on Ampere, well behind from Hopper on
  Flash1,
  Triton,  ///< the Triton port of FlashAttention 1, with a bias added to the scores (MPT)
};

/// Parts of a layer that a CUDA graph of their own launches: Megatron core's `cuda_graph_scope`.
enum GraphScope : std::uint16_t {
  kGraphAttention = 1,
  kGraphMamba = 2,
  kGraphMlp = 4,
  kGraphRouter = 8,
  kGraphPreprocess = 16,  ///< counts and maps of the dispatch
  kGraphExperts = 32,     ///< the whole routed layer: static shapes, tokens dropped or padded
};

/// What the software stack does: switches with a default per framework, data and not code.
struct Stack {
  std::string framework = "megatron";
  StateLayout states = StateLayout::Megatron;
  CrossEntropy cross_entropy = CrossEntropy::FusedInPlace;
  bool flash_attention = true;  ///< no s*s tensor is kept
  AttentionKernel attention_kernel = AttentionKernel::Vendor;
  bool fused_pointwise = true;     ///< norms, activations and residuals in fused or compiled kernels
  bool fused_norms = true;         ///< norm keeps its input and output; unfused an fp32 copy and its normalised input
  bool transformer_engine = true;  ///< its workspaces, and its cache of dummy weight gradients
  bool fused_qkv = true;           ///< queries, keys and values are one product of their input, else three
  bool fused_gate = true;          ///< gate and up projection of a feed-forward are one product, else two
  bool fused_activation = true;    ///< SwiGLU keeps its input only; unfused also its factors' product and SiLU
  bool keeps_gathered = false;     ///< sequence parallelism keeps a linear's gathered input for its backward pass
  bool expands_kv = false;         ///< keys and values are repeated for every query head, and kept so
  bool weighs_outputs = false;     ///< experts' outputs are kept, in fp32, to be weighted by the router's scores
  bool fp8_activation_input = false;  ///< what the activation of an FFN reads is kept in fp8
  bool vocab_parallel_loss = true;    ///< false: logits are gathered over tp before the loss
  bool loss_in_place = true;          ///< unfused loss: false subtracts the largest logit in a second fp32 copy
  bool frees_stage_outputs = true;    ///< pipeline: an activation that was sent is freed, its graph kept
  bool gradient_fusion = true;        ///< weight gradients accumulate inside the GEMM
  bool overlap_grad_reduce = true;
  bool overlap_param_gather = true;
  bool tp_overlap = false;          ///< userbuffers: chunked collectives beside the GEMMs
  bool reduces_per_linear = false;  ///< without sequence parallelism gate and up sum their input gradients apart
  bool tp_async_reduce = true;      ///< a column linear's input gradient is summed over tp beside its weight gradient
  bool ep_overlap = false;          ///< all-to-all of one micro-batch under compute of another
  bool p2p_overlap = true;
  bool post_validates = false;         ///< pipeline: a stage updates at once, and takes back what the norm forbids
  bool scatters_hand_overs = false;    ///< without sequence parallelism tensor ranks send shares of an activation
  bool cuda_graphs = false;            ///< the whole iteration in one graph
  std::uint16_t graph_scopes = 0;      ///< GraphScope bits: parts of a layer in graphs of their own
  bool eager_launches = false;         ///< every operation launched alone from Python, through hooks and casts
  int vocab_barriers = 0;              ///< embedding and head spread over all stages, which meet so often; 0 = not
  int gathers_per_layer = 1;           ///< ZeRO-3: collectives that fetch one layer's parameters
  bool shards_in_lists = false;        ///< ZeRO-3: collectives on lists of the ranks' shares, copied one by one
  bool reduces_once = false;           ///< ZeRO-2: gradients of all micro-batches are summed, then scattered once
  bool deterministic = false;          ///< CUBLAS_WORKSPACE_CONFIG=:4096:8, as deterministic modes demand
  bool grouped_gemm = true;            ///< experts of a rank in one kernel call, on several streams
  bool expandable_segments = false;    ///< allocator: less fragmentation
  bool fp8_dispatch = false;           ///< MoE dispatch in fp8 where the GEMMs are, combine in bf16
  bool dedup_dispatch = false;         ///< one copy of a token per node (DeepEP, HybridEP)
  bool fused_router = false;           ///< choice of experts, their scores and the loss are one call each
  int node_limit = 0;                  ///< experts of a token lie on at most this many nodes; 0 = any
  bool fp8_param_gather = false;       ///< weights of fp8 GEMMs are stored and gathered in fp8, not in 16 bits
  double routing_imbalance = 1.0;      ///< tokens of the most loaded rank / mean; 1 = forced balance; a capacity factor
  bool legacy_moe_probs = false;       ///< probabilities applied when tokens return: their k copies are kept
  bool batch_first_attention = false;  ///< bshd kernel under sbhd activations: output kept twice if micro_batch > 1
  bool fused_softmax = true;           ///< unfused attention's scale, mask and softmax in one kernel
  bool broadcasts_shards = false;      ///< ZeRO-1: every owner broadcasts its updated weights in turn
  bool prunes_recompute = false;       ///< full recomputation ends before a layer's last product, which nothing reads
  bool fused_biased_experts = true;    ///< bias, clamp and gate of experts with biases in one kernel
  bool fp8_rowwise = false;            ///< fp8 with a scale for each row of both operands
  bool fused_sinks = true;             ///< attention with learned sinks has a fused kernel
  bool loader_attention_mask = false;  ///< the data loader makes a bool mask of s * s per sequence
  bool reshard_after_forward = true;   ///< FSDP: gather again for the backward pass
  bool gathers_tensors = false;        ///< FSDP by XLA: tensors come and go one by one, in no buffer of a whole block
  bool operator==(const Stack&) const = default;
};

/// LoRA adapters: rank and which linears carry one.
struct Lora {
  std::int64_t rank = 16;
  bool attention = true;
  bool ffn = true;
  bool operator==(const Lora&) const = default;
};

/// Modules whose input Megatron can keep in host memory until the backward pass, one bit each.
enum OffloadModule : std::uint16_t {
  kOffloadAttentionNorm = 1,
  kOffloadQkvLinear = 2,
  kOffloadCoreAttention = 4,
  kOffloadAttentionProjection = 8,
  kOffloadMlpNorm = 16,
  kOffloadExpertFc1 = 32,
  kOffloadMoeActivation = 64,
};

/// What lies in host memory between its uses.
struct Offload {
  double optimizer = 0;       ///< share of the optimizer states
  bool parameters = false;    ///< sharded weights and gradients, of ZeRO-2 and 3
  std::uint16_t modules = 0;  ///< OffloadModule bits: activations of every layer
  int layers = 0;             ///< of a stage, whose activations go there altogether

  bool activations() const { return modules != 0 || layers > 0; }
  bool any() const { return optimizer > 0 || parameters || activations(); }
  bool operator==(const Offload&) const = default;
};

/// Copies of the job that train apart and meet every so many steps (DiLoCo, arXiv 2311.08105): then the mean of what
/// their parameters moved goes into an outer optimizer with Nesterov momentum.
struct LocalUpdates {
  int steps = 0;  ///< inner ones from one meeting to the next; 0: all copies meet in every step
  int copies = 1;
  bool any() const { return steps > 0 && copies > 1; }
  bool operator==(const LocalUpdates&) const = default;
};

/// Layers at either end of the model whose products stay in bf16 where all others are in fp8 or fp4: what comes first
/// and last suffers most from few bits (arXiv 2509.25149; Megatron's --first-last-layers-bf16).
struct Bf16Layers {
  int first = 0;
  int last = 0;
  bool any() const { return first > 0 || last > 0; }
  bool operator==(const Bf16Layers&) const = default;
};

/// How the model is trained, apart from where its parts go.
struct Training {
  std::int64_t seq = 4096;           ///< tokens per sequence
  std::int64_t global_batch = 1024;  ///< sequences per optimizer step
  Precision precision = Precision::Bf16;
  Bf16Layers bf16_layers{};  ///< as stated; the model's layers carry it (bf16_layers.hpp)
  Optimizer optimizer = Optimizer::Adam;
  int grad_bytes = 4;       ///< gradient accumulation and reduction
  double master_bytes = 4;  ///< fp32 master copy; 2 with bf16 remainders; 0 none
  double moment1_bytes = 4;
  double moment2_bytes = 4;
  bool precision_aware = false;  ///< optimizer reads gradients in place: no fp32 copy at the step
  Task task = Task::Pretrain;
  Lora lora{};
  double dropout = 0;
  double packed_length = 0;  ///< sum L_i^2 / sum L_i of packed documents; 0 = one document
  Offload offload{};
  LocalUpdates local{};
  Stack stack{};

  std::int64_t tokens_per_step() const { return seq * global_batch; }
  /// Bytes of a weight as the GEMMs' storage holds it.
  double weight_bytes() const { return precision == Precision::Fp32 ? 4.0 : 2.0; }
  bool adapters() const { return task == Task::Lora || task == Task::Qlora; }
  bool operator==(const Training&) const = default;
};

}  // namespace plan

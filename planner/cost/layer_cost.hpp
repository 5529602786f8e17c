#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "formulas/efficiency.hpp"
#include "formulas/layer_operators.hpp"
#include "planner/cost/cost.hpp"
#include "planner/cost/kernels.hpp"
#include "planner/cost/message_times.hpp"
#include "planner/problem/problem.hpp"

namespace plan {

/// What a LayerBuilder has added up.
struct PartOfLayer {
  LayerCost cost{};
  std::array<Phase, kRecomputeModules> modules{};
  double forward_kernels = 0, backward_kernels = 0;
  bool graphed = false;
};

class LayerBuilder;

/// What splits of one problem have in common, each computed once: times of linears and of messages, and all but the
/// experts of splits that differ in those alone.
class CommonCosts {
 public:
  MessageTimes messages{};

  void turn_to(const Split& split);
  /// Puts a builder where the one before it of the same layer was kept, if one was.
  bool resumes(LayerBuilder& builder);
  void keep(const LayerBuilder& builder);

  template <class Time>
  const LinearTime& of(double m, double n, double k, DType dtype, const Time& time) {
    const auto [at, fresh] = known_.try_emplace(std::tuple(m, n, k, dtype));
    if (fresh) at->second = time();
    return at->second;
  }

 private:
  std::map<std::tuple<double, double, double, DType>, LinearTime> known_{};
  std::optional<Split> split_{};      ///< at hand
  std::vector<PartOfLayer> parts_{};  ///< of it and of those that differ in their experts alone
  std::size_t next_ = 0;              ///< of them that is asked for next
};

/// Builds the cost of one layer block by block: GEMMs, attention, memory-bound work, messages.
class LayerBuilder final : private LayerOperators {
 public:
  /// Every kernel is reported to `kernels`, and every linear kept in `known`, where there is one. With the latter,
  /// messages are priced and not listed.
  LayerBuilder(const Problem& problem, const Split& split, std::vector<KernelTime>* kernels = nullptr,
               CommonCosts* known = nullptr);

  /// Whole layer: mixer, feed-forward, norms.
  void layer(const Layer& layer) { mixer(layer), feed_forward(layer); }
  /// A layer in two halves, in this order. No degree of the experts changes the first, so that splits which differ in
  /// their experts alone share it.
  void mixer(const Layer& layer);
  void feed_forward(const Layer& layer);
  void embedding();
  void head();
  /// Projection that joins the hidden state with the next token's embedding.
  void mtp_projection();

  PartOfLayer so_far() const { return {cost_, modules_, forward_kernels_, backward_kernels_, graphed_}; }
  void resume(const PartOfLayer& part);

  const LayerCost& cost() const { return cost_; }
  const std::array<Phase, kRecomputeModules>& modules() const { return modules_; }

 private:
  using Linear = LinearTime;
  LinearTime product(double tokens, double out, double in, std::uint16_t module) override {
    return add_linear(tokens, out, in, dtype_, module);
  }
  LinearTime products(double tokens, std::initializer_list<double> widths, double in, bool fused) override {
    return add_linears(tokens, widths, in, fused);
  }
  void pointwise(const Pointwise& work) override { add_pointwise(work); }
  void attention(const AttentionCore& core) override;
  void scan(const ScanCore& core) override;
  void messages(double in, double out, const LinearTime& first) override { tensor_messages(in, out, first); }

  void dense(const DenseShape& shape);
  void moe(const MoeShape& shape);
  /// Calls of a part of a routed layer, forward and twice as many backward.
  void add_routing_calls(std::uint16_t scope, double calls);
  void routed_experts(const MoeShape& shape);
  void expert_messages(const MoeShape& shape, double width);
  void norms(int count);

  void core_attention(double heads, double kv_heads, double qk_dim, double v_dim, double context);
  double average_context(std::int64_t window) const;
  void unfused_attention(double heads, double qk_dim, double v_dim);
  /// Elements of a token that attention on one tensor rank reads and writes.
  struct ContextWidths {
    double queries, keys_values, results;
  };
  void context_messages(const ContextWidths& width, Seconds forward_core, Seconds backward_core);
  /// All-to-alls that turn shares of the sequence into shares of the heads and back, forward and backward (Ulysses).
  void exchange_heads(Group group, double width_in, double width_out);
  /// Gather before a column linear, scatter after a row linear, and what the backward hides (E1). `sums`: reductions
  /// of an input gradient without sequence parallelism, one for each linear that does its own.
  void tensor_messages(double width_in, double width_out, const Linear& column, int sums = 1);

  Linear linear(double m, double n, double k, DType dtype) const {
    if (known_ == nullptr) return linear_time(m, n, k, dtype);
    return known_->of(m, n, k, dtype, [&] { return linear_time(m, n, k, dtype); });
  }
  LinearTime linear_time(double m, double n, double k, DType dtype) const;
  Linear add_linear(double m, double n, double k, DType dtype, std::uint16_t module = 0);
  /// Linears of one input, `widths` wide: one product where a stack keeps their weights in one, else one each.
  Linear add_linears(double m, std::initializer_list<double> widths, double k, bool fused, std::uint16_t module = 0);
  /// The gradients that so many products of one input leave of it are added up.
  void add_input_gradients(double m, double products, double k);
  /// The three products of a linear and its adapters, without what quantising their operands costs.
  Linear add_products(double m, double n, double k, DType dtype, std::uint16_t module);
  void add_linear_cost(const Linear& cost, std::uint16_t module);
  void tell(const KernelTime& kernel) const {
    if (kernels_ != nullptr && kernel.time > Seconds()) kernels_->push_back(kernel);
  }
  void tell_linear(double m, double n, double k, DType dtype, const Linear& cost, double share) const;
  void tell_adapters(double m, double n, double k) const;
  void add_pointwise(const Pointwise& work);
  /// Nonlinearity of a feed-forward layer: reads one product, or two where it is gated, and writes one.
  void add_activation(double rows, double width, bool gated, std::uint16_t module);
  /// Time of one pass, reported; `each`: bytes read and written of an element.
  Seconds pointwise_time(const Pointwise& work, KernelTime::Pass pass, RealBytes each) const;
  void add_message(Axis axis, Collective op, Group group, RealBytes size, double count, Seconds time, Seconds exposed,
                   const Exchange& exchange = {});
  void add_forward(const Phase& phase, std::uint16_t module);
  Seconds message_time(Collective op, RealBytes size, Group group) const;
  /// Time of a collective that runs between the GEMMs of a layer, which slows some of them down.
  Seconds tensor_time(Collective op, RealBytes size, Group group) const {
    return beside_products(fit_, op) * message_time(op, size, group);
  }
  /// Bytes of an element of an activation, and the type of products, outside narrower formats.
  double element() const { return activation_bytes(training_.precision); }
  DType wide() const { return wide_dtype(training_.precision); }
  /// Passes that quantise both operands of a linear row by row, for each of its three products.
  void add_row_scales(double m, double n, double k);
  /// Passes that quantise what a linear reads, and the gradient of what it writes (quantising_bytes).
  void add_quantising(double m, double n, double k, DType dtype, std::uint16_t module);
  struct Quantised {
    DType dtype;
    std::uint16_t module;
    double kernels;
  };
  struct Operand {
    double rows, width;
    double gathered;  ///< rows that the GEMM reads once they are gathered over tp; 0 where it has them already
  };
  void quantise(const Quantised& what, const Operand& inputs, const Operand& gradients);
  double attention_rate() const;
  /// The format of the products that are added from now on.
  void multiply_in(Precision precision);
  void add_scan(Flops flops);
  FlopsPerSecond scan_rate() const;  ///< of Mamba's and DeltaNet's chunked scans
  /// Rate of GEMMs inside a training step / rate measured alone.
  double gemm_rate(DType dtype) const;
  Seconds hidden_under(Seconds communication, Seconds compute) const;
  /// What stays exposed of summing a column linear's input gradient over tp.
  Seconds reduced_beside(Seconds communication, Seconds weight_gradient) const;
  /// What stays exposed of a collective that is cut into chunks beside the product that reads or writes them.
  Seconds chunked(Seconds communication) const;
  /// Chunks are PyTorch's (_symmetric_memory), not TransformerEngine's userbuffers.
  bool pipelined_by_torch() const { return stack_.states == StateLayout::Fsdp2; }
  /// Time to add up what a chunked reduction brought, where its framework does so in a pass of its own.
  Seconds summed_chunks(double width) const;
  void finish_layer();
  /// What is added from here on belongs to these parts of a layer (GraphScope bits): under a graph of one of them the
  /// host launches the graph alone, once each way.
  void enter(std::uint16_t scopes);
  /// Kernels that the host has to launch, but for those that a graph launches.
  void add_launches(double forward, double backward);
  /// Calls of one small kernel each, as so many kernels of the stack: Python takes the same time for them under every
  /// one. Eager stacks are timed by whole modules, each of which makes several calls.
  double small_calls(double calls) const;
  /// What the host needs to launch so many kernels; nothing under CUDA graphs of a whole iteration.
  Seconds launch_time(double kernels) const;
  /// Without CUDA graphs the host launches kernel by kernel: no phase is shorter than its launches.
  void wait_for_launches();

  const Problem& problem_;
  const Model& model_;
  const Training& training_;
  const Stack& stack_;
  const Cluster& cluster_;
  const Gpu& gpu_;
  const Calibration& fit_;
  Split split_;
  double tokens_;          ///< N: tokens of one micro-batch on this context rank
  double shard_tokens_;    ///< N / tp under sequence parallelism
  Precision precision_{};  ///< of the products of the layer at work
  DType dtype_{};          ///< theirs in the tables
  bool trains_base_;
  bool adapted_ = false;  ///< the linears added now carry adapters
  LayerCost cost_{};
  std::array<Phase, kRecomputeModules> modules_{};
  double forward_kernels_ = 0, backward_kernels_ = 0;
  bool graphed_ = false;  ///< what is added now is launched by a graph of its part of the layer
  std::vector<KernelTime>* kernels_;
  CommonCosts* known_;
};

}  // namespace plan

#include "oracle/traffic_count.hpp"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>

#include "oracle/traffic_holding.hpp"

namespace plan::oracle {
namespace {

using Ranks = std::vector<int>;

/// All ranks of a job with their places on every axis, tp fastest: tp, cp, dp, pp for what is dense; etp, ep, and the
/// copies of the experts for what is not.
struct World {
  const Layout& layout;

  int size() const { return layout.tp * layout.cp * layout.dp * layout.pp; }
  int per_stage() const { return size() / layout.pp; }
  bool data_outside() const { return layout.order == AxisOrder::DataOutermost; }
  int first_of(int stage) const { return stage * (data_outside() ? layout.tp * layout.cp : per_stage()); }
  /// The rank's number among those of its stage.
  int in_stage(int rank) const { return tp(rank) + layout.tp * data(rank); }
  int dp(int rank) const {
    const int inside = layout.tp * layout.cp;
    return data_outside() ? rank / (inside * layout.pp) : rank % per_stage() / inside;
  }
  int tp(int rank) const { return rank % layout.tp; }
  int data(int rank) const { return cp(rank) + layout.cp * dp(rank); }  ///< cp fastest, then dp
  int cp(int rank) const { return rank / layout.tp % layout.cp; }
  int pp(int rank) const { return rank / first_of(1) % layout.pp; }
  int etp(int rank) const { return rank % layout.etp; }
  int ep(int rank) const { return rank / layout.etp % layout.ep; }
  int copy(int rank) const {
    const int experts = layout.etp * layout.ep;
    return data_outside() ? rank / (experts * layout.pp) : rank % per_stage() / experts;
  }
  int copies() const { return per_stage() / (layout.etp * layout.ep); }
};

/// Innermost tier that holds every group whole. Groups: ranks for which `key` is the same.
std::string tier_of(const std::vector<Tier>& tiers, int world, const std::function<int(int)>& key) {
  std::map<int, std::pair<int, int>> ends;  // first and last rank of each group
  for (int rank = 0; rank < world; ++rank) {
    if (key(rank) < 0) continue;
    const auto [at, fresh] = ends.try_emplace(key(rank), rank, rank);
    if (!fresh) at->second.second = rank;
  }
  for (const Tier& tier : tiers)
    if (std::all_of(ends.begin(), ends.end(), [&](const auto& group) {
          return group.second.first / tier.size == group.second.second / tier.size;
        }))
      return tier.name;
  return tiers.back().name;
}

int members(int world, const std::function<int(int)>& key, int rank) {
  int count = 0;
  for (int other = 0; other < world; ++other) count += key(other) == key(rank);
  return count;
}

/// Bytes a rank sends in a collective of `size` bytes (NCCL's conventions).
double sent(Collective op, double size, int n) {
  if (op == Collective::SendRecv || op == Collective::Broadcast) return size;  // along a chain
  return (op == Collective::AllReduce ? 2 : 1) * size * (n - 1) / n;
}

class Counter {
 public:
  explicit Counter(const TrafficCase& job) : job_(job), world_{job.layout} {}

  /// Adds `times` messages of `size` bytes in the groups that `key` makes, as `rank` sees them.
  void add(const char* axis, Collective op, double size, double times, int rank, const std::function<int(int)>& key) {
    const int n = members(world_.size(), key, rank);
    if (n == 1 || size <= 0 || times <= 0) return;
    put({axis, op, n, tier_of(job_.tiers, world_.size(), key), times * sent(op, size, n), times});
  }
  void put(const CountedRow& row) {
    for (CountedRow& other : rows)
      if (other.axis == row.axis && other.op == row.op && other.group == row.group && other.tier == row.tier) {
        other.bytes += row.bytes, other.count += row.count;
        return;
      }
    rows.push_back(row);
  }

  const TrafficCase& job_;
  World world_;
  std::vector<CountedRow> rows{};
};

/// A micro-batch passes a stage in runs: how often a stage's shards are fetched and its gradients are given away.
double runs_of(const TrafficCase& job) {
  const double m = micro_batches_of(job);
  if (job.layout.schedule == Schedule::GPipe || job.layout.schedule == Schedule::BreadthFirst) return 1;
  if (job.layout.schedule != Schedule::Interleaved) return m;
  const auto whole = static_cast<std::int64_t>(m);
  return static_cast<double>((whole + job.layout.pp - 1) / job.layout.pp);
}

/// One micro-batch through one layer; `put` takes (axis, op, bytes, times).
class LayerMessages {
 public:
  LayerMessages(Counter& out, const TrafficCase& job, int rank, double times)
      : out_(out), job_(job), l_(job.layout), world_{job.layout}, rank_(rank), times_(times) {
    tokens_ = ints(job.training.seq) * l_.micro_batch / l_.cp;
    hidden_ = element() * tokens_ * ints(job.model.hidden);
    sp_ = l_.sequence_parallel && l_.tp > 1;
  }

  void layer(const Layer& layer) {
    in_bf16_ = layer.in_bf16;
    const MixerCount& mixer = mixer_count(layer.mixer);
    if (mixer.read != nullptr) block(element() * tokens_ * mixer.read(layer, ints(job_.model.hidden)), 1);
    if (mixer.context != nullptr) context(mixer.context(layer, l_.tp));
    if (mixer.scan != nullptr) scan(mixer.scan(layer, l_.tp, l_.cp));
    if (layer.ffn == Ffn::Dense) block(hidden_, job_.training.stack.reduces_per_linear && layer.dense.gated ? 2 : 1);
    if (layer.ffn == Ffn::Moe) experts(layer.moe);
  }

  /// Rows of the table that other ranks hold are summed up; with the sequence split the sum is scattered, and the
  /// gradient gathered.
  void embedding() {
    tp(sp_ ? Collective::ReduceScatter : Collective::AllReduce, hidden_, 1);
    if (sp_) tp(Collective::AllGather, hidden_, 1);
  }

  /// Input gathered for the logits, again for their weights' gradient unless kept; its own gradient summed; maximum,
  /// target and sum of exponentials of every token.
  void head() {
    if (sp_) {
      tp(Collective::AllGather, hidden_, job_.training.stack.keeps_gathered ? 1 : 2);
      tp(Collective::ReduceScatter, hidden_, 1);
    } else {
      tp(Collective::AllReduce, hidden_, 1);
    }
    tp(Collective::AllReduce, 4 * tokens_, 3);
  }

 private:
  void tp(Collective op, double bytes, double times) {
    out_.add("tp", op, bytes, times_ * times, rank_, [this](int r) { return r / l_.tp; });
  }

  /// A column-split and a row-split linear around local work (Korthikanti et al. 2022, figure 5).
  void block(double in, int inputs) {
    if (!sp_) {
      tp(Collective::AllReduce, hidden_, 1);
      tp(Collective::AllReduce, in, inputs);
      return;
    }
    const auto [input, gradient] = gathered();
    tp(Collective::AllGather, input * in, job_.training.stack.keeps_gathered ? 1 : 2);
    tp(Collective::AllGather, gradient * hidden_, 1);
    tp(Collective::ReduceScatter, hidden_, 1);
    tp(Collective::ReduceScatter, in, 1);
  }

  double element() const { return job_.training.precision == Precision::Fp32 ? 4 : 2; }
  bool in_fp8() const { return !in_bf16_ && gemm_dtype(job_.training.precision) == DType::Fp8; }

  /// What is gathered of a linear's input and of its output's gradient, against 16 bits. Blocks of 32, 128 and 16 have
  /// scales of 1, 4 and 1 bytes, and other ones along the tokens: gradients are gathered for both products.
  std::pair<double, double> gathered() const {
    const bool tensors_alone = !job_.training.stack.transformer_engine;
    if (in_bf16_) return {1, 1};
    switch (job_.training.precision) {
      case Precision::Fp8Delayed:
      case Precision::Fp8Tensorwise: return {1 / 2., 1 / 2.};
      case Precision::Mxfp8: return tensors_alone ? std::pair(1., 1.) : std::pair(33 / 64., 33 / 32.);
      case Precision::Fp8Blockwise: return tensors_alone ? std::pair(1., 1.) : std::pair(33 / 64., 33 / 32.);
      case Precision::Nvfp4: return tensors_alone ? std::pair(1., 1.) : std::pair(9 / 32., 9 / 16.);
      default: return {1, 1};
    }
  }

  void context(const ContextTensors& tensors) {
    const auto [q, k, v, o] = tensors;
    const int u = l_.cp_kind == CpKind::Ulysses ? l_.cp : l_.cp_kind == CpKind::Hybrid ? l_.cp_ulysses : 1;
    const int ring = l_.cp / u;
    const int block = per_data_block();
    const auto inner = [this, block, u](int r) {
      return (r / block * l_.cp + world_.cp(r) / u) * l_.tp + world_.tp(r);
    };
    for (const double width : {q + k + v, o})  // forward there, backward back
      out_.add("cp", Collective::AllToAll, element() * tokens_ * width, times_ * 2, rank_, inner);
    const auto outer = [this, block, u](int r) {
      return (r / block * l_.cp + world_.cp(r) % u) * l_.tp + world_.tp(r);
    };
    const double pair = element() * tokens_ * (k + v);
    if (ring > 1 && l_.cp_kind == CpKind::AllGather) {
      out_.add("cp", Collective::AllGather, pair * ring, times_ * 2, rank_, outer);
      out_.add("cp", Collective::ReduceScatter, pair * ring, times_, rank_, outer);
      return;
    }
    // Walk the ring: keys and values move on until everybody saw them; their gradients start one block later and move
    // on until they are home. What leaves a rank at the same time is one message.
    for (int step = 1; step < ring; ++step) out_.add("cp", Collective::SendRecv, pair, times_, rank_, outer);
    for (int step = 0; ring > 1 && step <= ring; ++step) {
      const bool data = step < ring - 1, gradient = step >= 1;
      out_.add("cp", Collective::SendRecv, (data + gradient) * pair, times_, rank_, outer);
    }
  }
  /// A state passes through all tokens: every context rank takes some heads of them, whatever attention does.
  void scan(const std::pair<double, double>& widths) {
    const int block = per_data_block();
    const auto group = [this, block](int r) { return r / block * l_.tp + world_.tp(r); };
    for (const double width : {widths.first, widths.second})
      out_.add("cp", Collective::AllToAll, element() * tokens_ * width, times_ * 2, rank_, group);
  }
  int per_data_block() const { return l_.tp * l_.cp; }

  void experts(const MoeShape& m) {
    const double width = m.latent > 0 ? ints(m.latent) : ints(job_.model.hidden);
    const double mine = tokens_ / l_.tp;  // a tensor rank routes its share of the tokens
    const Stack& stack = job_.training.stack;
    if (l_.etp > 1) {
      const double copies = std::min(ints(m.top_k), static_cast<double>(l_.ep));
      const double bytes = element() * mine * copies * l_.etp * width;
      const auto group = [this](int r) { return r / l_.etp; };
      out_.add("tp", Collective::AllGather, bytes, times_ * 2, rank_, group);
      out_.add("tp", Collective::ReduceScatter, bytes, times_ * 2, rank_, group);
    }
    const auto group = [this](int r) { return r / (l_.etp * l_.ep) * l_.etp + world_.etp(r); };
    const double sent = stack.fp8_dispatch && in_fp8() ? 1 + 1.0 / 32 : element();
    out_.add("ep", Collective::AllToAll, mine * ints(m.top_k) * width * sent, times_, rank_, group);
    out_.add("ep", Collective::AllToAll, mine * ints(m.top_k) * width * element(), 3 * times_, rank_, group);
    if (m.shared_width > 0) block(hidden_, 1);
  }

  Counter& out_;
  const TrafficCase& job_;
  const Layout& l_;
  World world_;
  int rank_;
  double times_, tokens_ = 0, hidden_ = 0;
  bool sp_ = false;
  bool in_bf16_ = false;  // the layer at work, beside others in fp8
};

}  // namespace

std::vector<CountedRow> count_layers(const TrafficCase& job, int stage) {
  Counter out(job);
  const int rank = out.world_.first_of(stage);
  for (const auto& [chunk, share] : chunks_of(job.layout, stage)) {
    LayerMessages messages(out, job, rank, share * micro_batches_of(job));
    for (const int kind : layers_of(job, chunk)) messages.layer(job.model.kinds[static_cast<std::size_t>(kind)]);
    if (chunk == 0) messages.embedding();
    if (chunk != chunks_in_all(job.layout) - 1) continue;
    messages.head();
    for (int run = 0; run < job.model.mtp.depth * job.model.mtp.passes; ++run) {
      for (const int kind : job.model.mtp.kinds) messages.layer(job.model.kinds[static_cast<std::size_t>(kind)]);
      messages.head();
    }
  }
  return out.rows;
}

namespace {

/// Delayed scaling sums up the largest values of every pass of a chunk, over the ranks of the stage: of each product
/// three tensors forward, two backward, four bytes each.
void count_scales(Counter& out, const TrafficCase& job, int rank) {
  if (job.training.precision != Precision::Fp8Delayed || !job.training.stack.transformer_engine) return;
  double products = 0;
  for (const int kind : job.model.layers) {
    const Layer& layer = job.model.kinds[static_cast<std::size_t>(kind)];
    if (layer.in_bf16) continue;
    if (layer.mixer == Mixer::Latent) products += layer.latent.q_rank > 0 ? 5 : 4;
    if (layer.mixer != Mixer::Latent && layer.mixer != Mixer::None) products += 2;
    if (layer.ffn == Ffn::Dense) products += 2;
    if (layer.ffn != Ffn::Moe) continue;
    const int blocks = (layer.moe.shared_width > 0 ? 1 : 0) + (layer.moe.latent > 0 ? 1 : 0);
    products += 2 * (ints(layer.moe.experts) / job.layout.ep + blocks);
  }
  const double of_chunk = products / chunks_in_all(job.layout);
  double met = 0;  // chunks of the rank that a micro-batch meets
  for (const auto& [chunk, share] : chunks_of(job.layout, out.world_.pp(rank))) met += share;
  for (const double tensors : {3.0, 2.0})
    out.add("dp", Collective::AllReduce, 4 * tensors * of_chunk, met * micro_batches_of(job), rank,
            [&](int r) { return out.world_.pp(r); });
}

}  // namespace

std::vector<CountedRow> count_gradients(const TrafficCase& job, int stage) {
  Counter out(job);
  const World& world = out.world_;
  const Layout& l = job.layout;
  const int rank = world.first_of(stage);
  const Holding held = holding_of(job, stage);
  const double weight = job.training.precision == Precision::Fp32 ? 4 : 2;
  // Under DualPipe the opposite pipeline rank holds the same layers; the pair that stands farthest apart counts.
  const bool both = l.schedule == Schedule::DualPipe;
  const auto place = [&](int r) { return both ? std::min(world.pp(r), l.pp - 1 - world.pp(r)) : world.pp(r); };
  const auto reduce = [&](double parameters, int copies, const std::function<int(int)>& copy,
                          const std::function<int(int)>& owner, int owners, int parts) {
    if (parameters <= 0) return;
    const int instances = l.dp * l.cp / (l.shard > 0 ? l.shard : l.dp * l.cp);
    const int sharers = std::max(1, copies / instances);
    const auto all = [&](int r) { return place(r) * owners + owner(r); };
    const auto inside = [&](int r) { return all(r) * copies + copy(r) / sharers; };
    const auto between = [&](int r) { return (world.pp(r) * owners + owner(r)) * copies + copy(r) % sharers; };
    const double runs = runs_of(job), grads = parameters * job.training.grad_bytes;
    const double reductions = l.zero == 3 || (l.zero == 2 && !job.training.stack.reduces_once) ? runs : 1;
    if (l.zero == 0) return out.add("dp", Collective::AllReduce, grads, 1, rank, all);
    const int cut = l.zero == 3 ? std::max(1, parts) : 1;  // the ends alone are one
    // `cut` messages of equal size
    if (l.zero == 3 && job.training.stack.shards_in_lists) {  // DeepSpeed of early 2021: every rank has every sum
      out.add("dp", Collective::AllReduce, grads / cut, reductions * cut, rank, all);
    } else {
      out.add("dp", Collective::ReduceScatter, grads / cut, reductions * cut, rank, inside);
      out.add("dp", Collective::AllReduce, grads / cut / (both ? 2 * sharers : sharers), reductions * cut, rank,
              between);
    }
    // FSDP2 that keeps what it gathered for the backward pass lets it go there, unless a pipeline waits for more.
    const bool each_run = l.zero == 2 && l.pp == 1 && job.training.stack.states == StateLayout::Fsdp2;
    const double fetches = l.zero == 3 ? runs * (job.training.stack.reshard_after_forward ? 2 : 1)
                           : each_run  ? runs
                                       : 1;
    const int owned = both ? 2 * sharers : sharers;  // each broadcasts its own
    if (l.zero < 3 && job.training.stack.broadcasts_shards)
      return out.add("dp", Collective::Broadcast, parameters * weight / owned, fetches * owned, rank, inside);
    out.add("dp", Collective::AllGather, parameters * weight / cut, fetches * cut, rank, inside);
  };
  reduce(
      held.sum.dense, l.dp * l.cp, [&](int r) { return world.data(r); }, [&](int r) { return world.tp(r); }, l.tp,
      held.layers * job.training.stack.gathers_per_layer);
  reduce(
      held.sum.expert, world.copies(), [&](int r) { return world.copy(r); },
      [&](int r) { return world.ep(r) * l.etp + world.etp(r); }, l.etp * l.ep, held.routed);
  count_scales(out, job, rank);
  const bool twice = job.model.tied || job.model.mtp.depth > 0;
  if (twice && l.pp > 1 && held.first != held.last) {
    const auto ends = [&](int r) { return world.pp(r) == 0 || world.pp(r) == l.pp - 1 ? world.in_stage(r) : -1 - r; };
    out.add("dp", Collective::AllReduce, table_of(job) * job.training.grad_bytes, 1, rank, ends);
  }
  return out.rows;
}

std::vector<CountedRow> count_hand_overs(const TrafficCase& job) {
  const Layout& l = job.layout;
  Counter out(job);
  if (l.pp == 1) return {};
  std::vector<double> sends(static_cast<std::size_t>(l.pp));
  for (int stage = 0; stage < l.pp; ++stage)
    for (const auto& [chunk, share] : chunks_of(l, stage)) {
      const auto holds = [&](int other) {
        // DualPipe's two directions run opposite ways: the neighbour chunk of a direction is never on this rank.
        if (l.schedule == Schedule::DualPipe) return false;
        for (const auto& [mine, part] : chunks_of(l, stage))
          if (mine == other) return true;
        return false;
      };
      if (chunk + 1 < chunks_in_all(l) && !holds(chunk + 1)) sends[static_cast<std::size_t>(stage)] += share;
      if (chunk > 0 && !holds(chunk - 1)) sends[static_cast<std::size_t>(stage)] += share;
    }
  const double most = *std::max_element(sends.begin(), sends.end()) * micro_batches_of(job);
  const bool shares = l.sequence_parallel || job.training.stack.scatters_hand_overs;
  const double element = job.training.precision == Precision::Fp32 ? 4 : 2;
  const double bytes =
      element * ints(job.training.seq) * l.micro_batch / l.cp * ints(job.model.hidden) / (shares ? l.tp : 1);
  out.add("pp", Collective::SendRecv, bytes, most, 0, [&](int r) { return out.world_.in_stage(r); });
  return out.rows;
}

}  // namespace plan::oracle

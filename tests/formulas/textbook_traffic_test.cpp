#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "formulas/communication.hpp"
#include "formulas/textbook/textbook_collectives.hpp"
#include "formulas/textbook/textbook_traffic.hpp"

namespace plan::textbook {
namespace {

using doctest::Approx;

constexpr RealBytes kGB{1e9}, kMB{1e6};

TEST_CASE("tensor and pipeline parallelism") {
  const TensorTrafficInput in{1, 8192, 16384, 8};
  CHECK(tp_traffic(in) == 8.0 * 8192 * 16384 * 7 / 8);
  CHECK(tp_sp_traffic(in) == Approx(1.25 * tp_traffic(in)));
  CHECK(tp_full_traffic(in) == Approx(1.5 * tp_traffic(in)));
  CHECK(tp_sp_full_traffic(in) == Approx(1.4 * tp_sp_traffic(in)));
  CHECK(tp_traffic({1, 8192, 16384, 1}) == 0);
  // plan-formulas(7) E3, E4
  CHECK(pp_traffic({1, 8192, 16384, 1}) == RealBytes(268435456));
  CHECK(pp_traffic({1, 8192, 16384, 8}) == RealBytes(33554432));
  CHECK(tied_traffic({128256, 16384, 8}) == RealBytes(1050673152));
}

TEST_CASE("data parallelism, worked numbers") {
  // plan-formulas(7) E4: 70B over 64 ranks; HSDP with 8 shards and 64 replicas; one rank of the 405B over 128
  const double p70 = 70553706496;
  CHECK(zero1_weights({p70, 64}) / kGB == Approx(138.903).epsilon(1e-5));
  CHECK((zero3_traffic({p70, 64, 4, 1}) - 2 * zero1_weights({p70, 64})) / kGB == Approx(277.805).epsilon(1e-5));
  CHECK(hsdp_intra({p70, 8, 2, 1}) / kGB == Approx(370.407).epsilon(1e-5));
  CHECK(hsdp_inter({p70, 8, 64, 2, 1}) / kGB == Approx(34.726).epsilon(1e-4));
  CHECK((zero1_traffic({3.1707e9, 128, 4}) - zero1_weights({3.1707e9, 128})) / kGB == Approx(12.584).epsilon(1e-4));
  CHECK(zero1_weights({3.1707e9, 128}) / kGB == Approx(6.292).epsilon(1e-4));
}

TEST_CASE("ZeRO moves what the all-reduce did, if gradients are as narrow as weights") {
  CHECK(zero1_traffic({1e9, 8, 2}) / ddp_traffic({1e9, 8, 2}) == Approx(1));
  CHECK(zero1_traffic({1e9, 8, 4}) / ddp_traffic({1e9, 8, 2}) == Approx(1.5));
  CHECK(zero3_traffic({1e9, 8, 2, 1}) / ddp_traffic({1e9, 8, 2}) == Approx(1.5));  // the textbook's 3 against 2
  CHECK(zero3_traffic({1e9, 8, 2, 4}) / zero3_traffic_once({1e9, 8, 2, 4}) == Approx(4));
  // Gradients given away in each of 4 micro-batches: the weights' gather is still one.
  CHECK(zero2_traffic({1e9, 8, 2, 4}) / (4 * zero1_traffic({1e9, 8, 2}) - 3 * zero1_weights({1e9, 8})) == Approx(1));
  CHECK(zero2_traffic({1e9, 8, 2, 1}) / zero1_traffic({1e9, 8, 2}) == Approx(1));
  // One instance of HSDP is FSDP.
  CHECK(hsdp_intra({1e9, 8, 2, 4}) / zero3_traffic({1e9, 8, 2, 4}) == Approx(1));
  CHECK(fsdp_keep_traffic({1e9, 8, 2, 1}) / zero1_traffic({1e9, 8, 2}) == Approx(1));
}

TEST_CASE("the course's table and its slip") {
  const TableInput one{.tokens = 4096, .hidden = 1024, .ffn = 4096};
  // One data shard: FSDP with model parallelism moves what both move alone.
  CHECK(table_fsdp_mp(one) == table_mp({4096, 1024}) + table_fsdp({1024, 4096}));
  CHECK(table_fsdp_mp_course(one) != table_mp({4096, 1024}) + table_fsdp({1024, 4096}));
  CHECK(table_fsdp({1024, 4096}) == 1.5 * table_dp({1024, 4096}));
  CHECK(table_compute(one) == Flops(12.0 * 4096 * 1024 * 4096));
  // In bytes the table's rows are the general formulas: 2 D F weights, 2 bytes, many ranks.
  CHECK(table_dp({1024, 4096}) / ddp_traffic({2.0 * 1024 * 4096, 1e9, 2}) == Approx(1));
  CHECK(table_fsdp({1024, 4096}) / zero3_traffic({2.0 * 1024 * 4096, 1e9, 2, 1}) == Approx(1));
}

TEST_CASE("context parallelism, worked numbers") {
  // plan-formulas(7) E2: 16 ranks of 8192 tokens, query width 2048, key-value width 256
  CHECK(ring_forward({8192, 256, 16}) == RealBytes(125829120));
  CHECK(ring_backward({8192, 256, 16}) == RealBytes(260046848));
  CHECK(ulysses_traffic({8192, 2048, 256, 16}) == RealBytes(70778880));
  CHECK(ring_forward({8192, 256, 16}) / ulysses_traffic({8192, 2048, 256, 16}) ==
        Approx(ring_over_ulysses({2048, 256, 16})));
  CHECK(ring_forward({8192, 256, 1}) == RealBytes(0));
  CHECK(ulysses_traffic({8192, 2048, 256, 1}) == RealBytes(0));
}

// Every choice of k experts of E, which lie on G nodes one block after another, counted.
TEST_CASE("the nodes of a token are the mean over every choice of experts") {
  for (const int nodes : {1, 2, 4, 8})
    for (const int each : {1, 2, 4})
      for (int top_k = 1; top_k <= std::min(6, nodes * each); ++top_k) {
        const int experts = nodes * each;
        if (experts > 16) continue;
        double choices = 0, held = 0;
        for (unsigned chosen = 0; chosen < 1U << experts; ++chosen) {
          if (std::popcount(chosen) != top_k) continue;
          choices += 1;
          for (int node = 0; node < nodes; ++node)
            held += ((chosen >> (node * each)) & ((1U << each) - 1)) != 0 ? 1 : 0;
        }
        CAPTURE(nodes);
        CAPTURE(each);
        CAPTURE(top_k);
        CHECK(plan::distinct_nodes(experts, top_k, nodes) == Approx(held / choices));
      }
}

TEST_CASE("expert parallelism, worked numbers") {
  // plan-formulas(7) E6: 256 experts, 8 of them a token, 8 nodes, 4096 tokens a rank
  CHECK(expert_traffic({4096, 7168, 8, 2, 64}) / kMB == Approx(462.42).epsilon(1e-5));
  CHECK(expert_traffic({4096, 7168, 8, 1, 64}) / kMB == Approx(231.21).epsilon(1e-5));
  CHECK(distinct_nodes({8, 32, 8}) == Approx(5.295).epsilon(1e-4));
  CHECK(remote_nodes({distinct_nodes({8, 32, 8}), 8}) == Approx(4.633).epsilon(1e-4));
  CHECK(remote_nodes({4, 8}) == 3.5);
  CHECK(dedup_traffic({4096, 7168, 1, 3.5}) / kMB == Approx(102.76).epsilon(1e-4));
  CHECK(dedup_traffic({4096, 7168, 2, 3.5}) / kMB == Approx(205.52).epsilon(1e-4));
  CHECK(distinct_nodes({1, 256, 8}) == 1);
  CHECK(distinct_nodes({256, 1, 8}) == Approx(8));  // every expert on a node of its own
  for (const double chosen : {3., 4., 5., 9.})
    CHECK(distinct_nodes({2, 2, chosen}) == 2);  // one node cannot hold three
  // An all-gather pays off once more experts are chosen than there are ranks.
  CHECK(expert_gather({4096, 7168, 2, 8}) / expert_traffic({4096, 7168, 8, 2, 8}) == Approx(1));
}

TEST_CASE("collectives, worked numbers") {
  // plan-formulas(7) F1: 4 GiB over 4 nodes of 8 GPUs with 50 GB/s each
  const double size = 4294967296;
  CHECK(node_phase({size, 8, 4, 50e9}).value * 1e3 == Approx(16.106).epsilon(1e-4));
  CHECK(flat_ring({size, 8, 4, 50e9}).value * 1e3 == Approx(20.804).epsilon(1e-4));
  CHECK(transfer_time({size, 0, 50e9}).value * 1e3 == Approx(85.9).epsilon(1e-3));
  CHECK(hierarchical_all_reduce({size, 8, 4, 1e30, 50e9}) == node_phase({size, 8, 4, 50e9}));
  CHECK(hierarchical_all_reduce({size, 8, 1, 450e9, 50e9}).value ==
        Approx((all_reduce_wire({size, 8}) / BytesPerSecond(450e9)).value));
  // 10.148 ms measured on 8 B200 are the 740.64 GB/s that nccl-tests prints.
  CHECK(bus_bandwidth({size, 8, 10.148e-3}).value / 1e9 == Approx(740.64).epsilon(1e-4));
  CHECK(ring_all_reduce({size, 8, 0, 450e9}) / ring_all_gather({size, 8, 0, 450e9}) == Approx(2));
  CHECK(all_reduce_wire({size, 8}) == 2 * all_gather_wire({size, 8}));
  CHECK(nvls_wire({800, 8}) == RealBytes(900));
  // NCCL's own latencies: 8 ranks of one node
  CHECK(nccl_ring_latency({8, 1, 6.6, 0.6, 2.7}).value == Approx(15.0));
  CHECK(nccl_ring_latency({8, 1, 14, 1.9, 4}).value == Approx(40.6));
  CHECK(nccl_ring_latency({8, 1, 8.4, 3.4, 14}).value == Approx(56.0));
  CHECK(nccl_tree_latency({8, 1, 6.8, 0.6, 5}).value == Approx(15.2));
  CHECK(tree_all_reduce({size, 1, 8, 1, 1e-6, 450e9}).value == Approx(14e-6 + 2 * size / 450e9));
}

}  // namespace
}  // namespace plan::textbook

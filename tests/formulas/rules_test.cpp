#include "formulas/textbook/rules_of_thumb.hpp"

#include <doctest/doctest.h>

#include "formulas/flops.hpp"
#include "formulas/textbook/batch.hpp"
#include "formulas/textbook/catalog.hpp"
#include "tests/formulas/models.hpp"

namespace plan {
namespace {

using doctest::Approx;

constexpr double kH100 = 0.6 * 989e12;  // what the course takes GEMMs to reach

TEST_CASE("limits, worked numbers") {
  // plan-formulas(7) E5
  CHECK(fsdp_min_tokens({50e9, kH100}) == Approx(11868));
  CHECK(fsdp_min_tokens({360e9, kH100}) == Approx(1648).epsilon(1e-3));
  CHECK(fsdp_min_tokens({50e9, kH100, 4}) == Approx(1.5 * 11868));
  CHECK(tp_limit({53248, 360e9, kH100}) == Approx(32.3).epsilon(1e-3));
  CHECK(tp_limit({53248, 45e9, kH100}) == Approx(4.04).epsilon(1e-3));
  // plan-formulas(7) F5: one key-value head for eight query heads
  CHECK(ring_min_tokens({8, 1, 50e9, kH100}) == Approx(2967));
  CHECK(ring_min_tokens({8, 1, 50e9, kH100}) / 2 == Approx(1484).epsilon(1e-3));
  CHECK(recompute_overhead({1}) == Approx(1.0 / 3));
}

TEST_CASE("the course's layouts of Llama 3 405B") {
  // plan-formulas(7) G
  CHECK(world_size({8, 1, 16, 64}) == 8192);
  CHECK(world_size({8, 1, 16, 128}) == 16384);
  CHECK(world_size({8, 16, 16, 8}) == 16384);
  CHECK(tokens_per_step({64 * 32, 8192}) == 16777216);
  CHECK(tokens_per_step({128 * 16, 8192}) == 16777216);
  CHECK(tokens_per_step({8 * 16, 131072}) == 16777216);
  CHECK(micro_batches_per_rank({2048, 128, 1}) == 16);
}

TEST_CASE("batch size laws, worked numbers") {
  // plan-formulas(7) G
  CHECK(critical_batch({2.5}) / 1e6 == Approx(2.55).epsilon(2e-3));
  CHECK(critical_batch({2.0}) / 1e6 == Approx(7.37).epsilon(1e-3));
  CHECK(critical_batch({1.8}) / 1e6 == Approx(12.2).epsilon(3e-3));
  CHECK(best_batch({3e24}) / 1e6 == Approx(29.6).epsilon(2e-3));
  for (const double batch : {1e4, 1e6, 1e8}) {
    const double steps = steps_needed({1, batch, 2e6}), examples = examples_needed({1, batch, 2e6});
    CHECK((steps - 1) * (examples - 1) == Approx(1));
  }
}

TEST_CASE("attention is half of the work where the rule says") {
  const Model model = fixture::llama3_70b();
  const double linear = 3 * model_flops(model, 1).linear().value;
  const double seq = attention_half_sequence({linear, 80, 8192});
  const ModelFlops flops = model_flops(model, seq);
  CHECK(flops.core().value == Approx(flops.linear().value));
}

TEST_CASE("a bubble target is met exactly") {
  for (const double share : {0.05, 0.1, 0.3}) {
    const double m = micro_batches_for_bubble({16, 2, share});
    CHECK(15 / (m * 2 + 15) == Approx(share));
  }
}

TEST_CASE("checks stand on the right side of their limits") {
  CHECK(tp_inside_domain({8, 8}).holds);
  CHECK_FALSE(tp_inside_domain({16, 8}).holds);
  CHECK(tp_inside_domain({16, 72}).holds);
  CHECK(tp_below_limit({8, {53248, 360e9, kH100}}).holds);
  CHECK_FALSE(tp_below_limit({8, {53248, 45e9, kH100}}).holds);
  CHECK_FALSE(enough_micro_batches({16, 16, 1}).holds);
  CHECK(enough_micro_batches({16, 16, 4}).holds);
  CHECK(enough_micro_batches({1, 1, 1}).holds);
  CHECK(fsdp_hidden({16384, {50e9, kH100}}).holds);
  CHECK_FALSE(fsdp_hidden({8192, {50e9, kH100}}).holds);
  CHECK(ring_hidden({8192, {16384, 1024, 50e9, kH100}}).holds);
  CHECK_FALSE(ring_hidden({512, {16384, 1024, 50e9, kH100}}).holds);
  CHECK(ulysses_fits_heads({8, 1, 8}).holds);
  CHECK_FALSE(ulysses_fits_heads({8, 8, 8}).holds);
  CHECK(shard_inside_domain({8, 8}).holds);
  CHECK_FALSE(shard_inside_domain({64, 8}).holds);
  CHECK(enough_expert_rows({4096, 8, 256, 64}).holds);
  CHECK_FALSE(enough_expert_rows({4096, 8, 256, 1}).holds);
  CHECK(enough_gemm_rows({4096}).holds);
  CHECK_FALSE(enough_gemm_rows({2048}).holds);
  CHECK(batch_below_critical({4e6, 2.0}).holds);
  CHECK_FALSE(batch_below_critical({16e6, 2.0}).holds);
  CHECK(batch_below_critical({4e6, 2.0}).limit == critical_batch({2.0}));
}

TEST_CASE("every rule says why and when not, and its limit is in the catalog") {
  for (const RuleOfThumb& rule : rules_of_thumb()) {
    CAPTURE(std::string(rule.name));
    CHECK_FALSE(rule.why.empty());
    CHECK_FALSE(rule.when_false.empty());
    CHECK(find_formula(rule.formula) != nullptr);
    CHECK(find_rule(rule.name) == &rule);
  }
  CHECK(find_rule("no such rule") == nullptr);
}

}  // namespace
}  // namespace plan

#include "formulas/textbook/reliability.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "formulas/textbook/cost.hpp"

namespace plan {
namespace {

using doctest::Approx;

TEST_CASE("the normal quantile inverts the distribution") {
  for (const double q : {1e-300, 1e-12, 1e-4, 0.02, 0.3, 0.5, 0.7, 0.975, 0.999999}) {
    CAPTURE(q);
    CHECK(0.5 * std::erfc(-normal_quantile(q) / std::sqrt(2.0)) == Approx(q).epsilon(1e-10).scale(0));
  }
  CHECK(normal_quantile(0.975) == Approx(1.959963984540054).epsilon(1e-14));
}

TEST_CASE("stragglers, worked numbers") {
  // plan-formulas(7) F7, in standard deviations
  CHECK(straggler_step({0, 1, 8}).value == Approx(1.434).epsilon(1e-3));
  CHECK(straggler_step({0, 1, 64}).value == Approx(2.337).epsilon(1e-3));
  CHECK(straggler_step({0, 1, 128}).value == Approx(2.585).epsilon(1e-3));
  CHECK(straggler_step({0, 1, 2048}).value == Approx(3.427).epsilon(1e-3));
  CHECK(straggler_step({5, 1, 1}).value == Approx(5));
  CHECK(straggler_factor({1}) == 1);
  CHECK(slow_gpu({0.2}) == 1.25);
}

TEST_CASE("failures, worked numbers") {
  // plan-formulas(7) F7: Llama 3, 54 days on 16,384 GPUs
  const double mtbf = observed_mtbf({54, 419, 16384}).value;
  CHECK(mtbf == Approx(50677).epsilon(1e-4));
  CHECK(mtbf / 8766 == Approx(5.78).epsilon(1e-3));
  const double mtti = time_to_interruption({mtbf * 3600, 16384}).value;
  CHECK(mtti / 3600 == Approx(3.093).epsilon(1e-4));
  CHECK((observed_mtbf({54, 466, 16384}) / 16384).value == Approx(2.781).epsilon(1e-4));

  const double m = 3.093 * 3600;
  CHECK(young_interval({60, m}).value == Approx(1155.9).epsilon(1e-4));
  CHECK(daly_interval({60, m}).value == Approx(1116.3).epsilon(1e-4));
  CHECK(goodput({daly_interval({60, m}).value, 60, 600, m}) == Approx(0.8526).epsilon(1e-4));
  CHECK(goodput_first_order({young_interval({60, m}).value, 60, 600, m}) == Approx(0.8422).epsilon(1e-4));
  CHECK(young_interval({120, m}).value == Approx(1634.8).epsilon(1e-4));
  CHECK(daly_interval({120, m}).value == Approx(1555.7).epsilon(1e-4));
  CHECK(goodput({daly_interval({120, m}).value, 120, 900, m}) == Approx(0.7935).epsilon(1e-4));
  CHECK(lost_per_interruption({0.9, mtti}).value / 60 == Approx(18.6).epsilon(3e-3));
}

TEST_CASE("Daly's interval is the best one") {
  for (const double delta : {10.0, 60.0, 300.0})
    for (const double m : {3600.0, 36000.0}) {
      const double best = daly_interval({delta, m}).value;
      const double reached = goodput({best, delta, 600, m});
      for (const double factor : {0.5, 0.8, 1.25, 2.0}) CHECK(goodput({factor * best, delta, 600, m}) < reached);
      CHECK(goodput({young_interval({delta, m}).value, delta, 600, m}) <= reached);
    }
}

TEST_CASE("cost and energy, worked numbers") {
  CHECK(run_energy({30.84e6, 700}).value == Approx(21588).epsilon(1e-9));
  CHECK(gpu_hours({16384, 54 * 86400}) == GpuHours(16384 * 54 * 24));
  CHECK(run_cost({1000, 2.5, 0.8}) == Dollars(3125));
}

}  // namespace
}  // namespace plan

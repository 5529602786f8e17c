// Our best layout against the experts', for every published model, GPU and count: writes tests/published/experts.md.
//     compare_experts tests/published/expert_configs.csv > tests/published/experts.md
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "experts.hpp"

int main(int count, char** words) {
  if (count != 2) {
    std::fputs("usage: compare_experts expert_configs.csv\n", stderr);
    return 2;
  }
  constexpr std::size_t kMost = 100;
  std::vector<plan::experts::Contest> contests;
  std::size_t refused = 0;
  for (const plan::experts::Row& row : plan::experts::groups(plan::experts::read_rows(words[1]))) {
    const auto contest = plan::experts::contest(row);
    if (contest)
      contests.push_back(*contest);
    else
      ++refused;
  }
  std::vector<double> ratios;
  std::size_t slower = 0, unfit = 0;
  for (const plan::experts::Contest& one : contests) {
    ratios.push_back(one.speedup());
    slower += one.speedup() < 1 ? 1 : 0;
    unfit += one.comparison.a.best.fits == plan::Fits::No ? 1 : 0;
  }
  std::sort(ratios.begin(), ratios.end());
  if (ratios.empty()) return 1;
  const std::string text = fmt::format(
      "# Experts' layouts and ours\n\n"
      "Published layouts of Megatron's family (`expert_configs.csv`, sources in its column `source`) against the best "
      "that\n"
      "`plan` finds for the same model, GPUs, precision, sequence and batch; both predicted, none measured here. One "
      "row a\n"
      "model, GPU and count, measured ones before recipes; of {} such groups ({} more have a model without a preset or "
      "a\n"
      "layout that Megatron refuses) these are the {} whose step times differ most. Written by\n"
      "`build/tests/tools/compare_experts tests/published/expert_configs.csv`.\n\n"
      "Ratio is the expert's step time over ours: median {:.2f}, nine tenths within {:.2f} to {:.2f}. {} of the "
      "experts' layouts\n"
      "need more memory than the GPU has by our estimate, and {} are predicted faster than ours, which the memory "
      "limit holds\n"
      "back there. Memory is the peak of the worst stage in GiB.\n\n",
      contests.size(), refused, std::min(kMost, contests.size()), ratios[ratios.size() / 2], ratios[ratios.size() / 20],
      ratios[ratios.size() - 1 - ratios.size() / 20], unfit, slower);
  std::fputs((text + plan::experts::table(contests, kMost)).c_str(), stdout);
  return 0;
}

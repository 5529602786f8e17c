// Memory against 23 measured peaks of an exactly known stack.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "planner/memory/memory.hpp"
#include "tests/formulas/models.hpp"
#include "tests/published/simumax_peaks.hpp"

namespace {

using namespace plan;
using published::SimumaxModel;
using published::SimumaxPeak;

Model truncated(Model model, int layers, std::int64_t vocab) {
  model.layers.assign(static_cast<std::size_t>(layers), static_cast<int>(model.kinds.size()) - 1);
  model.layers[0] = 0;
  model.vocab = vocab + 1;  // the null tokenizer's end of document
  return model;
}

Model deepseek_v2() {
  Model model = fixture::deepseek_v3();
  model.hidden = 5120;
  model.kinds[0].dense.width = 12288;
  model.kinds[1].moe = {.experts = 160, .top_k = 6, .expert_width = 1536, .shared_width = 3072};
  return model;
}

Model build(SimumaxModel which) {
  switch (which) {
    case SimumaxModel::Llama70bL12: return truncated(fixture::llama3_70b(), 12, 128256);
    case SimumaxModel::Llama405bL4: {
      Model model = truncated(fixture::llama3_405b(), 4, 128256);
      model.kinds[0].attention.kv_heads = 16;  // as the runs had it; the published model has 8
      return model;
    }
    case SimumaxModel::DeepSeekV2L4: return truncated(deepseek_v2(), 4, 102400);
    case SimumaxModel::DeepSeekV3L4: return truncated(fixture::deepseek_v3(), 4, 129280);
  }
  return {};
}

StageContent content_of(const Model& model, int pp, int rank) {
  StageContent content;
  const int layers = model.depth() / pp;
  for (int i = rank * layers; i < (rank + 1) * layers; ++i)
    ++content.layers_of_kind[static_cast<std::size_t>(model.layers[static_cast<std::size_t>(i)])];
  content.embedding = rank == 0;
  content.head = rank == pp - 1;
  return content;
}

StageMemory predict(const SimumaxPeak& row) {
  Problem problem;
  problem.model = build(row.model);
  problem.cluster.gpu.architecture = Architecture::Blackwell;
  problem.training.seq = row.seq;
  Layout layout{.tp = row.tp, .cp = row.cp, .cp_kind = CpKind::Ulysses, .pp = row.pp, .dp = row.dp, .ep = row.ep};
  layout.sequence_parallel = row.tp > 1;
  const MemoryModel memory(problem, layout);
  return memory.stage(layout, row.stage, content_of(problem.model, row.pp, row.stage), row.pp - row.stage);
}

TEST_CASE("23 measured peaks: median within 0.1 %, none beyond 0.5 %") {
  std::vector<double> errors;
  for (const SimumaxPeak& row : published::kSimumaxPeaks) {
    const double mib = static_cast<double>(memory_kinds(predict(row)).allocated.value) / kMiB;
    const double error = mib / row.mib - 1;
    CAPTURE(std::string(row.name));
    CAPTURE(mib);
    CAPTURE(row.mib);
    CHECK(std::abs(error) <= 0.001);
    errors.push_back(std::abs(error));
  }
  std::sort(errors.begin(), errors.end());
  CHECK(errors.size() == 23);
  CHECK(errors[errors.size() / 2] <= 0.0001);
}

}  // namespace

// Memory under FSDP2 against PyTorch's own: tests/published/fsdp_peaks.csv, made by tests/tools/fsdp_peaks.py from
// fully_shard, autograd and AdamW on fake tensors. Workspaces, NCCL and the CUDA context are in neither.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "planner/memory/memory.hpp"
#include "tests/formulas/models.hpp"

namespace {

using namespace plan;

/// One line of the table by its columns' names.
struct Row {
  std::map<std::string, std::string> cells;
  const std::string& text(const char* column) const { return cells.at(column); }
  int number(const char* column) const { return std::atoi(text(column).c_str()); }
  double bytes(const char* column) const { return std::atof(text(column).c_str()); }
};

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream in(line);
  for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
  return cells;
}

std::vector<Row> rows() {
  std::ifstream file(PLAN_SOURCE_DIR "/tests/published/fsdp_peaks.csv");
  std::string line;
  REQUIRE(std::getline(file, line));
  const std::vector<std::string> columns = cells_of(line);
  std::vector<Row> all;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = cells_of(line);
    REQUIRE(cells.size() == columns.size());
    Row& row = all.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) row.cells[columns[i]] = cells[i];
  }
  return all;
}

/// The table's models as the tool that made it writes them, of as many layers as the row has.
Model model_of(const Row& row) {
  const std::string& name = row.text("model");
  fixture::LlamaShape shape{.layers = row.number("layers")};
  std::int64_t head_dim = 128;
  if (name == "llama3.2-1b") shape = {shape.layers, 2048, 32, 8, 8192, 128256}, head_dim = 64;
  if (name == "llama3-8b") shape = {shape.layers, 4096, 32, 8, 14336, 128256};
  if (name == "llama2-13b") shape = {shape.layers, 5120, 40, 40, 13824, 32000};
  if (name == "qwen3-32b") shape = {shape.layers, 5120, 64, 8, 25600, 151936};
  if (name == "llama3-70b") shape = {shape.layers, 8192, 64, 8, 28672, 128256};
  if (name == "qwen3-30b-a3b") shape = {shape.layers, 2048, 32, 4, 768, 151936};
  REQUIRE(shape.hidden > 0);
  Model model = fixture::llama(shape);
  Layer& layer = model.kinds[0];
  layer.attention.head_dim = head_dim;
  if (name.starts_with("qwen3")) layer.attention.qk_norm = QkNorm::PerHead;
  if (name == "qwen3-30b-a3b") {
    layer.ffn = Ffn::Moe;
    layer.moe = {.experts = 128, .top_k = 8, .expert_width = 768};
  }
  return model;
}

Recompute recompute_of(const Row& row) {
  if (row.text("recompute") == "full") return {.kind = RecomputeKind::Full};
  if (row.text("recompute") == "op") return {.kind = RecomputeKind::Selective, .modules = kRecomputeOps};
  return {};
}

Problem problem_of(const Row& row, int dp) {
  Problem problem;
  problem.model = model_of(row);
  problem.gpus = row.number("gpus");
  problem.cluster.gpu.architecture = Architecture::Hopper;
  Training& training = problem.training;
  training.seq = row.number("seq");
  training.global_batch = static_cast<std::int64_t>(dp) * row.number("micro_batch") * row.number("micro_batches");
  const bool compiled = row.text("mode") == "compiled";
  Stack& stack = training.stack;
  stack.states = StateLayout::Fsdp2;
  stack.transformer_engine = stack.gradient_fusion = stack.frees_stage_outputs = false;
  stack.keeps_gathered = stack.weighs_outputs = true;
  stack.fused_activation = stack.fused_pointwise = compiled;
  stack.cross_entropy = row.text("loss") == "chunked" ? CrossEntropy::Chunked
                        : compiled                    ? CrossEntropy::Compiled
                                                      : CrossEntropy::Eager;
  return problem;
}

TEST_CASE("memory under FSDP2 is what PyTorch allocates, category by category") {
  const std::vector<Row> all = rows();
  CHECK(all.size() >= 60);
  for (const Row& row : all) {
    const int tp = row.number("tp"), pp = row.number("pp"), dp = row.number("gpus") / tp / pp;
    const Problem problem = problem_of(row, dp);
    const Layout layout{.tp = tp,
                        .pp = pp,
                        .dp = dp,
                        .zero = row.number("zero"),
                        .shard = row.number("shard"),
                        .micro_batch = row.number("micro_batch"),
                        .recompute = recompute_of(row),
                        .sequence_parallel = tp > 1};
    StageContent content;
    content.layers_of_kind[0] = problem.model.depth() / pp;
    content.embedding = true, content.head = pp == 1;
    const MemoryModel memory(problem, layout);
    const StageMemory stage = memory.stage(layout, 0, content, pp);
    std::string line;
    for (const auto& [column, cell] : row.cells) line += column + "=" + cell + " ";
    CAPTURE(line);
    const auto near = [](double ours, double theirs, double share) {
      return ours == doctest::Approx(theirs).epsilon(share);
    };
    CHECK(near(static_cast<double>(stage.weights.value), row.bytes("weights"), 0.001));
    CHECK(near(static_cast<double>(stage.grads.value), row.bytes("gradients"), 0.001));
    CHECK(near(static_cast<double>(stage.optimizer.value), row.bytes("optimizer"), 0.001));
    const double kept = memory.activity(layout, content, memory.sums(content), pp).activations.value;
    CHECK(near(kept, row.bytes("kept"), 0.02));
    const double workspaces = memory.sharded(layout, 0, content, memory.sums(content)).resident.value;
    CHECK(near(static_cast<double>(memory_kinds(stage).allocated.value) - workspaces, row.bytes("peak"), 0.03));
  }
}

}  // namespace

// What a layer keeps, against what PyTorch's autograd saves of the same block: tests/published/autograd_ledger.csv,
// made by tests/tools/autograd_ledger.py.
#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string>

#include "formulas/activation.hpp"
#include "tests/formulas/models.hpp"

namespace {

using namespace plan;

constexpr std::int64_t kTokens = 1024;

/// One line: a block's shape, how it ran, and what autograd saved.
struct Saved {
  std::string shape, mode, norm, kv;
  std::int64_t hidden = 0, ffn = 0, heads = 0, kv_heads = 0, head_dim = 0, experts = 0, top_k = 0, expert_ffn = 0;
  double bytes = 0;
};

Saved read(const std::string& line) {
  std::stringstream in(line);
  std::string cell;
  const auto text = [&] { return std::getline(in, cell, ','), cell; };
  const auto number = [&] { return std::stoll(text()); };
  Saved row;
  row.shape = text();
  for (std::int64_t* field :
       {&row.hidden, &row.ffn, &row.heads, &row.kv_heads, &row.head_dim, &row.experts, &row.top_k, &row.expert_ffn})
    *field = number();
  row.mode = text(), row.norm = text(), row.kv = text();
  row.bytes = std::stod(text());
  return row;
}

Model model_of(const Saved& row) {
  Model model = fixture::llama3_8b();
  model.hidden = row.hidden;
  Layer& layer = model.kinds[0];
  layer.attention = {.heads = row.heads, .kv_heads = row.kv_heads, .head_dim = row.head_dim};
  layer.dense = {.width = row.ffn, .gated = true};
  if (row.experts > 0) {
    layer.ffn = Ffn::Moe;
    layer.moe = {.experts = row.experts, .top_k = row.top_k, .expert_width = row.expert_ffn, .gated = true};
  }
  return model;
}

TEST_CASE("layers keep what autograd saves, eager and compiled") {
  std::ifstream file(PLAN_SOURCE_DIR "/tests/published/autograd_ledger.csv");
  std::string line;
  REQUIRE(std::getline(file, line));
  int rows = 0;
  for (; std::getline(file, line); ++rows) {
    const Saved row = read(line);
    CAPTURE(line);
    const Model model = model_of(row);
    Training training;
    training.seq = kTokens;
    Stack& stack = training.stack;
    stack.fused_activation = row.mode == "compiled";
    stack.fused_norms = row.norm == "fused";
    stack.expands_kv = row.kv == "expanded";
    stack.weighs_outputs = true;
    const double kept = layer_ledger(model, model.kinds[0], training, {}).total().value / static_cast<double>(kTokens);
    CHECK(kept == doctest::Approx(row.bytes).epsilon(0.004));  // the router's scores differ by some bytes an expert
  }
  CHECK(rows == 54);
}

}  // namespace

// The words of --cuda-graphs: every text comes back as itself, every mistake is reported.
#include "cli/terminal/cuda_graphs.hpp"

#include <doctest/doctest.h>

#include <string>

namespace plan {

TEST_CASE("what graphs launch comes back in the same words") {
  for (const char* text : {"none", "full", "attn", "mamba", "attn+mlp", "attn+moe_router+moe_preprocess", "attn+moe"}) {
    const Result<CudaGraphs> read = read_cuda_graphs(text);
    REQUIRE(read);
    CHECK(cuda_graphs_text(*read) == text);
    CHECK(read->iteration == (std::string(text) == "full"));
  }
  CHECK(read_cuda_graphs("mlp+attn") == read_cuda_graphs("attn+mlp"));
}

TEST_CASE("every mistake in --cuda-graphs is told at once") {
  const auto codes = [](const char* text) {
    const Result<CudaGraphs> read = read_cuda_graphs(text);
    std::string all;
    if (!read)
      for (const Error& error : read.error()) all += error.code + " ";
    return all;
  };
  CHECK(codes("") == "unknown_value ");
  CHECK(codes("atn+full") == "unknown_value unknown_value ");
  CHECK(codes("moe+moe_router") == "conflicting_values ");
  CHECK(codes("attn+moe_preprocess") == "conflicting_values ");
  CHECK(read_cuda_graphs("atn").error().front().help.front() == "the nearest is `attn`");
}

}  // namespace plan

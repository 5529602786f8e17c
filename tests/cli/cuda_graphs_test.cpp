// The words of --cuda-graphs: each means its part of a layer, and every mistake is reported.
#include "cli/terminal/cuda_graphs.hpp"

#include <doctest/doctest.h>

#include <string>

namespace plan {

TEST_CASE("words of graphs are the parts that graphs launch") {
  const auto graphs = [](const char* text) {
    const Result<CudaGraphs> read = read_cuda_graphs(text);
    REQUIRE(read);
    return *read;
  };
  CHECK(graphs("none") == CudaGraphs{});
  CHECK(graphs("full") == CudaGraphs{.iteration = true, .scopes = 0});
  for (const Named<GraphScope>& row : kGraphScopeNames)
    if (row.value != kGraphPreprocess)
      CHECK(graphs(row.name.data()) == CudaGraphs{.iteration = false, .scopes = row.value});
  CHECK(graphs("attn+moe_router+moe_preprocess").scopes ==
        (graphs("attn").scopes | graphs("moe_router").scopes | kGraphPreprocess));
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

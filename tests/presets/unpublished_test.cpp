// What of its recipe a model's file leaves out.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "presets/store.hpp"
#include "temporary_folder.hpp"

namespace plan {
namespace {

constexpr const char* kMine =
    "preset: model/1\nname: mine\nhidden: 64\nvocab: 128\nattention:\n  heads: 4\n  head_dim: 16\n"
    "dense:\n  width: 256\nlayers: 2 x attention+dense\n";

TEST_CASE("a model's file of the user's own says which of its recipe it leaves out, wherever it lies") {
  for (const bool seq : {false, true})
    for (const bool batch : {false, true}) {
      const TemporaryFolder folder;
      const std::string text =
          std::string(kMine) + (seq ? "seq: 8192 tokens\n" : "") + (batch ? "global_batch: 64 sequences\n" : "");
      folder.write("models/mine.yaml", text);
      std::vector<std::string> lacking;
      if (!seq) lacking.emplace_back("seq");
      if (!batch) lacking.emplace_back("global_batch");
      StoreOptions options;
      options.path = {folder.path().string()};
      for (const std::string& word : {std::string("mine"), folder.at("models/mine.yaml")}) {
        const auto found = load_model(word, options);
        REQUIRE(found);
        CHECK(found->unpublished == lacking);
        CHECK((found->value.default_seq == 8192) == seq);
      }
    }
}

}  // namespace
}  // namespace plan

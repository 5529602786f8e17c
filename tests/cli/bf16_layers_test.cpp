// `--bf16-layers` from the command line to the answer and, over launch files, back. The oracle is what was asked for.
#include "cli/terminal/bf16_layers.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "check_files.hpp"

using namespace plan;
using checks::run;

TEST_CASE("the word is read back as it is written, and what is none is refused") {
  for (const Bf16Layers layers : {Bf16Layers{0, 0}, {1, 1}, {0, 14}, {7, 0}}) {
    const Result<Bf16Layers> back = read_bf16_layers(bf16_layers_text(layers));
    REQUIRE(back);
    CHECK(*back == layers);
  }
  for (const char* text : {"", "1", "1,", ",1", "1,1,1", "-1,1", "1.5,1", "a,b", "1 1", "1000001,0"})
    CHECK_FALSE(read_bf16_layers(text));
}

TEST_CASE("a launch file says again which layers stay in bf16, in every dialect that can") {
  const checks::Folder here;
  for (const char* to : {"megatron-lm", "verl", "torchtitan", "torchtitan-main", "megatron-bridge"})
    for (const char* layers : {"1,1", "0,3"}) {
      CAPTURE(to);
      CAPTURE(layers);
      std::filesystem::remove_all("out");
      const bool fp8_alone = std::string(to) == "megatron-bridge" && std::string(layers) != "1,1";
      const checks::Ran wrote =
          run({"emit", to, "--model", "llama3.1-8b", "--gpus", "8", "--gpu", "h100-sxm", "--seq", "8192",
               "--global-batch", "64", "--precision", "fp8", "--bf16-layers", layers, "-o", "out"});
      CAPTURE(wrote.err);
      if (fp8_alone) {  // its recipe for current scaling leaves one at each end
        CHECK(wrote.status == 2);
        CHECK(wrote.err.find("--bf16-layers 1,1") != std::string::npos);
        continue;
      }
      REQUIRE(wrote.status == 0);
      std::string first;
      for (const auto& file : std::filesystem::directory_iterator("out"))
        if (const std::string path = file.path().string();
            first.empty() || path.ends_with(".toml") || path.ends_with(".py") || path.ends_with(".yaml"))
          first = path;
      const checks::Json back = checks::run_json({"estimate", "--from", first, "--gpu", "h100-sxm", "--gpus", "8"});
      CHECK(back["inputs"]["bf16_layers"]["value"] == layers);
    }
}

TEST_CASE("words that mean nothing are refused by name") {
  const auto plan = [](std::vector<std::string> more) {
    std::vector<std::string> words = {"--model", "llama3.1-8b", "--gpus", "8", "--gpu", "b200"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--bf16-layers", "1,1"},
        {"--precision", "mxfp8", "--bf16-layers", "20,20"},
        {"--precision", "mxfp8", "--bf16-layers", "1,1", "--framework", "maxtext"},
        {"--precision", "fp8-delayed", "--bf16-layers", "1,1", "--framework", "megatron"}}) {
    const checks::Ran ran = plan(words);
    CHECK(ran.status == 2);
    CHECK_MESSAGE((ran.err.find("bf16") != std::string::npos), ran.err);
  }
  CHECK(plan({"--precision", "mxfp8", "--bf16-layers", "1,1"}).status == 0);
  CHECK(plan({"--bf16-layers", "0,0"}).status == 0);
}

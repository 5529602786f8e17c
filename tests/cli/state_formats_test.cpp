// The words of --state-formats: every text comes back as itself, every mistake is reported.
#include "cli/terminal/state_formats.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plan {

TEST_CASE("formats of states come back in the same words") {
  for (const char* text : {"grads=bf16", "master=fp16", "moments=bf16", "moments=fp8", "moment1=fp8,moment2=bf16",
                           "grads=bf16,master=fp16,moment1=bf16", "kept=fp8", "moments=bf16,kept=fp8"}) {
    const Result<StateFormats> read = read_state_formats(text);
    REQUIRE(read);
    Training training;
    read->apply(training);
    CHECK(state_formats_text(training) == text);
    CHECK(training.precision_aware == (training.master_bytes < 4 || training.moment1_bytes < 4));
    const bool kept = std::string_view(text).find("kept") != std::string_view::npos;
    CHECK(training.stack.fp8_param_gather == kept);
    CHECK(training.stack.fp8_activation_input == kept);
  }
  Training plain;
  CHECK(state_formats_text(plain).empty());
  read_state_formats("grads=fp32,master=fp32,moments=fp32,kept=bf16")->apply(plain);
  CHECK(plain == Training());
}

TEST_CASE("every mistake in --state-formats is told at once") {
  const auto codes = [](const char* text) {
    const Result<StateFormats> read = read_state_formats(text);
    std::string all;
    if (!read)
      for (const Error& error : read.error()) all += error.code + " ";
    return all;
  };
  CHECK(codes("") == "unknown_value ");
  CHECK(codes("residuals=bf16,master=bf16") == "unknown_value unknown_value ");
  CHECK(codes("moments") == "unknown_value ");
  CHECK(codes("kept=fp32") == "unknown_value ");
  CHECK(codes("moments=fp16") == "unknown_value ");  // no word of the optimizer's that differs from bf16 in bytes
  CHECK(codes("moments=bf16,moment1=fp8") == "conflicting_values ");
  CHECK(codes("grads=bf16,grads=bf16").empty());
  CHECK(read_state_formats("gards=bf16").error().front().help.front() == "the nearest is `grads`");
  CHECK(read_state_formats("exp_avg=fp16").error().front().help.front() ==
        "write `moment1=` with one of fp32, bf16, fp8");
}

TEST_CASE("states and formats by the names that libraries give them are the same") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> states = {
      {"grads", {"grad", "gradients", "Gradients", "main_grads", "main-grads-dtype"}},
      {"master", {"master_weights", "main-params-dtype"}},
      {"moment1", {"exp_avg", "exp-avg-dtype", "first_moment"}},
      {"moment2", {"exp_avg_sq", "exp-avg-sq-dtype", "second_moment"}},
      {"moments", {"moment"}}};
  const std::vector<std::pair<std::string, std::vector<std::string>>> formats = {
      {"fp32", {"float32", "FP32", "torch.float32"}},
      {"bf16", {"bfloat16", "BF16", "torch.bfloat16", "jnp.bfloat16"}},
      {"fp16", {"float16", "torch.float16"}},
      {"fp8", {"float8", "FP8"}}};
  const auto told = [](const std::string& text) {
    const Result<StateFormats> read = read_state_formats(text);
    Training training;
    if (read) read->apply(training);
    return read ? state_formats_text(training) + "." : read.error().front().help.back();
  };
  for (const auto& [state, names] : states)
    for (const auto& [format, words] : formats) {
      const std::string usual = told(state + "=" + format);
      for (const std::string& word : words) CHECK(told(state + "=" + word) == usual);
      for (const std::string& name : names) CHECK(told(name + " = " + words.front()) == usual);
    }
}

}  // namespace plan

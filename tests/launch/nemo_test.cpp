// NeMo's first generation: what a fine-tuning's dataset says over its model, and the models that are no decoders.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// A job whose model and whose dataset say further lines; `name` is the experiment's.
std::string nemo(const std::string& model, const std::string& dataset = "", const std::string& name = "x") {
  return fmt::format(
      "name: {0}\ntrainer:\n  num_nodes: 2\n  devices: 8\n  precision: bf16\nexp_manager:\n  name: {0}\n"
      "model:\n  tensor_model_parallel_size: 2\n  num_layers: 32\n  hidden_size: 4096\n  ffn_hidden_size: 11008\n"
      "  num_attention_heads: 32\n  activation: fast-swiglu\n  bias: false\n  max_position_embeddings: 4096\n"
      "  optim:\n    name: fused_adam\n{1}{2}",
      name, model, dataset.empty() ? "" : "  data:\n    train_ds:\n" + dataset);
}

const std::string kTokenizer = "  tokenizer:\n    model: meta-llama/Llama-2-7b-hf\n";

}  // namespace

TEST_CASE("NeMo's fine-tuning cuts and batches by its dataset's keys, whatever the model's are") {
  std::mt19937 random(3);
  const auto one_of = [&random](int least, int values) { return least << random() % static_cast<unsigned>(values); };
  for (int i = 0; i < 12; ++i) {
    const int seq[] = {one_of(512, 4), one_of(512, 4)}, micro[] = {one_of(1, 2), one_of(1, 2)},
              batch[] = {one_of(32, 3), one_of(32, 3)};
    const std::string model = fmt::format("  encoder_seq_length: {}\n  micro_batch_size: {}\n  global_batch_size: {}\n",
                                          seq[0], micro[0], batch[0]);
    const std::string dataset =
        fmt::format("      max_seq_length: {}\n      micro_batch_size: {}\n      global_batch_size: {}\n", seq[1],
                    micro[1], batch[1]);
    CAPTURE(model + dataset);
    const LaunchJob job = job_of("nemo.yaml", nemo(kTokenizer + model, dataset));
    CHECK(job.training->seq == seq[1]);
    CHECK(job.fixed.micro_batch == micro[1]);
    CHECK(job.training->global_batch == batch[1]);
    CHECK(names(job.notes, "model.encoder_seq_length") == (seq[0] != seq[1]));
    CHECK(names(job.notes, "model.micro_batch_size") == (micro[0] != micro[1]));
    CHECK(names(job.notes, "model.global_batch_size") == (batch[0] != batch[1]));
  }
  const std::string own = kTokenizer + "  encoder_seq_length: 1024\n  micro_batch_size: 1\n  global_batch_size: 64\n";
  CHECK(job_of("nemo.yaml", nemo(own, "      max_seq_length: null\n")).training->seq == 1024);
}

TEST_CASE("batches that Lightning would gather are told, since NeMo stops at them") {
  const std::string text =
      nemo(kTokenizer + "  encoder_seq_length: 1024\n  micro_batch_size: 1\n  global_batch_size: 64\n");
  const auto with = [&](int batches) {
    return replaced(text, "  devices: 8\n", fmt::format("  devices: 8\n  accumulate_grad_batches: {}\n", batches));
  };
  CHECK_FALSE(names(job_of("nemo.yaml", with(1)).unused, "accumulate_grad_batches"));
  CHECK(names(job_of("nemo.yaml", with(2)).unused, "accumulate_grad_batches: 2"));
}

TEST_CASE("a number of nodes that is none is asked for, and not one") {
  const std::string text =
      nemo("  encoder_seq_length: 4096\n  micro_batch_size: 1\n  global_batch_size: 64\n" + kTokenizer);
  for (const char* nodes : {"1", "2", "16"})
    CHECK(job_of("nemo.yaml", replaced(text, "num_nodes: 2", fmt::format("num_nodes: {}", nodes))).gpus ==
          8 * std::stoi(nodes));
  for (const char* nodes : {"-1", "0", "auto", "${oc.env:NODES}"})
    CHECK(job_of("nemo.yaml", replaced(text, "num_nodes: 2", fmt::format("num_nodes: {}", nodes))).gpus == 0);
}

TEST_CASE("degrees in a section that the tool does not read are refused, and are no other's defaults") {
  const std::string text =
      "model:\n  num_layers: 32\n  hidden_size: 4096\n  num_attention_heads: 32\n  ffn_hidden_size: 11008\n"
      "  seq_length: 4096\n  vocab_size: 32000\n  {}\ntrain:\n  micro_batch_size: 1\n  global_batch_size: 64\n{}:\n"
      "  {}: {}\n";
  for (const char* degree : {"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
                             "expert_model_parallel_size"})
    for (const char* section : {"strategy", "parallel", "megatron"}) {
      CAPTURE(std::string(section) + degree);
      const std::string other = std::string(degree) == "tensor_model_parallel_size" ? "sequence_parallel: false"
                                                                                    : "tensor_model_parallel_size: 1";
      const auto file = [&](const std::string& more, int number) {
        return fmt::format(fmt::runtime(text), more, section, degree, number);
      };
      const auto read = [&](const std::string& more, int number) {
        return Files().read("run.yaml", file(more, number), on(16));
      };
      const Result<LaunchJob> refused = read(other, 2);
      REQUIRE_FALSE(refused);
      CHECK(refused.error().front().code == "degree_not_read");
      CHECK(refused.error().front().message.find(degree) != std::string::npos);
      CHECK(read(other, 1));
      CHECK(read(other + fmt::format("\n  {}: 1", degree), 2));  // who states its own may know another's
    }
}

TEST_CASE("NeMo's number format that is null is Lightning's own, and one that is not there is no word of the file") {
  const auto text = [](const std::string& line) {
    std::string out = nemo("  encoder_seq_length: 4096\n  micro_batch_size: 1\n  global_batch_size: 64\n" + kTokenizer);
    const std::string stated = "  precision: bf16\n";
    return out.replace(out.find(stated), stated.size(), line);
  };
  for (const char* null : {"null", "~", "Null", ""}) {
    CAPTURE(std::string(null));
    const LaunchJob job = job_of("conf.yaml", text(fmt::format("  precision: {}\n", null)));
    CHECK(job.training->precision == Precision::Fp32);
  }
  const LaunchJob absent = job_of("conf.yaml", text(""));
  CHECK(absent.training->precision == Precision::Bf16);
  CHECK(std::any_of(absent.inputs.begin(), absent.inputs.end(),
                    [](const Input& input) { return input.key == "precision" && input.origin == Origin::Default; }));
}

TEST_CASE("NeMo's fp32 is what its file says, and a mixer that is no attention no decoder") {
  const std::string text =
      nemo("  encoder_seq_length: 4096\n  micro_batch_size: 1\n  global_batch_size: 64\n" + kTokenizer);
  const auto origin = [](const LaunchJob& job) {
    for (const Input& input : job.inputs)
      if (input.key == "precision") return input.origin;
    return Origin::Default;
  };
  for (const char* format : {"bf16", "16", "32", "bf16-mixed", "32-true"})
    CHECK(origin(job_of("nemo.yaml", replaced(text, "precision: bf16", fmt::format("precision: {}", format)))) ==
          Origin::File);
  CHECK(error_of("nemo.yaml", text + "  hyena:\n    order: 2\n") == "not_a_decoder");
}

TEST_CASE("NeMo's encoders and models of two stacks are no decoders, whatever the file is called") {
  const std::string own = "  encoder_seq_length: 512\n  micro_batch_size: 1\n  global_batch_size: 64\n";
  CHECK(job_of("nemo.yaml", nemo(kTokenizer + own)).training->seq == 512);
  CHECK(job_of("nemo.yaml", nemo(kTokenizer + own, "", "megatron_gpt5b")).training->seq == 512);
  for (const char* line : {"  bert_binary_head: true\n", "  decoder_seq_length: 128\n",
                           "  encoder:\n    num_layers: 2\n", "  data:\n    masked_lm_prob: 0.15\n"})
    CHECK(error_of("nemo.yaml", nemo(kTokenizer + own + line)) == "not_a_decoder");
  CHECK(error_of("nemo.yaml", nemo(own + "  tokenizer:\n    type: BertWordPieceLowerCase\n")) == "not_a_decoder");
  for (const char* name : {"megatron_bert", "megatron_t5", "mt5_390m", "Megatron_BART"})
    CHECK(error_of("nemo.yaml", nemo(kTokenizer + own, "", name)) == "not_a_decoder");
}

TEST_CASE("NeMo's number format is the trainer's, one that plan does not know is refused and another is told") {
  const std::string own = kTokenizer + "  encoder_seq_length: 512\n  micro_batch_size: 1\n  global_batch_size: 64\n";
  const auto trained = [&own](const std::string& word, const std::string& more = "") {
    return replaced(nemo(own + more), "precision: bf16", "precision: " + word);
  };
  using Words = std::pair<Precision, std::vector<std::string>>;
  for (const auto& [precision, words] : {Words{Precision::Bf16, {"bf16", "bf16-mixed", "BF16-true"}},
                                         Words{Precision::Fp16, {"16", "16-mixed", "16-true", "fp16"}},
                                         Words{Precision::Fp32, {"32", "32-true", "fp32"}}})
    for (const std::string& word : words) CHECK(job_of("nemo.yaml", trained(word)).training->precision == precision);
  for (const char* word : {"transformer-engine", "64", "mixed", "${oc.env:P}"})
    CHECK(error_of("nemo.yaml", trained(word)) == "unknown_precision");
  for (const char* key : {"precision", "dtype", "params_dtype", "autocast_dtype"}) {
    const auto told = [&](const char* word) {
      return names(job_of("nemo.yaml", trained("bf16", fmt::format("  {}: {}\n", key, word))).unused, key);
    };
    CHECK(told("float32"));
    CHECK(told("mine"));
    CHECK_FALSE(told("bfloat16"));
    CHECK_FALSE(told("null"));
  }
}

}  // namespace plan

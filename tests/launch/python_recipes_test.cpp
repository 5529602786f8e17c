// Recipes of torchtitan's main branch are Python: one assignment in many spellings is one job, and what is not followed
// is told or refused.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/settings/python_statements.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

/// A recipe whose function says `body`, in a module that says `before` in front of it.
std::string module(const std::string& body, const std::string& before = "", const std::string& parameters = "") {
  return "from torchtitan.models.llama3 import model_registry\nfrom torchtitan.trainer import Trainer\n" + before +
         "\n\ndef mine(" + parameters +
         ") -> Trainer.Config:\n"
         "    config = Trainer.Config(\n        model_spec=model_registry(\"8B\"),  # the model\n"
         "        training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192),\n"
         "        parallelism=ParallelismConfig(tensor_parallel_degree=4),\n    )\n" +
         body + "    return config\n";
}

LaunchJob job(const std::string& text) { return job_of("recipe.py", text, on(64)); }

/// The job with tp 2, and with 2 sequences of 8192 tokens each.
bool has_tp_2(const LaunchJob& one) {
  return one.fixed.tp == 2 && one.fixed.micro_batch == 2 && one.training && one.training->seq == 8192 &&
         one.unused.empty();
}

}  // namespace

TEST_CASE("arguments of Trainer.Config count, whatever name the configuration has") {
  const LaunchJob plain = job(module(""));
  CHECK(plain.fixed.tp == 4);
  CHECK(plain.fixed.micro_batch == 2);
  CHECK(plain.training->seq == 8192);
  CHECK(plain.unused.empty());
  CHECK(plain.model->name == "llama3-8b");
  CHECK(job(replaced(module(""), "model_registry(\"8B\")", "model_registry(flavor=\"70B\")")).model->name ==
        "llama3-70b");
}

TEST_CASE("one assignment in many spellings is one job") {
  for (const std::string body :
       {"config.parallelism.tensor_parallel_degree = 2",
        "config.parallelism.tensor_parallel_degree=2",
        "config.parallelism.tensor_parallel_degree //= 2",
        "config.parallelism.tensor_parallel_degree -= 2",
        "setattr(config.parallelism, \"tensor_parallel_degree\", 2)",
        "config.parallelism = ParallelismConfig(tensor_parallel_degree=2)",
        "config.parallelism = dataclasses.replace(config.parallelism, tensor_parallel_degree=2)",
        "config.parallelism.tensor_parallel_degree, steps = 2, 1",
        "p = config.parallelism\n    p.tensor_parallel_degree = p.expert_tensor_parallel_degree = 2",
        "config.parallelism.tensor_parallel_degree = 4 // 2",
        "config.parallelism.tensor_parallel_degree = (1 + 1)",
        "config.parallelism.tensor_parallel_degree = \\\n        2",
        "steps = 1; config.parallelism.tensor_parallel_degree = 2",
        "p = config.parallelism\n    p.tensor_parallel_degree = 2",
        "p, steps = config.parallelism, 1\n    p.tensor_parallel_degree = 2",
        "tp: int = 2\n    config.parallelism.tensor_parallel_degree = tp",
        "q = ParallelismConfig()\n    q.tensor_parallel_degree = 2\n    config.parallelism = q",
        "with torch.device(\"meta\"):\n        config.parallelism.tensor_parallel_degree = 2",
        "config.parallelism.tensor_parallel_degree = config.parallelism.tensor_parallel_degree // 2",
        "config.metrics.enable()\n    config.parallelism.tensor_parallel_degree = 2"}) {
    CAPTURE(body);
    CHECK(has_tp_2(job(module("    " + body + "\n"))));
  }
  CHECK(has_tp_2(job(module("    config.parallelism.tensor_parallel_degree = TP\n", "TP = 2\n"))));
  CHECK(has_tp_2(job(module("    config.parallelism.tensor_parallel_degree = tp\n", "", "tp: int = 2"))));
}

TEST_CASE("a new object has nothing of the one before it") {
  const LaunchJob fresh = job(module("    config.parallelism = ParallelismConfig(context_parallel_degree=2)\n"));
  CHECK(fresh.fixed.tp == 1);
  CHECK(fresh.fixed.cp == 2);
}

TEST_CASE("what a recipe does not do says nothing") {
  const LaunchJob plain = job(module(""));
  for (const std::string body : {"\"\"\"\n    config.parallelism.tensor_parallel_degree = 2\n    \"\"\"",
                                 "return config\n    config.parallelism.tensor_parallel_degree = 2",
                                 "other = Trainer.Config(parallelism=ParallelismConfig(tensor_parallel_degree=2))",
                                 "# config.parallelism.tensor_parallel_degree = 2",
                                 "def inner():\n        config.parallelism.tensor_parallel_degree = 2",
                                 "if config.metrics.log_freq:\n        config.metrics.log_freq = 2"}) {
    CAPTURE(body);
    const LaunchJob same = job(module("    " + body + "\n"));
    CHECK(same.fixed == plain.fixed);
    CHECK(same.unused.empty());
  }
  const LaunchJob run = job(module("") +
                            "\n\nif __name__ == \"__main__\":\n    config = mine()\n"
                            "    config.parallelism.tensor_parallel_degree = 2\n");
  CHECK(run.fixed == plain.fixed);
  const LaunchJob beside = job(module("", "def apply(c):\n    c.parallelism.tensor_parallel_degree = 2\n"));
  CHECK(beside.fixed == plain.fixed);
}

TEST_CASE("what is not followed is told") {
  for (const std::string body :
       {"if os.environ.get(\"WIDE\"):\n        config.parallelism.tensor_parallel_degree = 2",
        "if WIDE: config.parallelism.tensor_parallel_degree = 2",
        "for degree in [2]:\n        config.parallelism.tensor_parallel_degree = degree",
        "try:\n        config.parallelism.tensor_parallel_degree = 2\n    except ValueError:\n        pass",
        "while True:\n        config.training.dtype = \"bfloat16\"", "enable_fused_swiglu(config)",
        "config.parallelism = ParallelismConfig(**options)", "config.model_spec.converters.append(Own())",
        "config.parallelism.__dict__.update(options)", "if small:\n        return small_config()",
        "other.parallelism.tensor_parallel_degree = 2", "config.model_spec.model.layers[0].dim = 2"}) {
    CAPTURE(body);
    CHECK_FALSE(job(module("    " + body + "\n")).unused.empty());
  }
  for (const std::string body :
       {"config.parallelism.tensor_parallel_degree = pick()",
        "config.parallelism.tensor_parallel_degree = 2 if wide else 4",
        "config.parallelism.tensor_parallel_degree = \"2\"",
        "if wide:\n        tp = 2\n    config.parallelism.tensor_parallel_degree = tp", "config.training.dtype = DTYPE",
        "config.training.num_tokens_per_train_step = 0", "config.parallelism.data_parallel_shard_degree = 0",
        "config.parallelism.tensor_parallel_degree = 5 / 2"}) {
    CAPTURE(body);
    CHECK(error_of("recipe.py", module("    " + body + "\n"), on(64)) == "wrong_value");
  }
}

TEST_CASE("names of calls of names are followed within a bound") {
  std::string body = "    a0 = g(1, 2)\n";
  for (int i = 1; i < 16; ++i) {
    const std::string before = "a" + std::to_string(i - 1);
    body += "    a" + std::to_string(i) + " = g(" + before + ", " + before + ", " + before + ", " + before + ")\n";
  }
  CHECK(error_of("recipe.py", module(body + "    config.training = a15\n"), on(64)) == "too_many_keys");
}

TEST_CASE("random sums of whole numbers come to what Python makes of them") {
  std::mt19937 random(20260826);
  for (int round = 0; round < 60; ++round) {
    const int a = 1 + static_cast<int>(random() % 9), b = 1 + static_cast<int>(random() % 9),
              c = 1 + static_cast<int>(random() % 9);
    const int expected = (a + b) * c - (a * b) / c + a;
    if (expected < 1) continue;
    const std::string sum = "(" + std::to_string(a) + " + B) * " + std::to_string(c) + " - (" + std::to_string(a) +
                            " * B) // " + std::to_string(c) + " + " + std::to_string(a);
    CAPTURE(sum);
    const LaunchJob one =
        job(module("    B = " + std::to_string(b) + "\n    config.training.max_context_length = 64\n" +
                   "    config.training.num_tokens_per_microbatch_per_dp_rank = 64 * (" + sum + ")\n"));
    CHECK(one.fixed.micro_batch == expected);
  }
}

TEST_CASE("statements of Python end where Python ends them") {
  const LaunchSource source{
      .path = "x.py",
      .text = "a = \"\"\"one\ntwo # no\n\"\"\"; b = (1,\n  2)  # c\nif x: y = {1: 2}\nz = 'it\\'s; so'\n"};
  const auto statements = python::statements_of(source);
  REQUIRE(statements);
  std::vector<std::string> texts;
  for (const python::Statement& one : *statements) texts.push_back(one.text);
  CHECK(texts == std::vector<std::string>{"a = \"\"\"one two # no \"\"\"", "b = (1,   2)", "if x:", "y = {1: 2}",
                                          "z = 'it\\'s; so'"});
}

TEST_CASE("programs in Python are named by what they import") {
  const std::pair<const char*, const char*> programs[] = {
      {"from olmo_core.config import DType\n", "OLMo-core"},
      {"from nemo.collections import llm\n", "NeMo recipe"},
      {"import megatron.bridge.recipes\n", "Megatron-Bridge"},
      {"import torch\nfrom trl import SFTTrainer\n", "TRL"},
      {"import composer", "Composer"},  // the file ends
      {"import trlx, composer_like\nimport composer\n", "Composer"}};
  for (const auto& program : programs) {
    const std::string text = program.first, what = program.second;
    CAPTURE(what);
    const Files files;
    const Result<LaunchJob> job = files.read("train.py", text);
    REQUIRE_FALSE(job);
    CHECK(job.error().front().message.find(what) != std::string::npos);
    CHECK(job.error().front().help.front().find("plan capture") != std::string::npos);
  }
}

}  // namespace plan

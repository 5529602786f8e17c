// Ai2's mason.py, which starts a command of accelerate on each of its nodes.
#include "cli/shell/mason.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

TEST_CASE("mason's accelerate gets the nodes right behind its processes, and every other word stays where it was") {
  const auto started = [](const std::vector<std::string>& words) {
    ShellCommand command;
    for (const std::string& word : words) command.words.push_back({word, 3});
    start_on_every_node(command);
    std::vector<std::string> out;
    for (const ShellWord& word : command.words) {
      CHECK(word.line == 3);
      out.push_back(word.text);
    }
    return out;
  };
  using Words = std::vector<std::string>;
  const Words mason{"python", "mason.py", "--num_nodes", "8", "--gpus", "8", "--"};
  const auto with = [&](const Words& behind) {
    Words all = mason;
    all.insert(all.end(), behind.begin(), behind.end());
    return all;
  };
  CHECK(started(with({"accelerate", "launch", "--num_processes", "8", "--mixed_precision", "bf16", "x.py"})) ==
        with({"accelerate", "launch", "--num_processes", "64", "--num_machines", "8", "--mixed_precision", "bf16",
              "x.py"}));
  CHECK(started(with({"accelerate", "launch", "x.py", "--num_processes", "8"})) ==
        with({"accelerate", "launch", "x.py", "--num_processes", "64", "--num_machines", "8"}));
  for (const Words& same : {with({"torchrun", "--nproc_per_node", "8", "x.py"}), with({"accelerate", "launch", "x.py"}),
                            Words{"python", "mason.py", "--num_nodes", "1", "accelerate", "--num_processes", "8"},
                            Words{"accelerate", "launch", "--num_nodes", "8", "--num_processes", "8"}})
    CHECK(started(same) == same);
}

TEST_CASE("mason.py starts accelerate's processes on each of its nodes") {
  const Files files;
  const std::string trains =
      "run_clm.py --model_name_or_path meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 2 --bf16 True "
      "--max_seq_length 2048";
  const auto gpus = [&](const std::string& flags, const std::string& launch) {
    const std::string script = fmt::format("uv run python mason.py {} -- {} {}\n", flags, launch, trains);
    CAPTURE(script);
    const Result<LaunchJob> job = files.read("run.sh", "#!/bin/bash\n" + script);
    REQUIRE(job);
    return job->gpus;
  };
  for (const int nodes : {1, 2, 4, 8, 32})
    for (const int each : {4, 8}) {
      const std::string flags = fmt::format("--cluster x --num_nodes {} --gpus {}", nodes, each);
      CHECK(gpus(flags, fmt::format("accelerate launch --num_processes {}", each)) == nodes * each);
      // torchrun's nodes stand in its own flags.
      CHECK(gpus(flags, fmt::format("torchrun --nnodes={} --nproc_per_node={}", nodes, each)) == nodes * each);
    }
}

}  // namespace plan

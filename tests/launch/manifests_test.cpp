// Tasks and jobs of nodes hand a command over: what it says counts, or the file is refused; and a command that a
// slip cuts short is refused where it is cut. Jobs are made at random; what they say is known from their making.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

struct Words {
  std::vector<std::string> words{};
  int micro = 0, steps = 0, gpus = 0;
};

/// A command of the Trainer's with random numbers.
Words random_words(std::mt19937& random) {
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  Words out{.micro = draw(8), .steps = draw(16), .gpus = 1 << draw(3)};
  out.words = {"torchrun",
               "--nproc_per_node",
               fmt::format("{}", out.gpus),
               "train.py",
               "--model_name_or_path",
               "Qwen/Qwen2.5-7B-Instruct",
               "--per_device_train_batch_size",
               fmt::format("{}", out.micro),
               "--gradient_accumulation_steps",
               fmt::format("{}", out.steps),
               "--model_max_length",
               "2048",
               "--bf16"};
  return out;
}

/// The words of a command, some of them on lines of their own behind `joint`.
std::string command_of(const Words& job, std::mt19937& random, const std::string& joint) {
  std::string out;
  for (std::size_t i = 0; i < job.words.size(); ++i)
    out += (i == 0 ? "" : i > 3 && job.words[i].starts_with("--") && random() % 2 == 0 ? joint : " ") + job.words[i];
  return out;
}

std::string sky_task(const Words& job, std::mt19937& random) {
  const std::string named = random() % 2 == 0 ? "run: |\n  set -e\n  " : "run: |-\n\n  # a remark\n  ";
  return fmt::format("name: x\nnum_nodes: 1\nresources:\n  accelerators: H100:{}\n{}{}\n", job.gpus, named,
                     command_of(job, random, " \\\n    "));
}

std::string dstack_task(const Words& job, std::mt19937& random) {
  Words said = job;
  said.words[2] = "$DSTACK_GPUS_PER_NODE";
  said.words[7] = "$MICRO";
  const char* env = random() % 2 == 0 ? "  - TOKEN\n  - MICRO=" : "  MICRO: ";
  const char* memory = random() % 2 == 0 ? "" : "80GB:";
  return fmt::format(
      "type: task\nname: x\nenv:\n{}{}\ncommands:\n  - pip install .\n  - |\n    {}\nresources:\n  gpu: H100:{}{}\n",
      env, job.micro, command_of(said, random, " \\\n      "), memory, job.gpus);
}

std::string kubernetes_job(const Words& job, std::mt19937& random) {
  std::string out = "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n";
  out += "      - name: a\n        image: b\n";
  const bool shell = random() % 2 == 0;
  Words said = job;
  said.words[7] = shell ? "$MICRO" : "$(MICRO)";
  const std::string env = fmt::format("        env:\n        - name: MICRO\n          value: \"{}\"\n", job.micro);
  std::string command = "        command: [\"bash\", \"-c\"]\n", args = "        args:\n";
  if (shell) {
    args += "        - |\n          " + command_of(said, random, " \\\n            ") + "\n";
  } else {
    command = fmt::format("        command: [\"{}\"]\n", said.words[0]);
    for (std::size_t i = 1; i < said.words.size(); ++i) args += fmt::format("        - \"{}\"\n", said.words[i]);
  }
  std::array<std::string, 3> parts{env, command, args};  // keys of a map stand in any order
  std::shuffle(parts.begin(), parts.end(), random);
  for (const std::string& part : parts) out += part;
  return out;
}

std::string train_job(const Words& job, std::mt19937&) {
  std::string out = fmt::format(
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  trainer:\n    numNodes: 1\n"
      "    numProcPerNode: {}\n    command:\n      - torchrun\n    args:\n",
      job.gpus);
  for (std::size_t i = 1; i < job.words.size(); ++i) out += fmt::format("      - \"{}\"\n", job.words[i]);
  return out;
}

/// `entrypoint:` of Determined's, as a text or as a list.
std::string determined_experiment(const Words& job, std::mt19937& random) {
  std::string out = fmt::format("name: x\nresources:\n  slots_per_trial: {}\nsearcher:\n  name: single\n", job.gpus);
  Words own = job;
  own.words.erase(own.words.begin(), own.words.begin() + 3);  // the launcher and its number, which are its own
  own.words.insert(own.words.begin(), {"python", "-m", "determined.launch.torch_distributed", "python"});
  if (random() % 2 == 0) return out + "entrypoint: >-\n  " + command_of(own, random, "\n  ") + "\n";
  out += "entrypoint:\n";
  for (const std::string& word : own.words) out += fmt::format("  - \"{}\"\n", word);
  return out;
}

std::string beaker_experiment(const Words& job, std::mt19937& random) {
  Words own = job;
  own.words[7] = "$MICRO";
  return fmt::format(
      "version: v2\ntasks:\n  - name: x\n    replicas: 1\n    command: ['/bin/sh', '-c']\n    arguments: ['\n"
      "        {}\n    ']\n    envVars:\n      - name: MICRO\n        value: \"{}\"\n      - name: TOKEN\n"
      "        secret: TOKEN\n    resources:\n      gpuCount: {}\n",
      command_of(own, random, "\n        "), job.micro, job.gpus);
}

}  // namespace

TEST_CASE("the command in a task or a job of nodes counts as the same command in a script does") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round)
    for (const auto& make :
         {sky_task, dstack_task, kubernetes_job, train_job, determined_experiment, beaker_experiment}) {
      const Words words = random_words(random);
      const std::string text = make(words, random);
      CAPTURE(text);
      const LaunchJob job = job_of("job.yaml", text);
      CHECK(job.gpus == words.gpus);
      CHECK(job.fixed.micro_batch == words.micro);
      REQUIRE(job.training);
      CHECK(job.training->seq == 2048);
      REQUIRE(job.model);
      CHECK(job.model->name == "qwen2.5-7b");
      if (job.rank_batch) CHECK(job.rank_batch->steps == words.steps);
    }
}

TEST_CASE("what a comment of a task says of GPUs and nodes states nothing") {
  const std::string command =
      "run: |\n  torchrun train.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --per_device_train_batch_size 2 "
      "--bf16\n";
  const std::string megatron =
      "torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
      "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 16 "
      "--eval-interval 10 --vocab-size 32000 --bf16\n";
  const std::string task =
      "# num_nodes: 4\nnum_nodes: 2  # of 4\nresources:\n  # accelerators: H200:8\n"
      "  accelerators: H100:4  # or A100:8\n";
  const std::string dstack =
      "type: task\n# nodes: 4\nnodes: 2  # of 4\nresources:\n  # gpu: H200:8\n  gpu: H100:4  # or A100:8\n"
      "commands:\n  - ";
  // Whatever reads the command: the Trainer's reader reads a script made of it, Megatron-LM's the task itself.
  for (const std::string& text : {task + command, task + "run: |\n  # on H100s\n  " + megatron, dstack + megatron}) {
    CAPTURE(text);
    const LaunchJob job = job_of("a.yaml", text);
    CHECK(job.gpus == 8);
    CHECK(job.gpus_per_node == 4);
    CHECK(job.gpu == "h100-sxm");
    CHECK(job.hardware.empty());
  }
  std::string words;
  for (const std::string_view word : split(trim(megatron, "\n"), " "))
    words += word == "torchrun" ? "" : fmt::format("      - \"{}\"  # a remark\n      # another\n", word);
  const LaunchJob nodes = job_of(
      "k.yaml",
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec:\n  trainer:\n    # numNodes: 4\n"
      "    numNodes: 2  # of 4\n    # numProcPerNode: 8\n    numProcPerNode: 4\n    command: [torchrun]\n    args:\n" +
          words);
  CHECK(nodes.gpus == 8);
  CHECK(nodes.training->global_batch == 16);
  CHECK(job_of("hostfile", "# worker-0 slots=4\nworker-1 slots=8\nworker-2 slots=8  # not slots=4\n").gpus == 16);
  CHECK(job_of("b.yaml", "num_nodes: 1\nresources:\n  accelerators:\n    H100: 8\n" + command, on(8)).gpus == 8);
}

TEST_CASE("a task whose command no reader understands is refused, and not read for its GPUs alone") {
  CHECK(error_of("a.yaml", fmt::format("name: x\nresources:\n  accelerators: A100:4\nrun: {}\n",
                                       "oumi train -c x.yaml")) == "training_not_understood");
  CHECK(error_of("b.yaml",
                 "num_nodes: 2\nresources:\n  accelerators: A100:4\nenvs:\n  A: 1\nrun: |\n  set -e\n"
                 "  python my_own.py --size 3\n") == "training_not_understood");
  CHECK(job_of("c.yaml", "num_nodes: 2\nresources:\n  accelerators: A100:4\nrun: |\n  nvidia-smi\n").gpus == 8);
}

TEST_CASE("a script that starts no training that is read is told to give its GPUs alone") {
  const std::string head = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gpus-per-node=8\n";
  for (const char* command : {"exec ./inner.sh", "bash other.sh"}) {
    const LaunchJob job = job_of("job.sbatch", head + command + "\n");
    CHECK(job.gpus == 16);
    CHECK(names(job.unused, "only its GPUs are read"));
  }
  CHECK(job_of("job.sbatch", head).unused.empty());
}

TEST_CASE("what a task tells its command of nodes and variables is known there") {
  const LaunchJob job =
      job_of("a.yaml",
             "num_nodes: 1\nresources:\n  accelerators: H100:8\nenvs:\n  SIZE: 3\nrun: |\n"
             "  torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE train.py \\\n"
             "    --model_name_or_path Qwen/Qwen2.5-7B-Instruct --per_device_train_batch_size $SIZE --bf16\n");
  CHECK(job.gpus == 8);
  CHECK(job.fixed.micro_batch == 3);
  const LaunchJob nodes =
      job_of("d.dstack.yml",
             "type: task\nnodes: 2\nresources:\n  gpu: 80GB:8\ncommands:\n"
             "  - torchrun --nnodes $DSTACK_NODES_NUM --nproc_per_node $DSTACK_GPUS_PER_NODE train.py "
             "--model_name_or_path Qwen/Qwen2.5-7B-Instruct --per_device_train_batch_size 2 --bf16\n");
  CHECK(nodes.gpus == 16);
  CHECK(nodes.gpus_per_node == 8);
}

TEST_CASE("words that a slip cuts off their command are refused at their line") {
  struct Slip {
    const char* joint;  ///< instead of ` \` and a line's end
    const char* help;
  };
  constexpr Slip kSlips[] = {{" \n    ", "end line"},
                             {" \\ \n    ", "end line"},
                             {" \\\n    # a remark\n    ", "take the comments out"},
                             {" \\\n\n    ", "take line"}};
  std::mt19937 random(11);
  for (int round = 0; round < 10; ++round)
    for (const Slip& slip : kSlips) {
      const Words words = random_words(random);
      const std::string whole = command_of(words, random, " \\\n    ");
      std::vector<std::size_t> joints;
      for (std::size_t at = whole.find(" \\\n"); at != std::string::npos; at = whole.find(" \\\n", at + 1))
        joints.push_back(at);
      if (joints.empty()) continue;
      const std::size_t at = joints[random() % joints.size()];
      const std::string broken = whole.substr(0, at) + slip.joint + whole.substr(whole.find("--", at));
      const std::string text = "#!/bin/bash\n" + broken + "\n";
      CAPTURE(text);
      const Files files;
      const Result<LaunchJob> job = files.read("run.sh", text);
      REQUIRE_FALSE(job);
      const Error& error = job.error().front();
      CHECK(error.code == "broken_command");
      CHECK(error.help.front().find(slip.help) == 0);
      const std::string above = "#!/bin/bash\n" + broken.substr(0, at) + slip.joint;
      const auto line = 1 + std::count(above.begin(), above.end(), '\n');
      CHECK(error.message.find(fmt::format("run.sh:{}:", line)) != std::string::npos);
      CHECK(files.read("run.sh", "#!/bin/bash\n" + whole + "\n"));
    }
}

TEST_CASE("words whose program is missing, or is a remark, are no training") {
  std::mt19937 random(17);
  for (int round = 0; round < 10; ++round) {
    const Words words = random_words(random);
    const std::string whole = command_of(words, random, " \\\n    ");
    const std::string own = whole.substr(whole.find("--model_name"));
    for (const std::string head : {"", "# torchrun train.py \\\n", "mkdir -p out\n\n"}) {
      const std::string text = "#!/bin/bash\n" + head + "    " + own + "\n";
      CAPTURE(text);
      CHECK(error_of("run.sh", text) == "broken_command");
    }
  }
}

namespace {

constexpr std::string_view kMegatron =
    "pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 256 --eval-interval 10 --vocab-size 32000 "
    "--bf16";

/// A container of so many GPUs with a command, as a list of words or as a script.
std::string container(const std::string& command, int gpus, std::mt19937& random, const std::string& indent) {
  std::string out = fmt::format("{}- name: a\n", indent);
  out += fmt::format("{0}  resources:\n{0}    limits:\n{0}      nvidia.com/gpu: {1}\n", indent, gpus);
  if (random() % 2 == 0) return out + fmt::format("{0}  command: [bash, -c]\n{0}  args: ['{1}']\n", indent, command);
  out += fmt::format("{}  {}:\n", indent, random() % 2 == 0 ? "command" : "args");
  for (const std::string_view word : split(command, " ")) out += fmt::format("{}  - \"{}\"\n", indent, word);
  return out;
}

struct Manifest {
  std::string head{};  ///< above the container
  int nodes = 1;
  bool told = false;  ///< the operator hands nodes to torchrun
  std::string indent{};
};

Manifest random_manifest(std::mt19937& random) {
  const int nodes = 1 + static_cast<int>(random() % 4);
  switch (random() % 5) {
    case 0:
      return {fmt::format("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n  pytorchReplicaSpecs:\n    Worker:\n"
                          "      replicas: {}\n      template:\n        spec:\n          containers:\n",
                          nodes),
              nodes, true, "          "};
    case 1:
      return {
          fmt::format("apiVersion: elastic.iml.github.io/v1alpha1\nkind: ElasticJob\nspec:\n  replicaSpecs:\n"
                      "    worker:\n      replicas: \"{}\"\n      template:\n        spec:\n          containers:\n",
                      nodes),
          nodes, true, "          "};
    case 2:
      return {fmt::format("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec:\n  tasks:\n  - replicas: {}\n"
                          "    template:\n      spec:\n        containers:\n",
                          nodes),
              nodes, false, "        "};
    case 3:
      return {fmt::format("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec:\n  replicatedJobs:\n"
                          "  - name: a\n    replicas: 2\n    template:\n      spec:\n        parallelism: {0}\n"
                          "        completions: {0}\n        template:\n          spec:\n            containers:\n",
                          nodes),
              2 * nodes, false, "            "};
    default:
      return {
          fmt::format("apiVersion: batch/v1\nkind: Job\nspec:\n  parallelism: {0}\n  completions: {0}\n  template:\n"
                      "    spec:\n      containers:\n",
                      nodes),
          nodes, false, "      "};
  }
}

}  // namespace

TEST_CASE("the pods of a manifest are the job's nodes where an operator says so, else the command's flags are") {
  std::mt19937 random(13);
  for (int round = 0; round < 80; ++round) {
    const Manifest made = random_manifest(random);
    const int gpus = 1 << (random() % 4);
    const bool stated = random() % 2 == 0;
    const std::string start = fmt::format("torchrun --nproc_per_node={}{} ", gpus,
                                          stated ? fmt::format(" --nnodes={}", made.nodes) : std::string());
    const std::string beside = random() % 2 == 0 ? "" : "apiVersion: v1\nkind: Service\nspec: {ports: [80]}\n---\n";
    const std::string text = beside + made.head + container(start + std::string(kMegatron), gpus, random, made.indent);
    CAPTURE(text);
    const LaunchJob job = job_of("job.yaml", text);
    CHECK(job.training->global_batch == 256);
    if (stated || made.told || made.nodes == 1) {
      CHECK(job.gpus == made.nodes * gpus);
    } else {
      CHECK(job.gpus == 0);  // each pod may be a job of its own
    }
    CHECK_FALSE(names(job.unused, "pods"));
    if (!stated) continue;
    const std::string other = std::string(text).replace(text.find("nnodes="), 8, "nnodes=9");
    CHECK(names(job_of("job.yaml", other).unused, fmt::format("{} pod{}", made.nodes, made.nodes == 1 ? "" : "s")));
  }
}

TEST_CASE("a PyTorchJob's master and workers are one job of all their pods") {
  const auto replicas = [](const char* name, int count, const std::string& command) {
    return fmt::format(
        "    {}:\n      replicas: {}\n      template:\n        spec:\n          containers:\n          - name: a\n"
        "            command: [bash, -c, '{}']\n            resources: {{limits: {{nvidia.com/gpu: 8}}}}\n",
        name, count, command);
  };
  const auto job = [&](const std::string& spec, const std::string& command) {
    return job_of("job.yaml", "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec:\n" + spec +
                                  "  pytorchReplicaSpecs:\n" + replicas("Master", 1, command) +
                                  replicas("Worker", 3, command));
  };
  CHECK(job("", "torchrun --nproc_per_node 8 " + std::string(kMegatron)).gpus == 32);
  CHECK(job("  nprocPerNode: \"4\"\n", "torchrun " + std::string(kMegatron)).gpus == 16);
  CHECK(job("  nprocPerNode: auto\n", "torchrun " + std::string(kMegatron)).gpus == 32);
  CHECK(job("", "torchrun --nnodes $WORLD_SIZE --node_rank $RANK --nproc_per_node 8 " + std::string(kMegatron)).gpus ==
        32);
  const std::string counted = "torchrun --nnodes $((WORLD_SIZE/2)) --nproc_per_node 2 ";
  CHECK(job("  nprocPerNode: \"2\"\n", counted + std::string(kMegatron)).gpus == 8);
}

TEST_CASE("a script that a ConfigMap beside a job mounts is the job's") {
  const std::string text = fmt::format(
      "apiVersion: v1\nkind: ConfigMap\ndata:\n  train.sh: |\n    torchrun --nproc_per_node 8 {}\n---\n"
      "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n"
      "        command: [bash, /scripts/train.sh]\n        resources: {{limits: {{nvidia.com/gpu: 8}}}}\n",
      kMegatron);
  const LaunchJob job = job_of("job.yaml", text);
  CHECK(job.gpus == 8);
  CHECK(job.training->global_batch == 256);
}

TEST_CASE("a shell's options in front of and behind -c change nothing of the text that it runs") {
  const std::string text = fmt::format(
      "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n"
      "        command: [SHELL]\n        args:\n        - |\n          torchrun --nproc_per_node 8 {}\n"
      "        resources: {{limits: {{nvidia.com/gpu: 8}}}}\n",
      kMegatron);
  for (const char* shell :
       {"bash, -x, -c", "bash, -l, -c", "bash, -eo, pipefail, -c", "bash, -euxo, pipefail, -c", "bash, -c, --",
        "/bin/zsh, -c", "sh, -ec", "bash, +x, -O, extglob, --norc, -c", "/usr/bin/dash, -c, -e", "bash, -lc"}) {
    CAPTURE(shell);
    const LaunchJob job = job_of("job.yaml", replaced(text, "SHELL", shell));
    CHECK(job.gpus == 8);
    CHECK(job.training->global_batch == 256);
  }
}

}  // namespace plan

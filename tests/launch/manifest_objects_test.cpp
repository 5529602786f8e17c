// A manifest of Kubernetes with several objects: the one that trains counts with its own pods and files alone, and what
// cannot be told of them is refused at its place. Objects are put together at random; what they say is known from their
// making.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/terminal/words.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

constexpr std::string_view kProgram =
    "pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 256 --eval-interval 10 --vocab-size 32000 "
    "--bf16";

std::string pytorch_job(const std::string& workers, const std::string& command, const std::string& beside = {}) {
  const auto replicas = [&](const char* name, const std::string& count) {
    return fmt::format(
        "    {}:\n      replicas: {}\n      template:\n        spec:\n          containers:\n          - name: a\n"
        "            command: [bash, -c, '{}']\n            resources: {{limits: {{nvidia.com/gpu: 8}}}}\n{}",
        name, count, command, beside);
  };
  return "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec:\n  pytorchReplicaSpecs:\n" +
         replicas("Master", "1") + replicas("Worker", workers);
}

std::string torchrun(const std::string& flags = "--nproc_per_node 8 ") {
  return "torchrun " + flags + std::string(kProgram);
}

std::string train_job(int nodes, const std::string& below) {
  std::string out = fmt::format(
      "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: x}}\nspec:\n  runtimeRef: {{name: "
      "r}}\n  trainer:\n    numNodes: {}\n    numProcPerNode: 8\n    command: [torchrun]\n    args:\n",
      nodes);
  for (const std::string_view word : split(kProgram, " ")) out += fmt::format("    - \"{}\"\n", word);
  return out + below;
}

constexpr std::string_view kOthers[] = {
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: vllm}\nspec:\n  replicas: 2\n  template:\n    spec:\n"
    "      containers:\n      - name: a\n        command: [bash, -c, vllm serve x]\n"
    "        resources: {limits: {nvidia.com/gpu: 8}}\n",
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: eval}\nspec:\n  template:\n    spec:\n      containers:\n"
    "      - name: a\n        command: [python, eval.py, --ckpt, /x]\n"
    "        resources: {limits: {nvidia.com/gpu: 1}}\n",
    "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {name: r}\nspec:\n  mlPolicy:\n"
    "    numNodes: 1\n    torch: {numProcPerNode: auto}\n  template:\n    spec:\n      replicatedJobs:\n"
    "      - name: node\n        template:\n          spec:\n            template:\n              spec:\n"
    "                containers:\n                - name: a\n                  command: [bash, -c, echo hi]\n"
    "                  resources: {limits: {nvidia.com/gpu: 8}}\n",
    "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [80]}\n",
};

std::string in_list(const std::vector<std::string>& objects) {
  std::string out = "apiVersion: v1\nkind: List\nitems:\n";
  for (const std::string& object : objects) {
    bool first = true;
    for (const std::string_view line : split(object, "\n"))
      if (!line.empty()) out += fmt::format("{}{}\n", std::exchange(first, false) ? "- " : "  ", line);
  }
  return out;
}

Error refusal(const std::string& text) {
  const Files files;
  const Result<LaunchJob> job = files.read("job.yaml", text);
  REQUIRE_FALSE(job);
  return job.error().front();
}

}  // namespace

TEST_CASE("the pods of other objects are none of the job's") {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const int nodes = 2 + static_cast<int>(random() % 4);
    const bool kubeflow = random() % 2 == 0;
    const std::string overrides =
        random() % 2 == 0 ? ""
                          : "  podTemplateOverrides:\n  - targetJobs: [{name: node}]\n    spec:\n      containers:\n"
                            "      - name: node\n        resources: {limits: {nvidia.com/gpu: 8}}\n";
    std::vector<std::string> objects{kubeflow ? pytorch_job(fmt::format("{}", nodes - 1), torchrun())
                                              : train_job(nodes, overrides)};
    for (const std::string_view other : kOthers)
      if (random() % 2 == 0) objects.emplace_back(other);
    std::shuffle(objects.begin(), objects.end(), random);
    std::string text;
    if (random() % 3 == 0) {
      text = in_list(objects);
    } else {
      for (const std::string& object : objects) text += object + (random() % 2 == 0 ? "---\n" : "--- # next\n");
    }
    CAPTURE(text);
    const LaunchJob job = job_of("job.yaml", text);
    CHECK(job.gpus == 8 * nodes);
    CHECK_FALSE(names(job.unused, "pods"));
  }
}

TEST_CASE("of two objects that train none is chosen in silence") {
  const std::string one = pytorch_job("3", torchrun());
  for (const std::string& other : {one, train_job(2, "")}) {
    const Error error = refusal(one + "---\n" + other);
    CHECK(error.code == "several_jobs");
    CHECK(error.message.find("PyTorchJob `a` (line 1)") != std::string::npos);
  }
}

TEST_CASE("a runtime says what its TrainJob leaves open") {
  const std::string job = "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nspec: {runtimeRef: {name: r}}\n";
  const std::string runtime =
      replaced(replaced(std::string(kOthers[2]), "numNodes: 1", "numNodes: 3"), "echo hi", "'" + torchrun("") + "'");
  CHECK(job_of("job.yaml", runtime + "---\n" + job).gpus == 24);
  CHECK(job_of("job.yaml", job + "---\n" + runtime).gpus == 24);
}

TEST_CASE("a number of pods that is none is asked for, where nothing else counts the GPUs") {
  for (const char* count : {"${WORKERS}", "three", "-3", "99999999999999999999", "1.5", "\"\""}) {
    CAPTURE(count);
    const std::string text = pytorch_job(count, torchrun());
    const Error error = refusal(text);
    CHECK(error.code == "count_not_read");
    const std::string above = text.substr(0, text.find(fmt::format("replicas: {}", count)));
    CHECK(error.message.starts_with("/"));
    CHECK(error.message.find(fmt::format("job.yaml:{}:", 1 + std::count(above.begin(), above.end(), '\n'))) !=
          std::string::npos);
    CHECK(job_of("job.yaml", text, on(32)).gpus == 32);
    CHECK(job_of("job.yaml", pytorch_job(count, torchrun("--nnodes 4 --nproc_per_node 8 "))).gpus == 32);
  }
  CHECK(job_of("job.yaml", pytorch_job("0", torchrun())).gpus == 8);
  CHECK(job_of("job.yaml", pytorch_job("\"3\"", torchrun())).gpus == 32);
}

TEST_CASE("a program of one process in pods of several GPUs does not count them in silence") {
  const std::string text = pytorch_job("3", "python " + std::string(kProgram));
  CHECK(refusal(text).code == "one_process_a_pod");
  CHECK(job_of("job.yaml", text, on(4)).gpus == 4);
  const std::string module = "python -m accelerate.commands.launch " + std::string(kProgram);
  CHECK(job_of("job.yaml", pytorch_job("3", module)).gpus == 32);
  CHECK(job_of("job.yaml",
               pytorch_job("3", "python -m torch.distributed.run --nproc_per_node 8 " + std::string(kProgram)))
            .gpus == 32);
}

TEST_CASE("the size of a LeaderWorkerSet's groups counts its pods") {
  const auto set = [](int size, const std::string& leader, int nodes) {
    return fmt::format(
        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nspec:\n  replicas: 1\n  "
        "leaderWorkerTemplate:\n"
        "    size: {}\n{}    workerTemplate:\n      spec:\n        containers:\n        - name: a\n"
        "          command: [bash, -c, '{}']\n          resources: {{limits: {{nvidia.com/gpu: 8}}}}\n",
        size, leader, torchrun(fmt::format("--nnodes {} --nproc_per_node 8 ", nodes)));
  };
  CHECK_FALSE(names(job_of("job.yaml", set(4, "", 4)).unused, "pod"));
  CHECK(names(job_of("job.yaml", set(3, "", 4)).unused, "3 pods of 8 GPUs are started; the command's 4 nodes of 8"));
  CHECK(names(job_of("job.yaml", set(1, "", 4)).unused, "1 pod of 8 GPUs is started"));
  const std::string leader =
      "    leaderTemplate:\n      spec:\n        containers:\n        - name: b\n"
      "          resources: {limits: {nvidia.com/gpu: 8}}\n";
  CHECK_FALSE(names(job_of("job.yaml", set(4, leader, 4)).unused, "pod"));
}

namespace {

std::string config_map(const std::string& name, const std::string& key, int batch) {
  return fmt::format("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {}}}\ndata:\n  {}: |\n    {}\n---\n", name,
                     key, replaced(torchrun(), "batch-size 256", fmt::format("batch-size {}", batch)));
}

std::string mounting(const std::string& volumes, const std::string& command = "/scripts/train.sh") {
  return fmt::format(
      "apiVersion: batch/v1\nkind: Job\nspec:\n  template:\n    spec:\n      containers:\n      - name: a\n"
      "        command: [bash, {}]\n        resources: {{limits: {{nvidia.com/gpu: 8}}}}\n{}",
      command, volumes);
}

}  // namespace

TEST_CASE("of two ConfigMaps with the same file the one that is mounted counts") {
  const std::string both = config_map("a", "train.sh", 128) + config_map("b", "train.sh", 512);
  for (const auto& [name, batch] : {std::pair{"a", 128}, std::pair{"b", 512}}) {
    const std::string volume = fmt::format("      volumes:\n      - name: v\n        configMap: {{name: {}}}\n", name);
    CHECK(job_of("job.yaml", both + mounting(volume)).training->global_batch == batch);
  }
  CHECK(refusal(both + mounting("")).code == "several_files");
  const std::string two =
      "        volumeMounts:\n        - {name: x, mountPath: /scripts}\n        - {name: y, mountPath: /other}\n"
      "      volumes:\n      - {name: y, configMap: {name: a}}\n      - {name: x, configMap: {name: b}}\n";
  CHECK(job_of("job.yaml", both + mounting(two)).training->global_batch == 512);
  CHECK(job_of("job.yaml", both + mounting(two, "/other/train.sh")).training->global_batch == 128);
  CHECK(refusal(both + mounting(two, "train.sh")).code == "several_files");
  const std::string same = config_map("a", "train.sh", 128) + config_map("b", "train.sh", 128);
  CHECK(job_of("job.yaml", same + mounting("")).training->global_batch == 128);
}

TEST_CASE("a file of a ConfigMap has the name that its volume gives it") {
  const std::string map = config_map("a", "run", 128);
  CHECK(job_of("job.yaml", map + mounting("      volumes:\n      - name: v\n        configMap:\n          name: a\n"
                                          "          items: [{key: run, path: train.sh}]\n"))
            .training->global_batch == 128);
  CHECK(job_of("job.yaml",
               map + mounting("        volumeMounts:\n        - {name: v, mountPath: /scripts/train.sh, subPath: run}\n"
                              "      volumes:\n      - name: v\n        configMap: {name: a}\n"))
            .training->global_batch == 128);
}

TEST_CASE("a template that is not rendered is named at its line") {
  const std::string text = replaced(train_job(4, ""), "numProcPerNode: 8", "image: {{ .Values.image }}");
  const Error error = refusal("# a chart\n" + text);
  CHECK(error.code == "template_not_rendered");
  CHECK(error.message.find("job.yaml:9: `{{ .Values.image }}`") != std::string::npos);
  CHECK(error_of("a.yaml", "resources:\n  accelerators: {{ .n }}\nrun: |\n  " + torchrun() + "\n") ==
        "template_not_rendered");
}

TEST_CASE("a manifest of many documents is read in a time that grows as they do") {
  std::string text = pytorch_job("3", torchrun());
  for (int i = 0; i < 20000; ++i) text += "---\napiVersion: v1\nkind: Service\nspec: {ports: [80]}\n";
  const auto start = std::chrono::steady_clock::now();
  CHECK(job_of("job.yaml", text).gpus == 32);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("replicas of a Beaker task that are not the command's nodes are named") {
  const auto task = [](int replicas, int gpus, const std::string& flags) {
    return fmt::format(
        "version: v2\ntasks:\n- name: t\n  replicas: {}\n  command: [bash, -c]\n  arguments: ['{}']\n"
        "  resources: {{gpuCount: {}}}\n",
        replicas, torchrun(flags), gpus);
  };
  const std::string stated = "--nnodes 2 --nproc_per_node 8 ";
  CHECK_FALSE(names(job_of("b.yaml", task(2, 8, stated)).unused, "replica"));
  CHECK(names(job_of("b.yaml", task(4, 8, stated)).unused, "4 replicas of 8 GPUs are started"));
  CHECK(names(job_of("b.yaml", task(2, 4, stated)).unused, "2 replicas of 4 GPUs are started"));
  CHECK(job_of("b.yaml", task(2, 8, "--nproc_per_node 8 ")).gpus == 0);  // each may be a job of its own
  CHECK(job_of("b.yaml", task(1, 8, "--nproc_per_node 8 ")).gpus == 8);
}

TEST_CASE("a job's master and workers are one training whoever reads their command, and pods that differ are told") {
  const std::string trainer =
      "train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2 --max_length 1024 --bf16";
  const auto of = [&](const std::string& master, const std::string& worker, int gpus = 8) {
    const std::string text = pytorch_job("3", "MASTER");
    const std::size_t second = text.rfind("MASTER");
    std::string both = std::string(text).replace(second, 6, worker);
    both = replaced(both, "MASTER", master);
    const std::size_t limit = both.rfind("gpu: 8");
    return both.replace(limit, 6, fmt::format("gpu: {}", gpus));
  };
  const std::string start = "torchrun --nproc_per_node 8 ";
  const LaunchJob job = job_of("job.yaml", of(start + trainer, start + trainer));
  CHECK(job.gpus == 32);
  CHECK(job.training->global_batch == 64);
  CHECK(job_of("job.yaml", of("torchrun --nnodes 4 --node_rank 0 --nproc_per_node 8 " + trainer,
                              "torchrun --nnodes 4 --node_rank 1 --nproc_per_node 8 " + trainer))
            .gpus == 32);
  for (const char* other : {"--per_device_train_batch_size 4", "--max_length 4096", "--fp16"}) {
    CAPTURE(other);
    CHECK(error_of("job.yaml", of(start + trainer, start + trainer + " " + other)) == "several_trainings");
  }
  CHECK(names(job_of("job.yaml", of(start + trainer, start + trainer, 4)).unused, "some of the 4 pods have 4 GPUs"));
}

}  // namespace plan

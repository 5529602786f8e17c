// `plan emit --site`: the scripts are run under stand-ins for Slurm, torchrun and the training, which record the words
// and the variables that they get. Hostile values arrive byte for byte; failures, time limits and bad nodes end as
// promised; and no word of a site file is passed over.
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>

#include "check_files.hpp"
#include "contents.hpp"

using namespace plan;
using namespace plan::checks;
namespace fs = std::filesystem;

namespace {

/// Words that end with a zero byte.
std::vector<std::string> words_in(const fs::path& path) {
  std::vector<std::string> words;
  std::istringstream text(contents_of(path));
  for (std::string word; std::getline(text, word, '\0');) words.push_back(word);
  return words;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string after(const std::vector<std::string>& words, const std::string& flag) {
  const auto at = std::find(words.begin(), words.end(), flag);
  return at == words.end() || at + 1 == words.end() ? "" : at[1];
}

/// A node with Slurm and a training that do nothing but record. `HOW` says how the training ends.
struct Node {
  Folder folder{};
  fs::path here = fs::current_path();

  Node() {
    program("srun",
            "record srun \"$@\"\nwhile [[ $1 == --* ]]; do shift; done\n"
            "SLURM_PROCID=3 SLURM_LOCALID=3 SLURM_NTASKS=16 SLURM_NODEID=0 exec \"$@\"\n");
    program("scontrol", "if [[ $1 == show ]]; then echo node0; else record scontrol \"$@\"; fi\n");
    // Slow, so that the training may have ended before the script waits for it again.
    program("scancel", "record scancel \"$@\"\nsleep 0.3\n");
    program("nvidia-smi", "echo 00000000:FF:1F.7\n");
    program("numactl", "record numactl \"$@\"\nwhile [[ $1 == --* ]]; do shift; done\nexec \"$@\"\n");
    program("check plan", "record check \"$@\"\nexit \"${CHECK:-0}\"\n");
    const std::string training =
        "record training \"$@\"\nenv -0 > \"$NODE/environment\"\npwd > \"$NODE/folder\"\n"
        "case ${HOW:-} in\nfail) exit 3 ;;\n"
        "late) kill -USR1 \"$BATCH\"; for ((i = 0; i < 200; i++)); do [[ -e $NODE/scancel ]] && exit 0; sleep 0.05; "
        "done; "
        "exit 4 ;;\nesac\n";
    for (const char* name : {"python3", "torchrun", "accelerate"}) program(name, training);
  }

  void program(const std::string& name, const std::string& body) const {
    fs::create_directories("bin");
    std::ofstream("bin/" + name) << "#!/bin/bash\nrecord() { printf '%s\\0' \"${@:2}\" > \"$NODE/$1\"; }\n" << body;
    fs::permissions("bin/" + name, fs::perms::owner_all);
  }

  /// Exit status of a script.
  int start(const std::string& script, const std::string& variables = "") const {
    for (const char* name : {"srun", "scontrol", "scancel", "numactl", "training", "check", "environment"})
      fs::remove(name);
    const std::string command = "cd / && export NODE='" + here.string() + "' PATH='" + here.string() +
                                "/bin':\"$PATH\" SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n SLURM_NNODES=2 BATCH=$$ " +
                                "MEGATRON_PATH=/m BRIDGE_PATH=/b " + variables + "; exec bash '" +
                                (here / script).string() + "' > /dev/null 2>&1";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  std::map<std::string, std::string> environment() const {
    std::map<std::string, std::string> out;
    for (const std::string& word : words_in(here / "environment"))
      out[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
    return out;
  }
};

std::string quoted(const std::string& word) { return Json(word).dump(); }

Ran emit(const std::string& framework, const std::string& launcher, std::vector<std::string> more = {}) {
  std::vector<std::string> words = {"emit",
                                    framework,
                                    "-o",
                                    "run",
                                    "--force",
                                    "--model",
                                    "8b",
                                    "--gpus",
                                    "16",
                                    "--site",
                                    "site.yaml",
                                    "--layout",
                                    framework == "maxtext" ? "tp8" : "pp1"};
  if (!launcher.empty()) words.insert(words.end(), {"--launcher", launcher});
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

std::string script_in(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".sbatch" || entry.path().extension() == ".sh")
      return (fs::path(folder) / entry.path().filename()).string();
  return "";
}

std::string all_of(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename().string()] = contents_of(entry.path());
  std::string out;
  for (const auto& [name, text] : files) out += name + "\n" + text;
  return out;
}

}  // namespace

TEST_CASE("hostile words of a site reach Slurm, the variables and the training byte for byte") {
  const Node node;
  const std::string kNasty[] = {"it's",
                                "a b",
                                "$(touch pwned) `touch pwned`",
                                "\"; touch pwned; \"",
                                "back\\slash\\",
                                "# none",
                                "-rf /",
                                "{{ y }} %{x}",
                                "!!python",
                                "\xc3\xa9*?[a-z]",
                                "null",
                                "${HOME}",
                                "a;b&c|d>e"};
  for (const std::string& word : kNasty) {
    CAPTURE(word);
    const std::string with_newline = word + "\n\ttouch pwned";
    node.folder.write("site.yaml", "work_dir: " + node.here.string() + "\ncheckpoints: " + quoted("/" + word) +
                                       "\nlogs: " + quoted(word == kNasty[7] ? "l" : "logs " + word) +
                                       "\npreflight: 'check plan'\ncontainer:\n  image: " + quoted(word) +
                                       "\n  mounts: [" + quoted("/:/") + "]\nenvironment:\n  NCCL_IB_HCA: " +
                                       quoted(with_newline) + "\nbinding: {numa: true, cpus_per_gpu: 6}\n");
    std::vector<std::string> more = {"--data-path", word};
    if (word.front() == '-') more = {};
    const Ran ran = emit("megatron-lm", "slurm", more);
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    // The training's own folder is not made here: the script's `mkdir` of a path under / may fail, and says so.
    node.program("mkdir", "record mkdir \"$@\"\n");
    CHECK(node.start(script_in("run")) == 0);
    const std::vector<std::string> words = words_in("training"), srun = words_in("srun");
    CHECK(after(words, "--save") == "/" + word);
    CHECK(after(words, "--load") == "/" + word);
    if (!more.empty()) CHECK(after(words, "--data-path") == word);
    CHECK(words.at(0) == "-u");
    CHECK(words.at(1) == "/m/pretrain_gpt.py");
    CHECK(contains(srun, "--container-image=" + word));
    CHECK(contains(srun, "--container-mounts=/:/"));
    CHECK(contains(srun, "--cpus-per-task=6"));
    CHECK(words_in("mkdir").back() == "/" + word);
    CHECK(words_in("check") == std::vector<std::string>{"probe", "--check"});
    const auto environment = node.environment();
    CHECK(environment.at("NCCL_IB_HCA") == with_newline);
    CHECK(environment.at("RANK") == "3");
    CHECK(environment.at("LOCAL_RANK") == "3");
    CHECK(environment.at("WORLD_SIZE") == "16");
    CHECK(environment.at("MASTER_ADDR") == "node0");
    CHECK(words_in("numactl").at(0) == "--cpunodebind=0");  // no such GPU here: the only node of memory
    CHECK(contents_of("folder") == node.here.string() + "\n");
    for (const auto& entry : fs::recursive_directory_iterator(node.here)) CHECK(entry.path().filename() != "pwned");
    CHECK_FALSE(fs::exists("/pwned"));
  }
}

TEST_CASE("a job of a site goes on after a failure and a time limit, and nowhere else") {
  const Node node;
  node.folder.write("site.yaml", "work_dir: " + node.here.string() + "\npreflight: check plan\nslurm: {requeue: 2}\n");
  for (const std::string framework :
       {"megatron-lm", "torchtitan", "deepspeed", "accelerate", "maxtext", "megatron-bridge", "axolotl"}) {
    CAPTURE(framework);
    fs::remove_all("run");
    const Ran ran = emit(framework, "slurm");
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    const std::string script = script_in("run");
    CHECK(node.start(script) == 0);
    CHECK(fs::exists("training"));
    CHECK(contains(words_in("srun"), "--output=" + node.here.string() + "/logs/%x-%j-%t.log"));
    CHECK_FALSE(fs::exists("scontrol"));
    CHECK_FALSE(fs::exists("scancel"));
    CHECK(node.start(script, "HOW=fail") == 3);
    CHECK(words_in("scontrol") == std::vector<std::string>{"requeue", "7"});
    CHECK(node.start(script, "HOW=fail SLURM_RESTART_COUNT=1") == 3);
    CHECK(fs::exists("scontrol"));
    CHECK(node.start(script, "HOW=fail SLURM_RESTART_COUNT=2") == 3);
    CHECK_FALSE(fs::exists("scontrol"));
    CHECK(node.start(script, "HOW=late") == 0);
    CHECK(words_in("scancel") == std::vector<std::string>{"--signal=TERM", "7"});
    CHECK(words_in("scontrol") == std::vector<std::string>{"requeue", "7"});
    CHECK(node.start(script, "CHECK=1") == 1);  // a node is not fit
    CHECK_FALSE(fs::exists("training"));
    CHECK_FALSE(fs::exists("scontrol"));
  }
}

TEST_CASE("no word of a site file is passed over, whatever the launcher") {
  const Folder folder;
  const std::string kRows[] = {"checkpoints: /other/place",
                               "logs: /other/logs",
                               "setup: ['module load x']",
                               "preflight: /p/plan",
                               "slurm: {partition: p}",
                               "slurm: {account: p}",
                               "slurm: {qos: p}",
                               "slurm: {reservation: p}",
                               "slurm: {constraint: p}",
                               "slurm: {exclude: p}",
                               "slurm: {time: '2-00:30:00'}",
                               "slurm: {requeue: 3}",
                               "slurm: {requeue: 0}",
                               "container: {image: i}",
                               "container: {mounts: ['/a:/b'], image: i}",
                               "environment: {NCCL_NVLS_ENABLE: 1}",
                               "environment: {TORCH_NCCL_AVOID_RECORD_STREAMS: 0}",
                               "environment: {CUDA_DEVICE_MAX_CONNECTIONS: 2}",
                               "environment: {MASTER_ADDR: x}",
                               "binding: {cpus_per_gpu: 3}",
                               "binding: {numa: true}",
                               "failures: {gpu_mtbf: 100 h}",
                               "failures: {storage: 100 MB/s}"};
  int written = 0, refused = 0;
  for (const std::string framework : {"megatron-lm", "torchtitan", "deepspeed", "accelerate", "maxtext", "axolotl"})
    for (const std::string launcher : {"slurm", "torchrun", "k8s", "skypilot", "hostfile"}) {
      const std::string base = launcher == "k8s" ? "checkpoints: /c\n" : "work_dir: /w\n";
      folder.write("site.yaml", base);
      fs::remove_all("run");
      if (emit(framework, launcher).status != 0) continue;  // the framework has no such launcher
      const std::string plain = all_of("run");
      for (const std::string& row : kRows) {
        CAPTURE(framework);
        CAPTURE(launcher);
        CAPTURE(row);
        folder.write("site.yaml", (row.starts_with("checkpoints") && launcher == "k8s" ? "" : base) + row + "\n");
        fs::remove_all("run");
        const Ran ran = emit(framework, launcher);
        if (ran.status == 0)
          CHECK(all_of("run") != plain);
        else
          CHECK_MESSAGE((ran.status == 2 && !fs::exists("run")), ran.err);
        ++(ran.status == 0 ? written : refused);
      }
    }
  CHECK(written > 150);
  CHECK(refused > 50);
}

TEST_CASE("a task has the cores of all GPUs that it starts ranks on") {
  const Folder folder;
  folder.write("site.yaml", "work_dir: /w\nbinding: {cpus_per_gpu: 6}\n");
  int alone = 0, together = 0;
  for (const char* framework : {"megatron-lm", "torchtitan", "accelerate"}) {
    CAPTURE(std::string(framework));
    REQUIRE(emit(framework, "slurm").status == 0);
    const std::string text = all_of("run");
    const bool one = text.find("--ntasks-per-node=1\n") != std::string::npos;
    CHECK(text.find(one ? "#SBATCH --cpus-per-task=48\n" : "#SBATCH --cpus-per-task=6\n") != std::string::npos);
    ++(one ? together : alone);
    fs::remove_all("run");
  }
  CHECK(together > 0);
  CHECK(alone + together == 3);
}

TEST_CASE("a site file is refused by the word that is wrong") {
  const Folder folder;
  const std::pair<const char*, const char*> kWrong[] = {
      {"work_dir: run\n", "work_dir"},
      {"work_dir: '/a b'\n", "work_dir"},
      {"work_dir: /w\npartition: p\n", "partition"},
      {"work_dir: /w\nslurm: {partion: p}\n", "partition"},
      {"work_dir: /w\nslurm: {partition: \"p\\n#SBATCH --comment=x\"}\n", "slurm.partition"},
      {"work_dir: /w\nslurm: {account: '--wrap=x'}\n", "slurm.account"},
      {"work_dir: /w\nslurm: {time: 1 day}\n", "slurm.time"},
      {"work_dir: /w\nslurm: {time: '00:05:00'}\n", "slurm.time"},
      {"work_dir: /w\nslurm: {requeue: -1}\n", "slurm.requeue"},
      {"work_dir: /w\nlogs: /l/%j\n", "logs"},
      {"work_dir: /w\ncontainer: {mounts: [lustre]}\n", "mount"},
      {"work_dir: /w\ncontainer: {mounts: ['/a:/b,/c:/d']}\n", "mount"},
      {"work_dir: /w\nenvironment: {'A-B': 1}\n", "A-B"},
      {"work_dir: /w\nenvironment: {A: [1, 2]}\n", "`A`"},
      {"work_dir: /w\nbinding: {numa: 3}\n", "numa"},
      {"work_dir: /w\nfailures: {storage: 3}\n", "storage"},
      {"work_dir: /w\ncheckpoints: /c\ncontainer: {image: i, mounts: ['/x:/y']}\n", "/c"},
      {"checkpoints: c\n", "checkpoints"},
      {"logs: /l\n", "work_dir"},
      {"work_dir: /w\nwork_dir: /v\n", "work_dir"}};
  for (const auto& row : kWrong) {
    const std::string text = row.first, named = row.second;
    CAPTURE(text);
    folder.write("site.yaml", text);
    const Ran ran = emit("megatron-lm", "");
    CHECK(ran.status == 2);
    CHECK_MESSAGE(ran.err.find(named) != std::string::npos, ran.err);
    CHECK_FALSE(fs::exists("run"));
  }
  folder.write("site.yaml", "logs: logs\ncheckpoints: ckpt\n");
  const Ran both = emit("megatron-lm", "");
  CHECK(both.err.find("write `work_dir: ") != std::string::npos);
  CHECK(both.err.find("errors in") == std::string::npos);  // they want the same folder
  folder.write("site.yaml", "work_dir: /w\n");
  for (const char* framework : {"verl", "nemo-rl", "ms-swift", "llama-factory"}) {
    const Ran ran = emit(framework, "");
    CHECK(ran.status == 2);
    CHECK_MESSAGE(ran.err.find("--site") != std::string::npos, ran.err);
  }
}

TEST_CASE("checkpoints lie where the time lost is least") {
  // Expected wall time for a second of progress: segments of the interval and a checkpoint, each started again after an
  // interruption (Daly 2006, equation 13), looked for on a fine grid.
  const Folder folder;
  for (const char* storage : {"1 GB/s", "20 GB/s", "400 GB/s"})
    for (const char* mtbf : {"500 h", "50000 h"})
      for (const char* limit : {"4:00:00", "48:00:00"}) {
        CAPTURE(std::string(storage));
        CAPTURE(std::string(mtbf));
        CAPTURE(std::string(limit));
        folder.write("site.yaml", std::string("work_dir: /w\nslurm: {time: '") + limit +
                                      "'}\nfailures: {storage: " + storage + ", gpu_mtbf: " + mtbf + "}\n");
        fs::remove_all("run");
        REQUIRE(emit("megatron-lm", "").status == 0);
        std::istringstream script(contents_of(script_in("run")));
        std::vector<std::string> words;
        for (std::string word; script >> word;) words.push_back(word);
        const double every = std::stod(after(words, "--save-interval"));
        const Json plan = run_json({"estimate", "--from", script_in("run"), "--gpu-mtbf", mtbf, "--storage", storage});
        const double step = plan["best"]["step_time_s"];
        const double bytes = 8.03e9 * 14, rate = std::stod(storage) * 1e9, save = bytes / rate;
        const double hours = limit[0] == '4' && limit[1] == ':' ? 4 : 48;
        const double mtti = 1 / (16 / (std::stod(mtbf) * 3600) + 1 / (hours * 3600));
        const auto lost = [&](double interval) { return std::expm1((interval + save) / mtti) / interval; };
        double least = 1e300;
        for (double interval = step; interval < 10 * mtti; interval *= 1.01) least = std::min(least, lost(interval));
        CHECK(lost(every * step) / least - 1 < 0.002);
      }
}

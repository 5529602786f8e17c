// Commands of our own are captured for real: what is recorded is compared with the words that were written here, and
// what is read from the record with what was meant.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "cli/launch/capture/capture.hpp"
#include "cli/launch/launch.hpp"
#include "cli/launch/start/launcher.hpp"
#include "temporary_folder.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

/// A folder of its own as the current one.
class WorkIn {
 public:
  WorkIn() : before_(fs::current_path()) { fs::current_path(folder.path()); }
  ~WorkIn() { fs::current_path(before_); }
  WorkIn(const WorkIn&) = delete;
  WorkIn& operator=(const WorkIn&) = delete;
  TemporaryFolder folder{};

  Capture capture(const std::vector<std::string>& command) const {
    const Result<Capture> done = capture_command(command, 20);
    REQUIRE_MESSAGE(done, (done ? "" : done.error().front().message));
    return *done;
  }
  LaunchJob job(const std::vector<std::string>& command) const { return read(capture(command)); }
  /// What a framework's own parser made of the words, which starts no training.
  LaunchJob resolved(const std::vector<std::string>& command) const {
    const Result<Capture> done = capture_command(command, 30, true);
    REQUIRE(done);
    REQUIRE(done->calls.size() == 1);
    CHECK(done->notes.empty());
    CHECK_FALSE(fs::exists("trained"));
    return read(*done);
  }

 private:
  LaunchJob read(const Capture& done) const {
    const Result<LaunchJob> job = read_launch_files({folder.write("job.json", capture_json(done))});
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    return *job;
  }

  fs::path before_;
};

const std::string kModel =
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 "
    "--eval-interval 100 --train-iters 100 --bf16 --vocab-size 32000 --tokenizer-type NullTokenizer";

}  // namespace

TEST_CASE("words of any bytes are recorded as they are") {
  const WorkIn here;
  std::mt19937 random(7);
  const std::string alphabet = "ab$`'\"\\ \t*?[]{}()<>|&;#~!=%^-\xc3\xa4";
  for (int round = 0; round < 12; ++round) {
    std::vector<std::string> words{"deepspeed"};
    for (int i = 0; i < 6; ++i) {
      std::string word = "w";
      for (int k = 0; k < 12; ++k) {
        const std::size_t at = random() % (alphabet.size() - 2);
        word += alphabet[at];
      }
      words.push_back(word + "\xc3\xa4");
    }
    std::string script = "#!/bin/bash\n";
    for (const std::string& word : words) script += shell_quoted(word) + " ";
    here.folder.write("run.sh", script + "\n");
    const Capture capture = here.capture({"bash", "run.sh"});
    REQUIRE(capture.calls.size() == 1);
    CHECK(capture.calls.front().words == words);
  }
}

TEST_CASE("a job is read from what a script computes, sources and is given") {
  const WorkIn here;
  here.folder.write("conf.sh", "TP=$(python3 -c 'print(2 * 2)')\n");
  here.folder.write("run.sh",
                    "#!/bin/bash\nsource \"$(dirname \"$0\")/conf.sh\"\nNODES=$1\nMBS=$(cat mbs.txt)\n"
                    "ARGS=$(printf -- '--micro-batch-size %s' \"$MBS\")\nexport CUDA_DEVICE_MAX_CONNECTIONS=1\n"
                    "torchrun --nnodes $NODES --nproc_per_node 8 anything.py " +
                        kModel + " $ARGS --global-batch-size $((64 * NODES)) --tensor-model-parallel-size $TP\n");
  here.folder.write("mbs.txt", "2\n");
  const LaunchJob job = here.job({"bash", "run.sh", "4"});
  CHECK(job.gpus == 32);
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.micro_batch == 2);
  CHECK(job.training->global_batch == 256);
  CHECK(job.model->layers.size() == 32);
}

TEST_CASE("places in a record are the lines of its words") {
  const WorkIn here;
  here.folder.write("run.sh", "torchrun --nproc_per_node 8 anything.py " + kModel +
                                  " --micro-batch-size 2 --tensor-model-parallel-size 2\n");
  const std::string text = capture_json(here.capture({"bash", "run.sh"}));
  const Result<LaunchJob> job = read_launch_files({here.folder.write("job.json", text)});
  REQUIRE(job);
  const auto input = std::find_if(job->inputs.begin(), job->inputs.end(), [](const Input& i) { return i.key == "tp"; });
  REQUIRE(input != job->inputs.end());
  const int line = std::stoi(input->where.substr(input->where.rfind(':') + 1));
  std::size_t at = 0;
  for (int i = 1; i < line; ++i) at = text.find('\n', at) + 1;
  const std::string shown = text.substr(at, text.find('\n', at) - at);
  const bool flag_or_value =
      shown.find("tensor-model-parallel-size") != std::string::npos || shown.find("\"2\"") != std::string::npos;
  CHECK_MESSAGE(flag_or_value, shown);
}

TEST_CASE("batch systems run the script, and their nodes count") {
  const WorkIn here;
  const std::string body =
      "srun --ntasks-per-node=1 bash -c 'torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 x.py " + kModel +
      " --micro-batch-size 1'\n";
  here.folder.write("job.sbatch", "#!/bin/bash\n#SBATCH --nodes=2   # two\n#SBATCH -J name\n" + body);
  CHECK(here.job({"sbatch", "job.sbatch"}).gpus == 16);
  CHECK(here.job({"bash", "job.sbatch"}).gpus == 16);
  CHECK(here.job({"sbatch", "--nodes", "6", "-p", "gpu", "job.sbatch"}).gpus == 48);
  CHECK(here.job({"sbatch", "-N3", "job.sbatch"}).gpus == 24);
  here.folder.write("mpi.sh",
                    "mpirun -np 16 --map-by ppr:8:node -x NCCL_DEBUG=INFO python x.py " + kModel +
                        " --micro-batch-size 1 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2\n");
  CHECK(here.job({"bash", "mpi.sh"}).gpus == 16);
  here.folder.write("helper.sh", "head=$(srun --nodes=1 --ntasks=1 hostname)\n" + body);
  CHECK(here.job({"sbatch", "--nodes=2", "helper.sh"}).gpus == 16);
}

TEST_CASE("configuration files come with the record, and files that they name") {
  const WorkIn here;
  here.folder.write(
      "conf/train.yaml",
      "model_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 8\n"
      "per_device_train_batch_size: 3\ngradient_accumulation_steps: 2\ncutoff_len: 2048\nbf16: true\n"
      "deepspeed: conf/ds.json\n");
  here.folder.write("conf/ds.json", "{\"zero_optimization\": {\"stage\": 2}, \"bf16\": {\"enabled\": \"auto\"}}");
  here.folder.write("run.sh", "NPROC_PER_NODE=4 NNODES=1 llamafactory-cli train conf/train.yaml\n");
  const std::string record = here.folder.write("job.json", capture_json(here.capture({"bash", "run.sh"})));
  fs::remove_all("conf");
  const Result<LaunchJob> job = read_launch_files({record});
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK(job->fixed.micro_batch == 3);
  CHECK(job->fixed.zero == 2);
  CHECK(job->training->task == Task::Lora);
}

TEST_CASE("what a command creates goes away, and what it removes stays") {
  const WorkIn here;
  here.folder.write("keep.txt", "kept\n");
  here.folder.write("run.sh", "rm -rf keep.txt *\nmkdir -p made/deep\necho x >made/deep/file\ntorchrun a.py --x 1\n");
  static_cast<void>(here.capture({"bash", "run.sh"}));
  CHECK(fs::exists("keep.txt"));
  CHECK_FALSE(fs::exists("made"));
}

TEST_CASE("secrets are not recorded") {
  const WorkIn here;
  here.folder.write("run.sh", "export HF_TOKEN=hf_xyz WANDB_API_KEY=abc NCCL_DEBUG=WARN MINE=1\ntorchrun a.py --x 1\n");
  const std::string text = capture_json(here.capture({"bash", "run.sh"}));
  CHECK(text.find("hf_xyz") == std::string::npos);
  CHECK(text.find("WANDB_API_KEY") == std::string::npos);
  CHECK(text.find("\"NCCL_DEBUG\": \"WARN\"") != std::string::npos);
  CHECK(text.find("\"MINE\": \"1\"") != std::string::npos);
}

TEST_CASE("commands that start nothing, do not end or are none are errors") {
  const WorkIn here;
  here.folder.write("nothing.sh", "echo hello there\n");
  const Result<Capture> nothing = capture_command({"bash", "nothing.sh"}, 20);
  REQUIRE_FALSE(nothing);
  CHECK(nothing.error().front().code == "nothing_started");
  CHECK(nothing.error().front().facts.front().find("hello there") != std::string::npos);
  here.folder.write("endless.sh", "while true; do :; done\n");
  const Result<Capture> endless = capture_command({"bash", "endless.sh"}, 0.2);
  REQUIRE_FALSE(endless);
  CHECK(endless.error().front().code == "took_too_long");
  CHECK_FALSE(capture_command({"./no-such-program"}, 5));
}

TEST_CASE("a helper without its framework is told, and strictly refused") {
  const WorkIn here;
  here.folder.write(
      "run.sh",
      "GPUS=$(python3 -c 'import torch; print(torch.cuda.device_count())')\ntorchrun --nproc_per_node 8 a.py " +
          kModel + " --micro-batch-size 1\n");
  const LaunchJob job = here.job({"bash", "run.sh"});
  REQUIRE_FALSE(job.unused.empty());
  CHECK(job.unused.front().text.find("python3 -c") != std::string::npos);
}

TEST_CASE("trainings that differ are no one job, and broken records are errors") {
  const WorkIn here;
  const std::string start = "torchrun --nproc_per_node 8 a.py " + kModel;
  here.folder.write("two.sh", start + " --micro-batch-size 1\n" + start + " --micro-batch-size 2\n");
  const std::string two = here.folder.write("two.json", capture_json(here.capture({"bash", "two.sh"})));
  const Result<LaunchJob> job = read_launch_files({two});
  REQUIRE_FALSE(job);
  CHECK(job.error().front().code == "several_trainings");
  const Result<LaunchJob> script = read_launch_files({here.folder.at("two.sh")});
  REQUIRE_FALSE(script);
  CHECK(script.error().front().code == "several_trainings");
  for (const char* text : {"{\"schema\": \"plan-capture/1\"}", "{\"schema\": \"plan-capture/2\", \"started\": []}",
                           "{\"schema\": \"plan-capture/1\", \"started\": [{\"words\": [1]}], \"files\": []}",
                           "{ \"schema\": \"plan-capture/1\", "}) {
    const Result<LaunchJob> broken = read_launch_files({here.folder.write("broken.json", text)});
    REQUIRE_FALSE(broken);
    CHECK(broken.error().front().code == "bad_capture");
  }
}

TEST_CASE("a program of hydra's prints its configuration, and that is what is read") {
  const WorkIn here;
  // Prints a configuration that its words do not hold, as a configuration store would.
  const std::string program =
      "# @hydra.main\nimport sys\nassert sys.argv[-3:] == ['--cfg', 'job', '--resolve'], 'trained'\n"
      "print('actor_rollout_ref:\\n  model: {path: Qwen/Qwen2.5-7B-Instruct, enable_gradient_checkpointing: true}\\n'\n"
      "      '  rollout: {n: 4}\\n  actor:\\n    strategy: fsdp\\n    ppo_micro_batch_size_per_gpu: 2\\n'\n"
      "      '    ppo_mini_batch_size: ' + sys.argv[1].split('=')[1] + '\\n    ulysses_sequence_parallel_size: 2\\n'\n"
      "      'data: {max_prompt_length: 1024, max_response_length: 3072}\\ntrainer: {nnodes: 2, n_gpus_per_node: "
      "8}')\n";
  here.folder.write("package/train.py", program);
  here.folder.write("run.sh", "python3 -m package.train batch=64\n");
  const Result<Capture> done = capture_command({"bash", "run.sh"}, 20, true);
  REQUIRE(done);
  REQUIRE(done->calls.size() == 1);
  CHECK(done->notes.empty());
  const Result<LaunchJob> job = read_launch_files({here.folder.write("job.json", capture_json(*done))});
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  CHECK(job->gpus == 16);
  CHECK(job->fixed.cp == 2);
  CHECK(job->fixed.cp_kind == CpKind::Ulysses);
  CHECK(job->training->seq == 4096);
  CHECK(job->training->global_batch == 256);
  // Without the flag nothing of it runs, and a program that fails is a note.
  CHECK(here.capture({"bash", "run.sh"}).calls.front().resolved.empty());
  here.folder.write("run.sh", "python3 -m package.other batch=64\n");
  const Result<Capture> missing = capture_command({"bash", "run.sh"}, 20, true);
  REQUIRE(missing);
  CHECK(missing->calls.front().resolved.empty());
  CHECK(missing->notes.size() == 1);
}

TEST_CASE("a program of transformers' ends at its parser, and what that came to is read") {
  const WorkIn here;
  // A parser as transformers has it, in a package of our own: words over a file over defaults.
  here.folder.write("transformers.py", "import argparse\nclass HfArgumentParser(argparse.ArgumentParser):\n  pass\n");
  here.folder.write("train.py",
                    "from transformers import HfArgumentParser\np = HfArgumentParser()\n"
                    "p.add_argument('--model_name_or_path')\n"
                    "p.add_argument('--per_device_train_batch_size', type=int, default=8)\n"
                    "p.add_argument('--gradient_accumulation_steps', type=int, default=3)\n"
                    "p.add_argument('--max_seq_length', type=int, default=1536)\n"
                    "p.add_argument('--bf16', type=bool, default=True)\n"
                    "p.parse_known_args()\nopen('trained', 'w')\nraise SystemExit('trained')\n");
  const std::vector<std::string> command = {"torchrun",
                                            "--nnodes=1",
                                            "--nproc_per_node=8",
                                            "train.py",
                                            "--model_name_or_path",
                                            "meta-llama/Meta-Llama-3-8B",
                                            "--per_device_train_batch_size=2"};
  const LaunchJob job = here.resolved(command);
  CHECK(job.gpus == 8);
  CHECK(job.fixed.micro_batch == 2);
  CHECK(job.training->global_batch == 2 * 3 * 8);
  CHECK(job.training->seq == 1536);
  CHECK(job.training->precision == Precision::Bf16);
  CHECK(here.capture(command).calls.front().words.size() == command.size());
  here.folder.write("transformers.py", "raise ImportError('none')\n");
  const Result<Capture> missing = capture_command(command, 30, true);
  REQUIRE(missing);
  CHECK(missing->calls.front().words.size() == command.size());
  CHECK(missing->notes.size() == 1);
}

TEST_CASE("torchtitan's own parser says what file, words and defaults come to") {
  const WorkIn here;
  // A manager as torchtitan has it, in a package of our own: words over a file over defaults.
  here.folder.write("torchtitan/__init__.py", "");
  here.folder.write("torchtitan/train.py",
                    "from torchtitan.config import ConfigManager\nopen('trained', 'w')\nraise SystemExit('trained')\n");
  here.folder.write("torchtitan/config.py",
                    "import tomllib\nfrom dataclasses import dataclass, field\n@dataclass\nclass Model:\n"
                    "  name: str = 'llama3'\n  flavor: str = 'debugmodel'\n  converters: list = field(default_factory="
                    "list)\n@dataclass\nclass Training:\n  local_batch_size: int = 3\n  seq_len: int = 1024\n"
                    "@dataclass\nclass Parallelism:\n  tensor_parallel_degree: int = 1\n@dataclass\nclass Config:\n"
                    "  model: Model = field(default_factory=Model)\n"
                    "  training: Training = field(default_factory=Training)\n"
                    "  parallelism: Parallelism = field(default_factory=Parallelism)\nclass ConfigManager:\n"
                    "  def parse_args(self, words):\n    config = Config()\n"
                    "    read = tomllib.load(open(words[words.index('--job.config_file') + 1], 'rb'))\n"
                    "    for name, section in read.items():\n"
                    "      for key, value in section.items(): setattr(getattr(config, name), key, value)\n"
                    "    config.parallelism.tensor_parallel_degree = int(words[-1].split('=')[1])\n"
                    "    return config\n");
  here.folder.write("run.toml", "[model]\nflavor = \"8B\"\n[training]\nseq_len = 4096\n");
  const std::vector<std::string> command = {
      "torchrun",         "--nnodes=2",        "--nproc_per_node=8", "-m",
      "torchtitan.train", "--job.config_file", "run.toml",           "--parallelism.tensor_parallel_degree=4"};
  const LaunchJob job = here.resolved(command);
  CHECK(job.gpus == 16);
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.micro_batch == 3);
  CHECK(job.training->seq == 4096);
  CHECK(job.unused.empty());
  here.folder.write("torchtitan/config.py", "raise ImportError('none')\n");
  const Result<Capture> missing = capture_command(command, 30, true);
  REQUIRE(missing);
  CHECK(missing->calls.front().words.size() == command.size());
  CHECK(missing->notes.size() == 1);
}

}  // namespace plan

// Constructs that launch files of public repositories have, each in a small file of our own; values are worked out by
// hand.
#include <doctest/doctest.h>

#include <algorithm>

#include "cli/launch/launch.hpp"
#include "temporary_folder.hpp"

namespace plan {
namespace {

LaunchJob job_in(const TemporaryFolder& folder, const std::string& name, const std::string& text, int gpus = 0) {
  const Result<LaunchJob> job =
      read_launch_files({folder.write(name, text)}, {.model = {}, .gpus = gpus, .gpus_per_node = 8, .arguments = {}});
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  return *job;
}

std::string error_of(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  const Result<LaunchJob> job = read_launch_files({folder.write(name, text)});
  REQUIRE_FALSE(job);
  return job.error().front().code;
}

bool names_key(const std::vector<Note>& notes, const std::string& word) {
  return std::any_of(notes.begin(), notes.end(),
                     [&](const Note& note) { return note.text.find(word) != std::string::npos; });
}

std::string torchtune(const std::string& recipe, const std::string& component) {
  return "# tune run " + recipe + " --config x\nmodel:\n  _component_: torchtune.models." + component +
         "\n  lora_rank: 4\n  lora_attn_modules: ['q_proj', 'v_proj']\ntokenizer:\n  max_seq_len: 2048\n"
         "batch_size: 3\ngradient_accumulation_steps: 2\noptimizer:\n  _component_: torch.optim.AdamW\n"
         "enable_activation_checkpointing: True\ndtype: bf16\n";
}

}  // namespace

TEST_CASE("torchtune's names of models, adapters and recipes") {
  const TemporaryFolder folder;
  const std::pair<const char*, const char*> models[] = {{"llama3_1.llama3_1_8b", "llama3.1-8b"},
                                                        {"qwen2_5.qwen2_5_7b_base", "qwen2.5-7b"},
                                                        {"llama2.llama2_70b", "llama2-70b"}};
  for (const auto& [component, model] : models) {
    const LaunchJob job = job_in(folder, "full.yaml", torchtune("full_finetune_distributed", component), 8);
    REQUIRE(job.model);
    CHECK(job.model->name.find(std::string(model).substr(0, 5)) == 0);
    CHECK(job.training->task == Task::FullFinetune);
    CHECK(job.fixed.zero == 3);
    CHECK(job.fixed.micro_batch == 3);
    CHECK(job.training->global_batch == 3 * 2 * 8);
    CHECK(job.training->seq == 2048);
    CHECK(job.training->master_bytes == 0);
    CHECK(job.training->moment1_bytes == 2);
  }
  const LaunchJob one =
      job_in(folder, "one.yaml", torchtune("lora_finetune_single_device", "llama3_1.qlora_llama3_1_8b"));
  CHECK(one.training->task == Task::Qlora);
  CHECK(one.training->lora.rank == 4);
  CHECK_FALSE(one.training->lora.ffn);
  CHECK(one.gpus == 1);
  CHECK(one.fixed.zero == 0);
}

TEST_CASE("anchors and merged keys of YAML") {
  const TemporaryFolder folder;
  const LaunchJob job =
      job_in(folder, "lora.yaml",
             "base: &base\n  ignored: 1\nmodel_name_or_path: meta-llama/Llama-3.1-8B\nstage: sft\ndo_train: true\n"
             "finetuning_type: full\nper_device_train_batch_size: &size 3\ngradient_accumulation_steps: *size\n"
             "cutoff_len: 2048\nbf16: true\nmore:\n  <<: *base\n",
             8);
  CHECK(job.fixed.micro_batch == 3);
  CHECK(job.training->global_batch == 3 * 3 * 8);
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\nper_device_train_batch_size: 1\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int k = 1; k < 10; ++k) bomb += ", " + before;
    bomb += "]\n";
  }
  CHECK(error_of(folder, "bomb.yaml", bomb) == "yaml_refused");
}

TEST_CASE("MaxText's command lies over the file that it names") {
  const TemporaryFolder folder;
  folder.write("base.yml",
               "base_config: \"\"\nper_device_batch_size: 12\nmax_target_length: 2048\nremat_policy: full\n");
  const std::string start = "python3 -m maxtext.trainers.pre_train.train $PWD/base.yml model_name=llama2-7b ";
  const LaunchJob job =
      job_in(folder, "run.sh", start + "per_device_batch_size=2 max_target_length=4096 ici_fsdp_parallelism=-1\n", 8);
  CHECK(job.training->seq == 4096);
  CHECK(job.training->global_batch == 16);
  CHECK(error_of(folder, "two.sh", start + "per_device_batch_size=2\n" + start + "per_device_batch_size=4\n") ==
        "several_trainings");
  // The file's batch is where the command names none.
  CHECK(job_in(folder, "file.sh", start + "ici_fsdp_parallelism=-1\n", 8).training->global_batch == 96);
}

TEST_CASE("a list that a script counts out") {
  const TemporaryFolder folder;
  const LaunchJob job = job_in(
      folder, "moe.sh",
      "N=4\narr=()\nfor ((i=0; i<N; i++)); do\n  if (( i < 1 )); then\n    arr+=(0)\n  else\n    arr+=(1)\n  fi\ndone\n"
      "printf -v FREQ \"[%s]\" \"$(IFS=', '; echo \"${arr[*]}\")\"\n"
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 "
      "--seq-length 512 "
      "--max-position-embeddings 512 --micro-batch-size 1 --bf16 --vocab-size 32000 --num-experts 8 --moe-layer-freq "
      "$FREQ "
      "--moe-token-dispatcher-type alltoall --eval-interval 10 --swiglu\n");
  REQUIRE(job.model);
  int sparse = 0;
  for (const int kind : job.model->layers)
    sparse += static_cast<int>(job.model->kinds[static_cast<std::size_t>(kind)].ffn == Ffn::Moe);
  CHECK(sparse == 3);
}

TEST_CASE("GPT-NeoX's default tokenizer decides the vocabulary, and is told") {
  const TemporaryFolder folder;
  const LaunchJob job =
      job_in(folder, "neox.yml",
             "{\"pipe_parallel_size\": 1, \"model_parallel_size\": 2, \"num_layers\": 12, \"hidden_size\": 768,\n"
             "\"num_attention_heads\": 12, \"seq_length\": 2048, \"max_position_embeddings\": 2048,\n"
             "\"train_micro_batch_size_per_gpu\": 4, \"precision\": \"fp16\"}\n",
             8);
  REQUIRE(job.model);
  CHECK(job.model->vocab == 50257);
  CHECK(std::any_of(job.inputs.begin(), job.inputs.end(),
                    [](const Input& input) { return input.key == "tokenizer" && input.origin == Origin::Default; }));
}

TEST_CASE("axolotl's context parallelism counts under DeepSpeed, too") {
  const TemporaryFolder folder;
  folder.write("ds.json", "{\"zero_optimization\": {\"stage\": 3}, \"bf16\": {\"enabled\": true}}");
  const LaunchJob job = job_in(folder, "alst.yaml",
                               "base_model: meta-llama/Llama-3.1-8B\ndatasets:\n  - path: x\nsequence_len: 65536\n"
                               "micro_batch_size: 1\ncontext_parallel_size: 4\ndeepspeed: ds.json\nbf16: true\n",
                               8);
  CHECK(job.fixed.cp == 4);
  CHECK(job.fixed.zero == 3);
}

TEST_CASE("words beside a file that an unknown program reads are told") {
  const TemporaryFolder folder;
  folder.write("ds.json", "{\"train_batch_size\": 32, \"zero_optimization\": {\"stage\": 1}}");
  const LaunchJob job =
      job_in(folder, "run.sh",
             "deepspeed --num_nodes 1 --num_gpus 8 my_train.py --deepspeed_config ds.json --train_batch_size 64\n");
  CHECK(names_key(job.unused, "--train_batch_size"));
  const LaunchJob plain =
      job_in(folder, "plain.sh", "deepspeed --num_nodes 1 --num_gpus 8 my_train.py --deepspeed_config ds.json\n");
  CHECK_FALSE(names_key(plain.unused, "other words"));
}

TEST_CASE("a key within another object is no argument of the Trainer") {
  const TemporaryFolder folder;
  CHECK(error_of(folder, "log.json",
                 "{\"config\": {\"args\": {\"per_device_train_batch_size\": \"2\"}}, \"steps\": []}") ==
        "unknown_format");
}

TEST_CASE("two trainings of one script that differ, in tools that take flags or overrides") {
  const TemporaryFolder folder;
  const std::string swift = "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size ";
  CHECK(error_of(folder, "swift.sh", swift + "2\n" + swift + "4\n") == "several_trainings");
  CHECK(job_in(folder, "equals.sh",
               "NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size=2 "
               "--micro_batch_size=1 --global_batch_size=16 --max_length=2048\n")
            .fixed.tp == 2);
}

}  // namespace plan

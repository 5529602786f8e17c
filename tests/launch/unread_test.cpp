// What nothing reads and may weigh is told once, with its place, and in the same words whichever tool's file it is in.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

TEST_CASE("names that nothing reads are one note, with the place of the first") {
  std::vector<Note> notes;
  Unread unread;
  unread.tell(notes);
  CHECK(notes.empty());
  unread.add("a.b", "x.yaml:3");
  unread.add("c", "x.yaml:1");
  unread.tell(notes);
  unread.tell(notes, "these flags", "unknown_flag");
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].code == "not_used");
  CHECK(notes[0].text.starts_with("x.yaml:3: what these keys change is not known: `a.b`, `c`"));
  CHECK(notes[1].code == "unknown_flag");
  CHECK(notes[1].text.starts_with("x.yaml:3: what these flags change is not known: "));
}

TEST_CASE("a slip is found in the first part of two keys that differs, also where one key ends and the other goes on") {
  const auto slip = [](std::string_view key, std::string_view known) { return is_slip(key, std::array{known}); };
  CHECK(slip("trainer.nnodse", "trainer.nnodes"));
  CHECK(slip("trainer.num_nodess", "trainer.num_nodes"));
  CHECK_FALSE(slip("trainer.num_nodes.x", "trainer.num_nodes"));  // a key below it is another one
  CHECK_FALSE(slip("trainer.num_nodes", "trainer.num_nodes.x"));
  for (const char* key : {"model.size.x", "model.siz", "size", "trainer.num_nodes_per_x"})
    CHECK_FALSE(slip(key, "model.size"));
  CHECK_FALSE(slip("model.size", "model.size.x"));
  CHECK_FALSE(slip("data.min_seq_length", "data.max_seq_length"));  // words of a pair
  CHECK_FALSE(slip("optim.lr_1", "optim.lr_2"));
  CHECK_FALSE(slip("trainer.nnodes", "trainer.nnodes"));
}

TEST_CASE("a key that may weigh is told with its line and in backticks by every reader") {
  const std::pair<std::string, std::string> files[] = {
      {"o.yaml",
       "model:\n  num_layers: 4\n  hidden_size: 512\n  num_attention_heads: 8\n  seq_length: 2048\n"
       "  vocab_size: 32000\n  tensor_model_parallel_size: 2\n  moe_offload_experts: true\ndataset:\n"
       "  seq_length: 2048\ntrain:\n  micro_batch_size: 1\n  global_batch_size: 8\n"},
      {"swift.sh",
       "megatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size 2 --micro_batch_size 1 "
       "--global_batch_size 16 --max_length 4096 --moe_offload_experts true\n"},
  };
  for (const auto& file : files) {
    CAPTURE(file.first);
    const LaunchJob job = job_of(file.first, file.second, on(8));
    bool told = false;
    for (const Note& note : job.unused) {
      const std::size_t known = note.text.find(" change is not known: `"), place = note.text.find(file.first + ":");
      if (known == std::string::npos) continue;
      told = true;
      REQUIRE(place < known);
      CHECK(note.text.find_first_of("123456789", place) == place + file.first.size() + 1);
      CHECK(note.text.back() == '`');
    }
    CHECK(told);
  }
}

TEST_CASE("a degree that no reader knows is refused in every tool's file, and copies and switches are not") {
  const auto swift = [](const std::string& words) {
    return "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen3-8B --per_device_train_batch_size 1 --max_length 4096 "
           "--torch_dtype bfloat16 --gradient_accumulation_steps 1 " +
           words + "\n";
  };
  const auto torch = [](const std::string& words) {
    return "torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B --bf16 "
           "--per_device_train_batch_size 1 --max_length 4096 --gradient_accumulation_steps 1 "
           "--fsdp \"full_shard auto_wrap\" " +
           words + "\n";
  };
  for (const char* name : {"pipeline_parallel_degree", "pipe_parallel_size", "my_tensor_parallel_size",
                           "hybrid_tp_size", "ring_parallel_size", "stage_pp_degree"})
    for (const std::string& text : {swift(fmt::format("--{} 4", name)), torch(fmt::format("--{} 4", name))}) {
      CAPTURE(text);
      const Result<LaunchJob> job = Files().read("train.sh", text, on(8));
      REQUIRE_FALSE(job.has_value());
      CHECK(job.error().front().code == "degree_not_read");
      CHECK(job.error().front().message.find(fmt::format("`{}`", name)) != std::string::npos);
    }
  for (const char* words : {"--pipeline_parallel_degree 1", "--data_parallel_size 8", "--vllm_tensor_parallel_size 2",
                            "--tokenizers_parallelism 4", "--eval_parallel_size 4"})
    CHECK(Files().read("train.sh", torch(words), on(8)).has_value());
}

TEST_CASE("degrees of verl's engines are refused where that engine trains, and say nothing where another does") {
  for (const char* engine : {"torchtitan", "automodel", "mindspeed"})
    for (const char* trains : {"fsdp", "fsdp2", engine}) {
      const Result<LaunchJob> job = Files().read(
          "s.sh",
          fmt::format("python3 -m verl.trainer.main_ppo algorithm.adv_estimator=grpo data.train_batch_size=16 "
                      "data.max_prompt_length=512 data.max_response_length=512 "
                      "actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct actor_rollout_ref.actor.strategy={} "
                      "actor_rollout_ref.actor.ppo_mini_batch_size=16 "
                      "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 "
                      "actor_rollout_ref.actor.{}.tensor_parallel_size=4 trainer.n_gpus_per_node=8 trainer.nnodes=1\n",
                      trains, engine));
      CAPTURE(std::string(engine));
      CAPTURE(std::string(trains));
      CHECK(job.has_value() == (std::string(trains) != engine));
      if (!job) CHECK(job.error().front().code == "degree_not_read");
    }
}

TEST_CASE("ranks that share a sequence are read by each tool's name for them") {
  for (const char* name : {"sequence_parallel_size", "seq_parallel_size"}) {
    const LaunchJob job =
        job_of("train.sh",
               fmt::format("torchrun --nproc_per_node 8 -m training.train_language_model --model_name "
                           "meta-llama/Meta-Llama-3-8B --bf16 --per_device_train_batch_size 1 "
                           "--gradient_accumulation_steps 16 --fsdp auto_wrap "
                           "--per_device_max_tokens 65536 --{} 4\n",
                           name),
               on(8));
    CAPTURE(std::string(name));
    CHECK(job.fixed.cp == 4);
    CHECK(job.fixed.cp_kind == CpKind::Ulysses);
    CHECK(job.framework == Framework::Any);  // accelerate itself lacks it
    CHECK(job.fixed.dp == 2);
    CHECK(job.training.value().seq == 65536);
    CHECK(job.training.value().global_batch == 32);
  }
}

TEST_CASE("an argument of the Trainer's with two letters in the other order is named, whatever it is") {
  const std::string known[] = {"per_device_train_batch_size",
                               "gradient_accumulation_steps",
                               "optim",
                               "max_seq_length",
                               "gradient_checkpointing",
                               "bf16",
                               "lora_rank"};
  for (const std::string& word : known)
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      if (word[i] == word[i + 1] || word.size() < 5) continue;
      std::string slip = word;
      std::swap(slip[i], slip[i + 1]);
      const std::string text =
          "model_name_or_path: Qwen/Qwen2.5-7B\nper_device_train_batch_size: 2\nmax_seq_length: 2048\nbf16: true\n" +
          slip + ": 7\n";
      CAPTURE(text);
      const Files files;
      const Result<LaunchJob> job = files.read("a.yaml", text, on(8));
      if (job) CHECK(names(job->unused, slip));
    }
}

TEST_CASE("a length that nothing reads is told where no other states the sequence, and experts always are") {
  const std::string command =
      "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --bf16 "
      "--per_device_train_batch_size 2 ";
  for (const char* key : {"response_max_length", "prompt_max_length", "answer-max-len", "doc_length", "max_tokens"}) {
    CAPTURE(key);
    const std::string words = fmt::format("--{} 1792 ", key), name = with_underscores(key);
    CHECK(names(job_of("run.sh", command + words).unused, name));
    CHECK(job_of("run.sh", command + words + "--max_length 512").training->seq == 512);
  }
  for (const char* key : {"length_penalty", "group_by_length", "eval_max_length"})
    CHECK_FALSE(names(job_of("run.sh", command + fmt::format("--{} 2 ", key)).unused, key));
  for (const char* key : {"use_moe", "enable_deepspeed_moe", "moe", "ssm_layers", "use_mamba"}) {
    CHECK(names(job_of("run.sh", command + fmt::format("--max_length 512 --{} True", key)).unused, key));
    CHECK_FALSE(names(job_of("run.sh", command + fmt::format("--max_length 512 --{} False", key)).unused, key));
  }
  CHECK_FALSE(names(job_of("run.sh", command + "--max_length 512 --lr 5e-6").unused, "`lr`"));
}

TEST_CASE("a program's own key for the optimizer is read, and a word that is none of its own is told") {
  const std::string command =
      "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --bf16 "
      "--per_device_train_batch_size 2 --max_length 512 ";
  for (const char* key : {"optimizer", "optimizer_type", "optimizer-name"}) {
    CAPTURE(key);
    const auto of = [&](const char* word) { return job_of("run.sh", fmt::format("{}--{} {}", command, key, word)); };
    CHECK(of("AdaFactor").training->optimizer == Optimizer::Adafactor);
    CHECK(of("sgd").training->optimizer == Optimizer::Sgd);
    CHECK(of("adamw").training->optimizer == Optimizer::Adam);
    CHECK_FALSE(names(of("adamw").unused, "optimizer"));
    CHECK(names(of("adam_mini").unused, "the optimizer `adam_mini`"));
    CHECK(names(of("lion --optim adamw_torch").unused, "lion") == false);
  }
}

TEST_CASE("a misspelt key of a tool's is not read by its sound") {
  const std::string file =
      "model_name_or_path: Qwen/Qwen2.5-7B\nstage: sft\ncutoff_len: 1024\nbf16: true\n"
      "per_device_train_batch_size: 1\n";
  const LaunchJob full = job_of("a.yaml", file + "finetuning_type: full\n", on(8));
  CHECK(full.training->task == Task::FullFinetune);
  const LaunchJob slip = job_of("a.yaml", file + "finetunnig_type: full\n", on(8));
  CHECK(slip.training->task == Task::Lora);  // LLaMA-Factory's default
  CHECK(names(slip.unused, "finetunnig_type"));
}

TEST_CASE("an axis of ranks is a degree, and a size of something else behind it is none") {
  for (const std::string axis : {"tensor_parallel", "tensor-model-parallel", "context_parallel", "my_pipeline_parallel",
                                 "ulysses", "ring_attn", "args.sequence_parallel"}) {
    for (const char* ending : {"_size", "-degree", "_world_size", "_group_size"}) {
      const std::string key = axis + ending;
      CAPTURE(key);
      CHECK(states_degree(key, "4"));
      CHECK_FALSE(states_degree(key, "1"));
    }
    for (const char* other : {"_chunk_size", "_fpdt_chunk_size", "_bucket_size", "_buffer_size", "_split_dim",
                              "_output_dim", "_block_size", "_data_loading_size"}) {
      const std::string key = axis + other;
      CAPTURE(key);
      CHECK_FALSE(states_degree(key, "4"));
    }
  }
  for (const char* key : {"context_parallelism", "model.tensor_parallel", "data_parallel_shard_degree", "my_tp_size"})
    CHECK(states_degree(key, "4"));
}

TEST_CASE("a number of samples is no length of sequences, and trainers that rank answers say so") {
  const Files files;
  const auto told = [&](const std::string& words) {
    const std::string text = fmt::format(
        "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 1 "
        "--bf16 True {}\n",
        words);
    CAPTURE(text);
    const Result<LaunchJob> job = files.read("run.sh", text);
    REQUIRE(job);
    return job->unused;
  };
  for (const char* key : {"data_length", "train_data_len", "epoch_length", "vocab_length", "prefix_length"})
    for (const char* length : {"", " --max_length 512"})
      CHECK_FALSE(names(told(fmt::format("--{} 5000{}", key, length)), fmt::format("`{}`", key)));
  for (const char* key : {"max_data_length", "doc_length"})
    CHECK(names(told(fmt::format("--{} 5000", key)), fmt::format("`{}`", key)));
  constexpr const char* kSeveral = "several answers to each prompt";
  for (const char* words : {"--rrhf_weight 1", "--num_candidates 4", "--n_responses 2", "--answers_per_prompt 6",
                            "--use_ranking_loss True"})
    CHECK(names(told(words), kSeveral));
  for (const char* words : {"", "--rrhf_weight 0", "--num_candidates 1", "--num_eval_responses 4",
                            "--use_ranking_loss False", "--max_response_length 512"})
    CHECK_FALSE(names(told(words), kSeveral));
}

TEST_CASE("Adam under a class's name is Adam, and other rules are told") {
  const auto job = [&](const char* word) {
    return job_of("run.sh", fmt::format("torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-7B "
                                        "--per_device_train_batch_size 1 --bf16 True --max_length 512 --optimizer {}\n",
                                        word));
  };
  for (const char* word : {"torch.optim.AdamW", "FusedAdam", "adam_w", "fused_adamw", "deepspeed_cpu_adam", "adamw",
                           "apex.optimizers.FusedAdam", "adamw_32bit", "adamw_torch_npu_fused"}) {
    CAPTURE(word);
    CHECK_FALSE(names(job(word).unused, "counted as adam"));
    CHECK(job(word).training->optimizer == Optimizer::Adam);
  }
  for (const char* word :
       {"adamw_mini", "paged_adamw_32bit", "lion", "soap", "adamw-4bit", "came", "adamax", "nadam", "radam"}) {
    CAPTURE(word);
    CHECK(names(job(word).unused, "counted as adam"));
  }
}

}  // namespace plan

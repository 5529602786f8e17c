// Arguments of the Trainer and of its front ends that change what is trained, kept or computed: read, or named in the
// first lines, in the words of each tool.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

struct Tool {
  std::string file, text;
};

const Tool kAxolotl{"axolotl.yaml",
                    "base_model: meta-llama/Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
                    "gradient_accumulation_steps: 2\noptimizer: adamw_torch\nbf16: true\n"};
const Tool kFactory{"factory.yaml",
                    "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\nfinetuning_type: full\n"
                    "template: llama3\ndataset: x\ncutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\n"};
const Tool kTorchtune{"tune.yaml",
                      "tokenizer:\n  _component_: torchtune.models.llama3.llama3_tokenizer\n  max_seq_len: 8192\n"
                      "model:\n  _component_: torchtune.models.llama3_1.llama3_1_8b\nbatch_size: 2\n"
                      "enable_activation_checkpointing: True\ndtype: bf16\noptimizer:\n"
                      "  _component_: torch.optim.AdamW\nloss:\n  _component_: torch.nn.CrossEntropyLoss\n"};
const Tool kSwift{"swift.sh",
                  "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --train_type lora --dataset x "
                  "--torch_dtype bfloat16 --max_length 2048 --per_device_train_batch_size 1"};

LaunchJob with(const Tool& tool, const std::string& more) { return job_of(tool.file, tool.text + more + "\n", on(8)); }

}  // namespace

TEST_CASE("arguments that nothing here counts are named in the words of each tool") {
  const std::vector<std::pair<Tool, std::vector<std::string>>> rows = {
      {kAxolotl,
       {"unfrozen_parameters:\n  - ^lm_head.weight$", "lisa_n_layers: 2", "optim_target_modules: [attn]",
        "s2_attention: true", "tiled_mlp: true", "chunked_cross_entropy: true", "bfloat16: true", "kd_trainer: true",
        "reward_model: true", "qat:\n  weight_dtype: int4"}},
      {kFactory, {"shift_attn: true", "use_unsloth_gc: true", "use_kt: true"}},
      {kTorchtune, {"compile: True", "ac_mode: selective"}},
      {kSwift, {" --lisa_activated_layers 2", " --trainable_parameters lm_head"}}};
  for (const auto& [tool, lines] : rows) {
    const std::size_t before = with(tool, "").unused.size();
    for (const std::string& line : lines) {
      CAPTURE(line);
      CHECK(with(tool, line).unused.size() == before + 1);
    }
  }
  // What is switched off, or lists nothing, changes nothing.
  for (const char* off : {"unfrozen_parameters: []", "tiled_mlp: false", "lisa_n_layers:"}) {
    CAPTURE(off);
    CHECK(with(kAxolotl, off).unused.size() == with(kAxolotl, "").unused.size());
  }
  const Tool chunked{kTorchtune.file, replaced(kTorchtune.text, "torch.nn.CrossEntropyLoss",
                                               "torchtune.modules.loss.LinearCrossEntropyLoss")};
  CHECK(names(with(chunked, "").unused, "chunks"));
}

TEST_CASE("LLaMA-Factory's keys say the same in a file and as flags of its command") {
  const std::vector<std::string> base = {"model_name_or_path: meta-llama/Meta-Llama-3-8B", "stage: sft"};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"finetuning_type: full"},
        {"finetuning_type: lora", "lora_target: all"},
        {"finetuning_type: lora", "lora_rank: 16", "per_device_train_batch_size: 2"},
        {"cutoff_len: 4096", "per_device_train_batch_size: 1", "gradient_accumulation_steps: 4", "bf16: true"},
        {"finetuning_type: full", "disable_gradient_checkpointing: true", "cutoff_len: 1024"},
        {"finetuning_type: full", "gradient_checkpointing: false", "per_device_train_batch_size: 4"}}) {
    std::string file, flags;
    for (const auto* lines : {&base, &more})
      for (const std::string& line : *lines) {
        file += line + "\n";
        flags += " --" + line.substr(0, line.find(':')) + line.substr(line.find(':') + 1);
      }
    if (file.find("per_device") == std::string::npos) flags += " --per_device_train_batch_size 8";  // its default
    for (const char* start : {"llamafactory-cli train", "python src/train_bash.py --do_train",
                              "deepspeed --num_gpus 8 src/train.py --do_train"}) {
      CAPTURE(file);
      CAPTURE(std::string(start));
      const LaunchJob a = job_of("a.yaml", file + "do_train: true\n", on(8)), b = job_of("b.sh", start + flags, on(8));
      CHECK(a.training->task == b.training->task);
      CHECK(a.training->lora.rank == b.training->lora.rank);
      CHECK(a.training->seq == b.training->seq);
      CHECK(a.training->global_batch == b.training->global_batch);
      CHECK(a.fixed.recompute == b.fixed.recompute);
      CHECK(a.fixed.micro_batch == b.fixed.micro_batch);
    }
  }
}

TEST_CASE("bf16 that is switched off is not counted, whatever a tool's default is") {
  const Tool second{"v1.yaml",
                    "model: Qwen/Qwen3-4B\nmodel_class: llm\nmicro_batch_size: 1\nglobal_batch_size: 8\n"
                    "cutoff_len: 2048\ndist_config:\n  name: fsdp2\n"};
  CHECK(with(second, "").training->precision == Precision::Bf16);
  CHECK(with(second, "bf16: false").training->precision == Precision::Fp32);
  const Tool axolotl{kAxolotl.file, replaced(kAxolotl.text, "bf16: true\n", "")};
  CHECK(with(axolotl, "").training->precision == Precision::Bf16);
  CHECK(with(axolotl, "bf16: auto").training->precision == Precision::Bf16);
  CHECK(with(axolotl, "bf16: false").training->precision == Precision::Fp32);
  CHECK(with(axolotl, "bf16: false\nfp16: true").training->precision == Precision::Fp16);
}

TEST_CASE("torchtune's other switch of recomputation counts where the first is off") {
  const Tool off{kTorchtune.file, replaced(kTorchtune.text, "enable_activation_checkpointing: True",
                                           "enable_activation_checkpointing: False")};
  const auto kind = [](const LaunchJob& job) { return job.fixed.recompute->kind; };
  CHECK(kind(with(off, "")) == RecomputeKind::None);
  CHECK(kind(with(off, "ac_mode: null")) == RecomputeKind::None);
  for (const char* mode : {"ac_mode: full", "ac_mode: selective\nac_option: 2"}) {
    CAPTURE(std::string(mode));
    CHECK(kind(with(off, mode)) == RecomputeKind::Full);
    CHECK(kind(with(kTorchtune, mode)) == RecomputeKind::Full);
  }
}

TEST_CASE("methods that a fork of LLaMA-Factory's switches on are named") {
  for (const char* on : {"use_mfsgd", "use_fisher", "use_some_optimizer"}) {
    CAPTURE(std::string(on));
    CHECK(names(with(kFactory, fmt::format("{}: true", on)).unused, on));
    CHECK_FALSE(names(with(kFactory, fmt::format("{}: false", on)).unused, on));
  }
  for (const char* harmless : {"use_fast_tokenizer", "use_swanlab", "use_ray"})
    CHECK(with(kFactory, fmt::format("{}: true", harmless)).unused.size() == with(kFactory, "").unused.size());
}

TEST_CASE("samples that LongAlign has packed or sorted beforehand are told of, and its plain batches are not") {
  const Tool tool{"run.sh",
                  "deepspeed --num_gpus 8 main.py --model_name_or_path meta-llama/Llama-2-7b-hf --train_file data "
                  "--per_device_train_batch_size 1 --gradient_checkpointing 1 --bf16 "};
  for (const char* words : {"--batch_method pack --pack_loss", "--batch_method \"sort\"", "--batch_method=pack"}) {
    CAPTURE(std::string(words));
    CHECK(names(with(tool, words).unused, "batch_method"));
  }
  CHECK(with(tool, "--batch_method naive").unused.size() == with(tool, "").unused.size());
}

TEST_CASE("an object in one word of a command says what its section says in a file") {
  const std::string start = "torchrun --nproc_per_node 8 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B ";
  const std::string usual = "--per_device_train_batch_size 2 --max_length 2048 --bf16 true ";
  const auto command = [&](const std::string& words) { return with({"run.sh", start + usual}, words); };
  const Tool file{"args.yaml",
                  "model_name_or_path: meta-llama/Meta-Llama-3-8B\nper_device_train_batch_size: 2\n"
                  "max_length: 2048\nbf16: true\n"};
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"--accelerator_config '{\"split_batches\": true}'", "accelerator_config:\n  split_batches: true"},
      {"--model_init_kwargs '{\"attn_implementation\": \"eager\"}'",
       "model_init_kwargs:\n  attn_implementation: eager"},
      {"--model_init_kwargs '{\"load_in_4bit\": true}' --use_peft", "load_in_4bit: true\nuse_peft: true"},
      {"--deepspeed '{\"zero_optimization\": {\"stage\": 2}, \"train_micro_batch_size_per_gpu\": 2}'", ""},
      {"--fsdp full_shard --fsdp_config '{\"offload_params\": true}'",
       "fsdp: full_shard\nfsdp_config:\n  offload_params: true"}};
  const LaunchJob plain = command("");
  for (const auto& row : rows) {
    const std::string &words = row.first, &section = row.second;
    CAPTURE(words);
    const LaunchJob job = command(words);
    const bool changed = job.training != plain.training || job.fixed != plain.fixed;
    CHECK((changed || job.unused.size() > plain.unused.size()));
    if (section.empty()) continue;
    const LaunchJob same = with(file, section);
    CHECK(job.training == same.training);
    CHECK(job.fixed == same.fixed);
    CHECK(job.unused.size() - plain.unused.size() == same.unused.size() - with(file, "").unused.size());
  }
  CHECK(command("--deepspeed '{\"zero_optimization\": {\"stage\": 2}}'").fixed.zero == 2);
  CHECK(error_of("run.sh", start + usual + "--accelerator_config '{split_batches'\n", on(8)) == "bad_object");
  CHECK_FALSE(command(rows[1].first).training->stack.flash_attention);
  CHECK(command("--model_init_kwargs '{\"attn_implementation\": \"flash_attention_2\"}'")
            .training->stack.flash_attention);
}

TEST_CASE("Muon, losses that never keep their logits and weights in 4 bits count as such") {
  const Tool muon{kAxolotl.file, replaced(kAxolotl.text, "adamw_torch", "muon")};
  CHECK(with(muon, "").training->optimizer == Optimizer::Muon);
  CHECK(with(kFactory, "use_muon: true").training->optimizer == Optimizer::Muon);
  CHECK(with(kFactory, "use_muon: false").training->optimizer == Optimizer::Adam);
  CHECK(with(kAxolotl, "flash_attn_cross_entropy: true").training->stack.cross_entropy == CrossEntropy::Compiled);
  CHECK(with(kAxolotl, "flash_attn_cross_entropy: false").training->stack.cross_entropy != CrossEntropy::Compiled);
  CHECK(names(with(kAxolotl, "flash_attn_fuse_mlp: true").unused, "flash_attn_fuse_mlp"));
  const std::string plugin = "plugins:\n  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin";
  CHECK(with(kAxolotl, plugin).training->stack.cross_entropy == CrossEntropy::Chunked);
  CHECK(with(kAxolotl, plugin + "\ncut_cross_entropy: false").training->stack.cross_entropy ==
        with(kAxolotl, "").training->stack.cross_entropy);
  CHECK(with(kSwift, " --quant_method bnb --quant_bits 4").training->task == Task::Qlora);
  CHECK(with(kSwift, "").training->task == Task::Lora);
}

TEST_CASE("a launcher's precision beside the Trainer's own is no argument of unknown effect") {
  const std::string script =
      "accelerate launch --num_processes 8 --mixed_precision bf16 train.py --model_name_or_path Qwen/Qwen2.5-3B "
      "--per_device_train_batch_size 2 --bf16 --max_length 4096\n";
  const LaunchJob job = job_of("train.sh", script, on(8));
  CHECK(job.training->precision == Precision::Bf16);
  CHECK_FALSE(names(job.unused, "mixed_precision"));
  CHECK(job_of("train.sh", replaced(script, " --bf16", ""), on(8)).training->precision == Precision::Bf16);
}

TEST_CASE("weights loaded in 16 bits are named where nothing keeps an fp32 copy") {
  const std::string script =
      "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-3B --per_device_train_batch_size 2 "
      "--bf16 "
      "--max_length 4096";
  const auto told = [&](const std::string& more) {
    return names(job_of("t.sh", script + more + "\n", on(8)).unused, "16 bits");
  };
  CHECK_FALSE(told(""));
  CHECK(told(" --torch_dtype bfloat16"));
  CHECK_FALSE(told(" --torch_dtype float32"));
  CHECK_FALSE(told(" --torch_dtype bfloat16 --fsdp full_shard"));
  CHECK_FALSE(told(" --torch_dtype bfloat16 --use_peft True --lora_r 8"));
}

TEST_CASE("models beside the trained one, and flags of Megatron-LM that cost time, are named") {
  const std::string script =
      "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-3B --per_device_train_batch_size 2 "
      "--bf16 "
      "--max_length 4096";
  for (const char* more : {" --teacher_model_name_or_path x", " --ref_model x", " --vision_tower x",
                           " --full_determinism True", " --num_generations 8", " --torch_empty_cache_steps 5"}) {
    CAPTURE(more);
    CHECK(job_of("t.sh", script + more + "\n", on(8)).unused.size() == 1);
  }
  const std::string megatron =
      "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --num-attention-heads 16 "
      "--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 16 --eval-interval 10 "
      "--vocab-size 32000 --bf16";
  CHECK(job_of("m.sh", megatron + "\n", on(8)).unused.empty());
  for (const char* more :
       {" --no-rope-fusion", " --no-bias-swiglu-fusion", " --use-sharp", " --batch-invariant-mode"}) {
    CAPTURE(more);
    CHECK(job_of("m.sh", megatron + more + "\n", on(8)).unused.size() == 1);
  }
}

TEST_CASE("a language model that is kept as it is, and towers beside it, are told") {
  const auto script = [](const std::string& more) {
    return job_of("t.sh",
                  "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-3B "
                  "--per_device_train_batch_size 2 --bf16 --max_length 4096 " +
                      more + "\n",
                  on(8));
  };
  for (const char* key : {"freeze_llm", "freeze_backbone", "freeze_language_model", "tune_mm_mlp_adapter",
                          "tune_mm_llm", "tune_language_model", "tune_llm"})
    for (const bool on : {false, true}) {
      const std::string word = fmt::format("--{} {}", key, on ? "True" : "False");
      CAPTURE(word);
      const bool frozen = std::string(key).starts_with("tune") && std::string(key) != "tune_mm_mlp_adapter" ? !on : on;
      CHECK(names(script(word).unused, "frozen weights are counted as trained") == frozen);
      CHECK_FALSE(names(script(word + " --lora_r 16 --use_lora True").unused, "counted as trained"));
    }
  CHECK(names(script("--mm_tunable_parts mm_mlp_adapter").unused, "counted as trained"));
  CHECK_FALSE(names(script("--mm_tunable_parts mm_mlp_adapter,mm_language_model").unused, "counted as trained"));
  for (const char* tower : {"vision_tower", "image_tower", "speech_tower", "video_tower"}) {
    CHECK(names(script(fmt::format("--{} a/b", tower)).unused, tower));
    CHECK_FALSE(names(script(fmt::format("--{} False", tower)).unused, "tower"));
  }
}

TEST_CASE("words of programs' own switch adapters on, give their rank and name their model") {
  const std::string head =
      "torchrun --nproc_per_node 8 train.py --per_device_train_batch_size 2 --bf16 --max_length 512 ";
  const auto read = [&](const std::string& more) { return job_of("t.sh", head + more + "\n", on(8)); };
  const std::string model = "--model_name_or_path Qwen/Qwen2.5-3B ";
  CHECK(read(model + "--low_rank_training True").training->task == Task::Lora);
  CHECK(read(model + "--low_rank_training False").training->task == Task::FullFinetune);
  const LaunchJob ranked = read(model + "--use_peft True --peft_lora_r 24");
  CHECK(ranked.training->task == Task::Lora);
  CHECK(ranked.training->lora.rank == 24);
  CHECK(names(read(model + "--rank 16").unused, "rank"));
  CHECK(names(read(model + "--num_labels 3").unused, "num_labels"));
  for (const char* key : {"model_name", "model_id", "model_path", "model"}) {
    CAPTURE(key);
    CHECK(read(fmt::format("--{} Qwen/Qwen2.5-3B", key)).model->name == "qwen2.5-3b");
    CHECK(read(fmt::format("{}--{} own/thing", model, key)).model->name == "qwen2.5-3b");
  }
  const std::string cache = "--model_name_or_path /root/.cache/huggingface/hub/models--Qwen--Qwen2.5-3B/snapshots/";
  CHECK(read(cache + "3aab1f1954e9cc14eb9509a215f9e5ca08227a9b").model->name == "qwen2.5-3b");
}

TEST_CASE("weights that the model's name says are in few bits are no bf16") {
  const auto tuned = [](const std::string& model, const std::string& type) {
    return job_of("f.yaml", replaced(replaced(kFactory.text, "meta-llama/Meta-Llama-3-8B", model), "full", type),
                  on(8));
  };
  for (const char* model :
       {"unsloth/Meta-Llama-3.1-8B-bnb-4bit", "Qwen/Qwen2.5-7B-Instruct-AWQ", "/data/Qwen2.5-7B-Instruct-GPTQ-Int4/"})
    CHECK(tuned(model, "lora").training->task == Task::Qlora);
  CHECK(tuned("Qwen/Qwen2.5-7B-Instruct", "lora").training->task == Task::Lora);
  const LaunchJob eight = tuned("meta-llama/Llama-3.1-8B-Instruct-FP8", "lora");
  CHECK(eight.training->task == Task::Lora);
  CHECK(names(eight.unused, "in 8 bits"));
}

TEST_CASE("a word for the type of weights counts, is told or is refused, in every tool that has no other") {
  const std::string own =
      "torchrun --nnodes 1 --nproc_per_node 8 own.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct "
      "--per_device_train_batch_size 2 --max_seq_length 8192 --torch_dtype ";
  const std::string swift =
      "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B-Instruct --max_length 8192 --torch_dtype ";
  const auto format = [](const std::string& text) { return job_of("own.sh", text + "\n").training->precision; };
  for (const std::string& command : {own, swift}) {
    CAPTURE(command);
    CHECK(format(command + "bfloat16") == Precision::Bf16);
    CHECK(format(command + "float16") == Precision::Fp16);
    CHECK(format(command + "float32") == Precision::Fp32);
    for (const char* wrong : {"\"$DTYPE\"", "bfloat61", "int8"}) {
      CAPTURE(std::string(wrong));
      const Files files;
      const Result<LaunchJob> job = files.read("own.sh", command + wrong + "\n");
      REQUIRE_FALSE(job);
      CHECK(job.error().front().message.find("`torch_dtype`") != std::string::npos);
    }
  }
  CHECK(names(job_of("own.sh", own + "auto\n").unused, "format of the checkpoint"));
  CHECK(format(swift + "auto") == Precision::Bf16);
}

TEST_CASE("a program that a command looks up is that program") {
  const std::string words =
      " sft --model Qwen/Qwen2.5-7B-Instruct --max_length 8192 --per_device_train_batch_size 2 --train_type full\n";
  for (const char* program :
       {"swift", "$(which swift)", "`which swift`", "$(command -v swift)", "\"$(which swift)\""}) {
    CAPTURE(std::string(program));
    const LaunchJob job = job_of("own.sh", std::string("torchrun --nnodes 1 --nproc_per_node 4 ") + program + words);
    CHECK(job.gpus == 4);
    CHECK(job.training->precision == Precision::Bf16);
  }
}

TEST_CASE("programs' own names for recomputation and ZeRO's stage count") {
  const std::string command =
      "#!/bin/bash\ntorchrun --nnodes 1 --nproc_per_node 8 own.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct "
      "--per_device_train_batch_size 2 --gradient_accumulation_steps 4 --max_seq_length 8192 ";
  const auto recomputes = [&](const std::string& more) {
    const LaunchJob job = job_of("own.sh", command + more + "\n");
    return job.fixed.recompute && job.fixed.recompute->kind == RecomputeKind::Full;
  };
  for (const char* name : {"gradient_checkpointing", "use_gradient_checkpointing", "grad_checkpoint",
                           "use_grad_checkpoint", "gradient_checkpoint"}) {
    CAPTURE(std::string(name));
    CHECK(recomputes(std::string("--bf16 True --") + name + " True"));
    CHECK_FALSE(recomputes(std::string("--bf16 True --") + name + " False"));
  }
  const LaunchJob staged = job_of("own.sh", command + "--deepspeed_stage 3 --num_learners_per_node 6\n");
  CHECK(staged.fixed.zero == 3);
  CHECK(staged.training->precision == Precision::Bf16);
  CHECK(names(staged.unused, "num_learners_per_node"));
}

TEST_CASE("torchtune's parts of a model are told where each is trained otherwise than counted") {
  const auto told = [](const std::string& part, const std::string& word) {
    const std::string text = replaced(kTorchtune.text, "model:\n", "model:\n  " + part + "_trainable: " + word + "\n");
    return names(job_of(kTorchtune.file, text, on(8)).unused, part + "_trainable");
  };
  for (const char* word : {"frozen", "\"frozen\"", "lora", "full"}) {
    CAPTURE(std::string(word));
    const bool frozen = std::string(word).find("frozen") != std::string::npos;
    CHECK(told("decoder", word) == frozen);
    CHECK(told("encoder", word) == !frozen);
    CHECK(told("fusion", word) == !frozen);
  }
}

TEST_CASE("a program's own word for what it trains, and what it freezes, is told") {
  const Tool tool{"args.yaml",
                  "model_name_or_path: meta-llama/Meta-Llama-3-8B\nper_device_train_batch_size: 2\n"
                  "max_length: 2048\nbf16: true\n"};
  for (const char* word : {"training_method: GRPO", "algorithm: ppo", "loss_type: dpo", "trainer_type: kto"}) {
    CAPTURE(std::string(word));
    CHECK(names(with(tool, word).unused, "models beside the trained one"));
  }
  CHECK(names(with(tool, "spectrum_config_path: a.yaml").unused, "spectrum_config_path"));
  for (const char* plain : {"run_name: dpo", "training_method: sft", "algorithm: adamw"})
    CHECK_FALSE(names(with(tool, plain).unused, "models beside"));
}

}  // namespace plan
